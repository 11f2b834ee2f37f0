"""Rewrite the committed runs below results/ so that they take as little space as they
can.

``python scripts/compact_results.py results`` after runs were added or computed again.
Nothing is computed, and all reports stay the same; a second call changes nothing.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mtlrun.lab.results import compact_run


def size_of(folder: Path) -> int:
    """Return the bytes of the files of a run."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main(arguments: list[str] | None = None) -> int:
    """Compact all runs of a folder; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root", type=Path, help="folder of runs, for instance results")
    root: Path = parser.parse_args(arguments).root
    for path in sorted(root.glob("*/*/*/run.json")):
        folder = path.parent
        before = size_of(folder)
        compact_run(folder)
        after = size_of(folder)
        if after != before:
            place = folder.relative_to(root).as_posix()
            sys.stdout.write(f"{place}: {before:,} -> {after:,} bytes\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
