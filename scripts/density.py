"""Measure how dense the code is and how its prose reads, for each room of mtlrun.

``python scripts/density.py [PATH ...]`` prints the figures of the package, or of files
and folders, for which ``--files`` adds a line per file. Measure formatted code.

``tests/density.json`` holds the figures of each room, and ``tests/test_density.py``
keeps them from rising. After a room has improved, ``python scripts/density.py --write``
lowers its figures there. ``--reset`` stores the present figures even where they rose,
for example after merging several branches.

The columns, of which lower is better except for the last two, which are not stored:

=============  ====================================================================
tokens         names, operators and numbers per line of code
conditionals   conditional expressions per 1,000 statements
packed         conditional expressions, comprehensions, lambdas and walrus operators
               per 1,000 statements
double         assignments ``a, b = x, y`` per 1,000 statements
stacked        statements with more than one packed form, per 1,000 statements
filler         assigned names that say nothing, such as ``found``, per 1,000 lines
dialect        unidiomatic phrases per 1,000 lines of comments and docstrings
comments       comments per 100 lines of code
docstrings     lines of docstrings per 100 lines of code
=============  ====================================================================
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "mtlrun"
BASELINE = ROOT / "tests" / "density.json"

#: Column -> goal of rooms without mathematics.
GOALS = {
    "tokens": 7.3,
    "conditionals": 20,
    "packed": 50,
    "double": 6,
    "stacked": 1,
    "filler": 1,
    "dialect": 4,
}
#: Formulas take more tokens per line than other code.
MATHEMATICAL_ROOMS = ("solvers", "penalties", "problem")
MATHEMATICAL_TOKENS_GOAL = 8.8
#: Printed, but not compared: lines become more, and these rates lower, when code is
#: unfolded. A room has enough prose with 5 comments or 50 lines of docstrings.
PROSE_COLUMNS = ("comments", "docstrings")
COLUMNS = (*GOALS, *PROSE_COLUMNS)

PACKED_FORMS = (
    ast.IfExp,
    ast.ListComp,
    ast.DictComp,
    ast.SetComp,
    ast.GeneratorExp,
    ast.NamedExpr,
    ast.Lambda,
)
FILLER_NAMES = frozenset(
    [
        "about",
        "asked",
        "every",
        "found",
        "given",
        "known",
        "made",
        "more",
        "most",
        "one",
        "own",
        "place",
        "said",
        "shown",
        "told",
        "what",
        "whole",
    ]
)
DIALECT = re.compile(
    r"\b(that|those) of\b|\bof every\b|(^|[.:;] )What \w+|\b(ones?|those) that\b"
    r"|\bbeside\b|\b(begun|told|asked|is said)\b|\bso (many|few)\b"
    r"|\b(of|by|with|from) what (is|the)\b|\bnothing more\b"
    r"|(?<!there )\b(is|are) no (?!longer|more)\w",
    re.MULTILINE,
)


# ---------------------------------------------------------------- counting


def count(path: Path) -> Counter[str]:
    """Return the counts of a file, from which `figures` computes rates."""
    text = path.read_text(encoding="utf-8")
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    comments = _comments(tokens)
    counts = _count_tokens(tokens)
    counts["comments"] = len(comments)
    docstrings = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt):
            counts.update(_count_statement(node))
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ):
            docstrings += (ast.get_docstring(node) or "").splitlines()
        if _assigned_name(node).strip("_") in FILLER_NAMES:
            counts["filler"] += 1
    counts["docstrings"] = len(docstrings)
    counts += _count_prose("\n".join([*docstrings, *comments]))
    return counts


def _count_tokens(tokens: list[tokenize.TokenInfo]) -> Counter[str]:
    code_types = (tokenize.NAME, tokenize.OP, tokenize.NUMBER)
    rows = [token.start[0] for token in tokens if token.type in code_types]
    return Counter(tokens=len(rows), lines=len(set(rows)))


def _comments(tokens: list[tokenize.TokenInfo]) -> list[str]:
    return [
        token.string.lstrip("#: ") for token in tokens if token.type == tokenize.COMMENT
    ]


def _count_statement(statement: ast.stmt) -> Counter[str]:
    expressions = list(_expressions(statement))
    n_packed = sum(isinstance(node, PACKED_FORMS) for node in expressions)
    is_double = (
        isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Tuple)
        and isinstance(statement.value, ast.Tuple)
    )
    return Counter(
        statements=1,
        packed=n_packed,
        conditionals=sum(isinstance(node, ast.IfExp) for node in expressions),
        stacked=int(n_packed > 1),
        double=int(is_double),
    )


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, but not of the statements inside it."""
    pending: list[ast.AST] = [statement]
    while pending:
        for child in ast.iter_child_nodes(pending.pop()):
            if not isinstance(child, ast.stmt):
                yield child
                pending.append(child)


def _assigned_name(node: ast.AST) -> str:
    """Return the name that a node assigns to, or "" if it assigns nothing."""
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.attr
    return ""


def _count_prose(prose: str) -> Counter[str]:
    n_lines = sum(bool(line.strip()) for line in prose.splitlines())
    n_phrases = sum(1 for _ in DIALECT.finditer(prose))
    return Counter(prose=n_lines, dialect=n_phrases)


# ---------------------------------------------------------------- figures of rooms


