"""Print how many files of mtlrun execute a function on the way of one number of `reproduce table2 --profile demo`.

The command runs with one small cell of its plan, its report included. Importing a module does not count by itself;
executing one of its functions or methods does, also where an import calls it. Fails above `MOST`.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import mtlrun
from mtlrun.cli.app import app

MOST = 70
PACKAGE = str(Path(mtlrun.__file__).parent)
ARGUMENTS = [
    "reproduce",
    "table2",
    "--profile",
    "demo",
    "--only",
    "method=RidgeReg",
    "--only",
    "trial=0",
]


def walk(arguments: list[str]) -> list[str]:
    """Run a command in this process and return the files whose functions it executes, by their paths in mtlrun."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if (
            event == "call"
            and code.co_filename.startswith(PACKAGE)
            and code.co_flags & 1
        ):  # CO_OPTIMIZED: a function
            found.add(code.co_filename)

    sys.setprofile(note)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            app(arguments, standalone_mode=False)
    finally:
        sys.setprofile(None)
    return sorted(str(Path(name).relative_to(PACKAGE)) for name in found)


def main() -> int:
    """Print the files and their number."""
    with tempfile.TemporaryDirectory() as folder:
        files = walk([*ARGUMENTS, "--output", folder])
    sys.stdout.write(
        "\n".join([*files, f"{len(files)} files, at most {MOST} are asked"]) + "\n"
    )
    return int(len(files) > MOST)


if __name__ == "__main__":
    sys.exit(main())
