"""``python -m mtlrun``."""

from mtlrun.cli.app import main

main()
