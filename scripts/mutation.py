"""Change the code in a few places and see whether its tests notice.

    python scripts/mutation.py [--base main] [--number 60] [--seconds 900] [FILE ...]

A mutation changes a comparison, an operator, a number, a truth value or a condition of
a file (default: the files of mtlrun that have changed since the base, and if there are
none, those of the last commit). The files of tests nearest to the file run until one
fails: those in the folder of the same name, and those that import it. Everything
happens in copies of the project. The kernels of a file that compiles some run as
Python.

A mutation that survives is either without effect, or a test is missing.
"""

from __future__ import annotations

import argparse
import ast
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

# Loaded once, for the processes of all mutations.
import hypothesis
import pandas as pd
import pytest
import sklearn.linear_model
import sklearn.model_selection

PRELOADED = (hypothesis, pd, sklearn)
ROOT = Path(__file__).resolve().parents[1]
#: A file of tests that runs for longer is left out, in seconds; on a busy machine the
#: nearest ones take a minute.
MAX_TEST_S = 120.0
#: Files of tests are added until they run for this time, in seconds.
ENOUGH_S = 20.0
#: A mutation that takes this many times longer never ends.
HANG_FACTOR = 4.0
#: Exit code of pytest if all tests pass.
PASSED = 0
COMPARISONS = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
OPERATORS = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "/",
    ast.Pow: "*",
    ast.And: "or",
    ast.Or: "and",
}


@dataclass(frozen=True)
class Mutation:
    """Another text for a part of a file, from `start` to `end` (characters)."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before}  ->  {self.after}"

    def applied(self, text: str) -> str:
        """Return the text of the file with the mutation."""
        return text[: self.start] + self.after + text[self.end :]


@dataclass(frozen=True)
class Tests:
    """Files of tests of a file of code, the nearest first, and their seconds."""

    files: tuple[str, ...]
    seconds: float


class Sites(ast.NodeVisitor):
    """Collect the mutations of a file."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        lines = text.splitlines(keepends=True)
        self.line_starts = [0]
        for line in lines:
            self.line_starts.append(self.line_starts[-1] + len(line))
        self.lines = lines
        self.mutations: list[Mutation] = []
        self.visit(ast.parse(text))

    def position(self, line: int, column: int) -> int:
        """Return the index of a character; columns of `ast` count bytes."""
        before = self.lines[line - 1].encode()[:column].decode()
        return self.line_starts[line - 1] + len(before)

    def add(self, node: ast.expr, after: str) -> None:
        """Replace a node by a text."""
        start = self.position(node.lineno, node.col_offset)
        end = self.position(node.end_lineno or 0, node.end_col_offset or 0)
        before = " ".join(self.text[start:end].split())
        shown = before if len(before) < 60 else before[:57] + "..."
        mutation = Mutation(self.file, node.lineno, start, end, shown, after)
        self.mutations.append(mutation)

    def source(self, node: ast.expr) -> str:
        """Return the text of a node, in parentheses."""
        return f"({ast.get_source_segment(self.text, node)})"

    def visit_Compare(self, node: ast.Compare) -> None:
        """Move or turn a comparison of two values."""
        if len(node.ops) == 1:
            sign = COMPARISONS[type(node.ops[0])]
            left = self.source(node.left)
            self.add(node, f"{left} {sign} {self.source(node.comparators[0])}")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Replace an arithmetic operator, except in texts and types."""
        sign = OPERATORS.get(type(node.op))
        is_text = any(
            isinstance(side, ast.JoinedStr)
            or (isinstance(side, ast.Constant) and isinstance(side.value, str))
            for side in (node.left, node.right)
        )
        if sign is not None and not is_text:
            self.add(node, f"{self.source(node.left)} {sign} {self.source(node.right)}")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Exchange `and` and `or`."""
        sign = OPERATORS[type(node.op)]
        self.add(node, f" {sign} ".join(map(self.source, node.values)))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Leave out `not` and signs."""
        if isinstance(node.op, ast.Not | ast.USub):
            self.add(node, self.source(node.operand))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Change a number or a truth value."""
        if isinstance(node.value, bool):
            self.add(node, str(not node.value))
        elif isinstance(node.value, int | float):
            self.add(node, repr(node.value + 1))

    def visit_If(self, node: ast.If) -> None:
        """Negate a condition."""
        self.add(node.test, f"not {self.source(node.test)}")
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave texts as they are."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Leave annotations as they are."""
        if node.value is not None:
            self.visit(node.value)


def changed_files(base: str) -> list[str]:
    """Return the files of the package that have changed since a commit."""
    for start in (base, "HEAD~1"):
        command = [
            "git",
            "diff",
            "--name-only",
            "--diff-filter=d",
            start,
            "--",
            "mtlrun",
        ]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        files = [name for name in result.stdout.split() if name.endswith(".py")]
        # Generated data
        files = [name for name in files if not name.endswith("_data.py")]
        if files:
            return files
    return []


def sample(files: list[str], number: int, seed: int) -> list[Mutation]:
    """Return mutations of the files; each file has its turn."""
    rng = random.Random(seed)
    by_file = []
    for file in files:
        mutations = Sites(file, (ROOT / file).read_text("utf-8")).mutations
        by_file.append(rng.sample(mutations, len(mutations)))
    chosen: list[Mutation] = []
    while len(chosen) < number and any(by_file):
        for mutations in by_file:
            if mutations and len(chosen) < number:
                chosen.append(mutations.pop())
    return chosen


