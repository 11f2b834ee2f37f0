"""Count what of mtlrun executes on the way of one number, and of a small comparison.

``python scripts/walk.py [reproduce|compare]`` prints the files, and how many functions
of how many classes they have that execute. ``reproduce`` computes one number of
``reproduce table2 --profile demo``, its report included; ``compare`` compares the four
baselines on a table of 120 rows. Importing a module does not count by itself; executing
one of its functions or methods does, also where an import calls it.

The script fails above `LIMITS`. They are little above the present counts: lower them
when a walk has become shorter. The aims are 450 functions of 45 classes for
``reproduce``, and 500 functions in 60 files for ``compare``.
"""

from __future__ import annotations

import contextlib
import cProfile
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType

import mtlrun
from mtlrun.cli.app import app
from mtlrun.utils.io import jsonable

PACKAGE = str(Path(mtlrun.__file__).parent)
#: Flag of code objects of functions, in contrast to classes and modules.
CO_OPTIMIZED = 1


@dataclass(frozen=True)
class Counts:
    """How much of the package executes on a walk.

    Attributes
    ----------
    files, functions, classes : int
        That execute.
    jsonable : int
        Calls of `mtlrun.utils.io.jsonable`, which also calls itself.
    """

    files: int
    functions: int
    classes: int
    jsonable: int


# The aims were set before a comparison had two alternatives, intervals and pictures, and
# before packed statements became small functions with names. Lowered on 2026-11-28: what
# a walk does not need is not executed on it, and functions that only forwarded are part
# of their callers. Lowered on 2026-11-29: a comparison of baselines does not test
# differences between tasks, and its table is not stored and read back. Raised on the same
# day by the files of colors and drawings, the options of `compare`, its look, and the
# class of the results of searches. Lowered again on the same day: a comparison and a
# training look for files of an earlier result only in a folder that exists, results
# hold as fields what was a property, and files with one reader are part of it.
LIMITS = {
    "reproduce": Counts(files=94, functions=825, classes=72, jsonable=4_890),
    "compare": Counts(files=106, functions=937, classes=95, jsonable=3_750),
}


def executed(arguments: list[str]) -> Counter[CodeType]:
    """Run a command in this process and count the calls of functions of mtlrun."""
    profile = cProfile.Profile(builtins=False)
    with contextlib.redirect_stdout(io.StringIO()), profile:
        app(arguments, standalone_mode=False)
    codes: Counter[CodeType] = Counter()
    for entry in profile.getstats():
        code = entry.code
        if not isinstance(code, CodeType):
            continue
        is_ours = code.co_filename.startswith(PACKAGE)
        if is_ours and code.co_flags & CO_OPTIMIZED:
            codes[code] += entry.callcount
    return codes


def files_of(codes: Iterable[CodeType]) -> list[str]:
    """Return the files of some functions, by their paths in mtlrun."""
    paths = {Path(code.co_filename).relative_to(PACKAGE) for code in codes}
    return sorted(path.as_posix() for path in paths)


def counts_of(codes: Counter[CodeType]) -> Counts:
    """Return how many functions these are, in how many files and classes.

    Comprehensions, generator expressions and lambdas belong to the function around
    them.
    """
    named = {code for code in codes if not code.co_name.startswith("<")}
    owners = {(code.co_filename, code.co_qualname.rpartition(".")[0]) for code in named}
    classes = {owner for owner in owners if owner[1] and "<locals>" not in owner[1]}
    calls = codes[jsonable.__code__]
    return Counts(len(files_of(codes)), len(named), len(classes), calls)


def write_table(path: Path) -> None:
    """Write a table of three schools with 40 rows each."""
    lines = ["a,b,school,grade"]
    for row in range(120):
        a = (row * 37 % 101) / 101
        b = (row * 53 % 97) / 97
        lines.append(f"{a:.4f},{b:.4f},school {row % 3},{2 * a - b + row % 3:.4f}")
    path.write_text("\n".join(lines) + "\n")


def arguments_of(walk: str, folder: Path) -> list[str]:
    """Return the command of a walk, which writes into a folder."""
    output = ["--output", str(folder / "runs")]
    if walk == "reproduce":
        only = ["--only", "method=RidgeReg", "--only", "trial=0"]
        return ["reproduce", "table2", "--profile", "demo", *only, *output]
    table = folder / "grades.csv"
    write_table(table)
    columns = ["--target", "grade", "--task", "school"]
    # A method that is always compared adds none to the four baselines.
    return ["compare", str(table), *columns, "--methods", "PooledRidge", *output]


def main() -> int:
    """Print a walk and its counts; return 1 if they are above the limits."""
    walk = sys.argv[1] if len(sys.argv) > 1 else "reproduce"
    with tempfile.TemporaryDirectory() as folder:
        codes = executed(arguments_of(walk, Path(folder)))
    counts = counts_of(codes)
    limit = LIMITS[walk]
    present, limits = asdict(counts), asdict(limit)
    lines = files_of(codes)
    lines += [f"{present[name]} {name} (limit {limits[name]})" for name in present]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(any(present[name] > limits[name] for name in present))


if __name__ == "__main__":
    sys.exit(main())