def figures(counts: Counter[str]) -> dict[str, float]:
    """Return the columns for some counts, rounded to one decimal place."""
    per_statement = 1000 / max(counts["statements"], 1)
    per_line = 1 / max(counts["lines"], 1)
    rates = {
        "tokens": counts["tokens"] * per_line,
        "conditionals": counts["conditionals"] * per_statement,
        "packed": counts["packed"] * per_statement,
        "double": counts["double"] * per_statement,
        "stacked": counts["stacked"] * per_statement,
        "filler": 1000 * counts["filler"] * per_line,
        "dialect": 1000 * counts["dialect"] / max(counts["prose"], 1),
        "comments": 100 * counts["comments"] * per_line,
        "docstrings": 100 * counts["docstrings"] * per_line,
    }
    return {column: round(rate, 1) for column, rate in rates.items()}


def find_rooms(package: Path = PACKAGE) -> dict[str, list[Path]]:
    """Return the files of each room: a folder or a module of the package."""
    rooms: dict[str, list[Path]] = {}
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).parts[0]
        rooms.setdefault(name.removesuffix(".py"), []).append(path)
    return rooms


def count_files(paths: Iterable[Path]) -> Counter[str]:
    """Return the sums of the counts of files."""
    total: Counter[str] = Counter()
    for path in paths:
        total.update(count(path))
    return total


def count_rooms() -> dict[str, Counter[str]]:
    """Return the counts of each room."""
    return {room: count_files(paths) for room, paths in find_rooms().items()}


def goals_of(room: str) -> dict[str, float]:
    """Return the goals of a room."""
    if room in MATHEMATICAL_ROOMS:
        return {**GOALS, "tokens": MATHEMATICAL_TOKENS_GOAL}
    return {**GOALS}


def allowed(room: str, baseline: dict[str, float]) -> dict[str, float]:
    """Return the largest figures that a room may have.

    They may rise to the goal. Beyond it they may exceed the baseline by 1%, so that a
    new line that is like the others does not count as a change for the worse.
    """
    return {
        column: max(goal, 1.01 * baseline[column])
        for column, goal in goals_of(room).items()
    }


def problems(
    room: str, present: dict[str, float], baseline: dict[str, float]
) -> list[str]:
    """Return a sentence for each figure of a room that rose above its baseline."""
    return [
        f"{room}: {column} rose from {baseline[column]} to {present[column]} "
        f"(goal {goals_of(room)[column]})"
        for column, limit in allowed(room, baseline).items()
        if present[column] > limit
    ]


def improved(present: dict[str, float], baseline: dict[str, float]) -> dict[str, float]:
    """Return the lower of two figures in each column of `GOALS`."""
    return {column: min(present[column], baseline[column]) for column in GOALS}


# ---------------------------------------------------------------- command line


def table(counts_by_name: dict[str, Counter[str]]) -> str:
    """Return a line of figures for each name, below the names of the columns."""
    width = max(len(name) for name in counts_by_name)
    head = "".join(f"{column:>14}" for column in ("lines", *COLUMNS))
    rows = [" " * width + head]
    for name, counts in counts_by_name.items():
        cells = [f"{counts['lines']:>14,}"]
        cells += [f"{figure:>14.1f}" for figure in figures(counts).values()]
        rows.append(f"{name:{width}}" + "".join(cells))
    return "\n".join(rows) + "\n"


def store(*, resets: bool) -> None:
    """Store the figures of all rooms: better ones only, or all if `resets`."""
    baselines = read_baseline() if BASELINE.exists() else {}
    stored = {}
    for room, counts in count_rooms().items():
        present = figures(counts)
        # A new room, and all rooms after a reset, have no figures to compare with.
        baseline = present if resets else baselines.get(room, present)
        stored[room] = improved(present, baseline)
    lines = [
        f"{json.dumps(room)}: {json.dumps(stored[room])}" for room in sorted(stored)
    ]
    BASELINE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read_baseline() -> dict[str, dict[str, float]]:
    """Return the stored figures of each room."""
    baseline: dict[str, dict[str, float]] = json.loads(BASELINE.read_text())
    return baseline


def count_paths(paths: list[Path], *, has_files: bool) -> dict[str, Counter[str]]:
    """Return the counts of files and folders, and of the files inside if
    `has_files`.
    """
    counts_by_name = {}
    for path in paths:
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        total: Counter[str] = Counter()
        for file in files:
            counts = count(file)
            total.update(counts)
            if has_files:
                counts_by_name[str(file)] = counts
        counts_by_name[str(path)] = total
    return counts_by_name


def main() -> None:
    """Print the figures, or store those of the package."""
    description = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("paths", nargs="*", type=Path, help="default: rooms of mtlrun")
    parser.add_argument("--files", action="store_true", help="a line per file, too")
    parser.add_argument("--write", action="store_true", help="lower the baseline")
    parser.add_argument("--reset", action="store_true", help="replace the baseline")
    arguments = parser.parse_args()
    if arguments.write or arguments.reset:
        store(resets=arguments.reset)
    elif arguments.paths or arguments.files:
        paths = arguments.paths or [PACKAGE]
        sys.stdout.write(table(count_paths(paths, has_files=arguments.files)))
    else:
        rooms = count_rooms()
        total = sum(rooms.values(), Counter())
        sys.stdout.write(table({**rooms, "mtlrun": total}))


if __name__ == "__main__":
    main()