def nearest_tests(file: str) -> list[str]:
    """Return files of tests, the nearest to a file of code first.

    The nearest have its name, or that of its package, in the folder of its name; then
    those in this folder and those elsewhere that import the file; then the rest of the
    folder.
    """
    code = Path(file)
    module = ".".join(code.with_suffix("").parts).removesuffix(".__init__")
    folder = Path("tests", *code.parts[1:-1])
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    parent, _, name = module.rpartition(".")
    imports = re.compile(
        rf"{re.escape(module)}\b|from {re.escape(parent)} import [^\n]*\b{name}\b"
    )

    def rank(path: Path) -> tuple[bool, bool, bool, str]:
        is_namesake = path.stem.removeprefix("test_").startswith(name)
        # A package without a folder of tests has a file, such as test_metrics.py.
        is_namesake = is_namesake or path.stem == f"test_{code.parent.name}"
        is_importing = imports.search(path.read_text("utf-8")) is not None
        is_near = path.is_relative_to(ROOT / folder)
        return not (is_namesake and is_near), not is_importing, not is_near, path.name

    ranked = sorted((rank(path), path) for path in (ROOT / "tests").rglob("test_*.py"))
    return [
        str(path.relative_to(ROOT))
        for (_, not_importing, not_near, _), path in ranked
        if not (not_importing and not_near)
    ]


class Copy:
    """A copy of the project in which the tests of a file run."""

    def __init__(self, folder: Path, file: str) -> None:
        self.folder = folder
        self.file = file
        command = [
            "git",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)

    def start(self, tests: Sequence[str]) -> int:
        """Start tests in a process forked from this one, and return its id.

        This process has the libraries loaded, but no module of the project.
        """
        pid = os.fork()
        if pid:
            return pid
        code = 3
        try:
            os.setsid()
            os.chdir(self.folder)
            os.environ["PYTHONPATH"] = str(self.folder)
            if "mtlrun.utils.jit" in (ROOT / self.file).read_text("utf-8"):
                # Machine code of a changed kernel would be made anew each time.
                os.environ["NUMBA_DISABLE_JIT"] = "1"
            sys.path.insert(0, str(self.folder))
            # Two mutations of one second may have the same size.
            sys.dont_write_bytecode = True
            null = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            options = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
            code = int(pytest.main([*options, "-p", "no:xdist", *tests]))
        finally:
            os._exit(code)

    def run(self, tests: Sequence[str], limit: float) -> int | None:
        """Return the exit code of tests, or None after the time limit."""
        pid = self.start(tests)
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            time.sleep(0.05)
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return None

    def measure(self) -> Tests:
        """Return as many of the nearest tests of the file as pass in `ENOUGH_S`."""
        chosen: list[str] = []
        total = 0.0
        for test in nearest_tests(self.file):
            start = time.monotonic()
            code = self.run([test], limit=MAX_TEST_S)
            if code == PASSED:
                chosen.append(test)
                total += time.monotonic() - start
            elif code is None:
                say(f"{test} is left out: it takes more than {MAX_TEST_S:g} s")
            if total > ENOUGH_S:
                break
        return Tests(tuple(chosen), total)

    def outcome(self, mutation: Mutation, tests: Tests) -> str:
        """Return whether tests notice a mutation: "killed", "hangs" or "survived"."""
        path = self.folder / mutation.file
        text = path.read_text("utf-8")
        path.write_text(mutation.applied(text), "utf-8")
        try:
            code = self.run(tests.files, limit=HANG_FACTOR * tests.seconds + 20)
        finally:
            path.write_text(text, "utf-8")
        if code is None:
            return "hangs"
        return "survived" if code == PASSED else "killed"


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def work(
    folder: Path, file: str, mutations: list[Mutation], end: float
) -> Counter[str]:
    """Try the mutations of a file until the time is over; print those that survive."""
    outcomes: Counter[str] = Counter()
    if time.monotonic() > end:
        return outcomes
    copy = Copy(folder, file)
    tests = copy.measure()
    if not tests.files:
        say(f"{file}: no fast test that imports it passes")
        mutations = []
    for mutation in mutations:
        if time.monotonic() > end:
            break
        outcome = copy.outcome(mutation, tests)
        outcomes[outcome] += 1
        if outcome == "survived":
            say(f"survived: {mutation}  ({len(tests.files)} files of tests)")
    shutil.rmtree(folder)
    return outcomes


def main() -> int:
    """Try mutations and print those that no test notices."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "files", nargs="*", help="files of mtlrun instead of changed ones"
    )
    parser.add_argument("--base", default="main", help="commit before the changes")
    parser.add_argument("--number", type=int, default=60, help="mutations at most")
    parser.add_argument("--seconds", type=float, default=900, help="time limit")
    parser.add_argument("--seed", type=int, default=0, help="other mutations")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    files = options.files or changed_files(options.base)
    absent = [file for file in files if not (ROOT / file).is_file()]
    if absent or not files:
        names = ", ".join(absent) or f"no file of mtlrun differs from {options.base}"
        sys.stderr.write(f"{names}: name files, as in ARGS=mtlrun/engine/fit.py\n")
        return 2
    chosen = sample(files, options.number, options.seed)
    say(f"{len(chosen)} mutations of {len(files)} files")
    # Several processes share a file if there are more of them than files.
    n_parts = max(1, options.jobs // len(files))
    parts = []
    for file in files:
        of_file = [mutation for mutation in chosen if mutation.file == file]
        parts += [(file, of_file[start::n_parts]) for start in range(n_parts)]
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
            futures = [
                pool.submit(work, Path(folder, str(index)), file, mutations, end)
                for index, (file, mutations) in enumerate(parts)
                if mutations
            ]
            for future in futures:
                outcomes += future.result()
    n_tried = outcomes.total()
    say(
        f"{n_tried} tried: {outcomes['killed']} killed, {outcomes['hangs']} without end, "
        f"{outcomes['survived']} survived; {len(chosen) - n_tried} not tried"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
