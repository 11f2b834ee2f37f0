"""``python -m mtlrun``."""

import os
import sys

import mtlrun

# Python puts the current folder in front of all that is installed; only what is named there is to be imported from it.
# mtlrun itself may lie there, in a checkout that is not installed.
if not sys.flags.safe_path and os.path.dirname(mtlrun.__path__[0]) != os.getcwd() == sys.path[0]:
    del sys.path[0]

from mtlrun.cli.app import main

main()
