"""Measure the size and the knots of mtlrun, for each room.

``python scripts/size.py`` prints the figures of each room and of all rooms. The papers
stand apart: they are studies, not the library.

``tests/size.json`` holds the figures, and ``tests/test_size.py`` keeps them from
rising. ``python scripts/size.py --write`` stores the present ones. A figure that rises
needs a line in CHANGELOG.md.

=============  ====================================================================
tokens         of code, without comments, docstrings and white space
functions      functions and methods
classes        classes
single         private functions and methods that one line of the package names
keys           ``x["key"]`` and ``x.get("key")``
texts          comparisons with a text: ``kind == "text"``
wide           functions, except constructors, with seven or more parameters
tuples         functions that return a plain tuple of three or more items
lazy           imports of mtlrun inside functions
=============  ====================================================================

Below the rooms stand the circles of files that import each other, where imports inside
functions and for type checkers count, too.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "mtlrun"
BASELINE = ROOT / "tests" / "size.json"
COLUMNS = (
    *("tokens", "functions", "classes", "single", "keys"),
    *("texts", "wide", "tuples", "lazy"),
)
#: Number of parameters from which on a function is wide.
MANY_PARAMETERS = 7
#: Room that is no part of the sum.
PAPERS = "papers"
#: Room of the files beside the folders.
TOP = "mtlrun"
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
WITH_DOCSTRING = (ast.Module, ast.ClassDef, *FUNCTIONS)

Figures = dict[str, int]


def parse(package: Path = PACKAGE) -> dict[Path, ast.Module]:
    """Return the trees of all files of a package."""
    paths = sorted(package.rglob("*.py"))
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def room_of(path: Path, package: Path = PACKAGE) -> str:
    """Return the first folder of a file, below the package."""
    parts = path.relative_to(package).parts
    return parts[0] if len(parts) > 1 else TOP


def count_tokens(text: str, nodes: Iterable[ast.AST]) -> int:
    """Count the tokens of code."""
    docstrings = set()
    for node in nodes:
        if isinstance(node, WITH_DOCSTRING) and ast.get_docstring(node) is not None:
            docstrings.add(node.body[0].lineno)
    number = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and token.start[0] in docstrings
        if token.type not in LAYOUT and not is_docstring:
            number += 1
    return number


def is_private(name: str) -> bool:
    """Whether a name is private, and not one of Python's own methods."""
    return name.startswith("_") and not name.startswith("__")


def is_key(node: ast.AST) -> bool:
    """Whether an expression takes an item by a string in the code."""
    if isinstance(node, ast.Subscript):
        if isinstance(node.value, ast.Name) and node.value.id == "Literal":
            # A type.
            return False
        key = node.slice
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "get"
        and node.args
    ):
        key = node.args[0]
    else:
        return False
    return isinstance(key, ast.Constant) and isinstance(key.value, str)


def is_text_case(node: ast.AST) -> bool:
    """Whether an expression compares something with a string in the code."""
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq):
        return False
    sides = (node.left, node.comparators[0])
    return any(isinstance(x, ast.Constant) and isinstance(x.value, str) for x in sides)


def is_wide(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function, which is no constructor, has many parameters."""
    groups = (node.args.posonlyargs, node.args.args, node.args.kwonlyargs)
    n_parameters = sum(map(len, groups))
    return node.name != "__init__" and n_parameters >= MANY_PARAMETERS


def returns_tuple(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is declared to return a tuple of three or more items."""
    hint = node.returns
    return (
        isinstance(hint, ast.Subscript)
        and ast.unparse(hint.value) == "tuple"
        and isinstance(hint.slice, ast.Tuple)
        and len(hint.slice.elts) >= 3
    )


def count_lazy(nodes: list[ast.AST], package: str) -> int:
    """Count the imports of the package inside functions."""
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    lines = {x.lineno for x in imports if (x.module or "").split(".")[0] == package}
    functions = [node for node in nodes if isinstance(node, FUNCTIONS)]
    ranges = [range(x.lineno, (x.end_lineno or 0) + 1) for x in functions]
    return len(lines & set[int]().union(*ranges))


def count_rooms(trees: Mapping[Path, ast.Module], package: Path) -> dict[str, Figures]:
    """Return the figures of each room.

    A private function has a single reference if no other function of the package has
    its name, and one expression names it.
    """
    references: Counter[str] = Counter()
    definitions: Counter[str] = Counter()
    nodes_by_path = {path: list(ast.walk(tree)) for path, tree in trees.items()}
    for nodes in nodes_by_path.values():
        for node in nodes:
            if isinstance(node, ast.Name):
                references[node.id] += 1
            elif isinstance(node, ast.Attribute):
                references[node.attr] += 1
            elif isinstance(node, FUNCTIONS):
                definitions[node.name] += 1
    rooms: dict[str, Figures] = defaultdict(lambda: dict.fromkeys(COLUMNS, 0))
    for path, nodes in nodes_by_path.items():
        figures = rooms[room_of(path, package)]
        figures["tokens"] += count_tokens(path.read_text(encoding="utf-8"), nodes)
        figures["lazy"] += count_lazy(nodes, package.name)
        for node in nodes:
            if isinstance(node, FUNCTIONS):
                figures["functions"] += 1
                name = node.name
                is_single = references[name] == 1 and definitions[name] == 1
                figures["single"] += is_private(name) and is_single
                figures["wide"] += is_wide(node)
                figures["tuples"] += returns_tuple(node)
            figures["classes"] += isinstance(node, ast.ClassDef)
            figures["keys"] += is_key(node)
            figures["texts"] += is_text_case(node)
    return dict(sorted(rooms.items()))


def total_of(rooms: Mapping[str, Figures]) -> Figures:
    """Return the sums over all rooms but the papers."""
    library = [figures for room, figures in rooms.items() if room != PAPERS]
    return {name: sum(figures[name] for figures in library) for name in COLUMNS}


def imports_of(tree: ast.Module, modules: Mapping[str, Path]) -> set[Path]:
    """Return the files of the package that a file imports anywhere."""
    paths = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                paths.add(modules.get(name) or modules.get(node.module))
        elif isinstance(node, ast.Import):
            paths.update(modules.get(alias.name) for alias in node.names)
    return {path for path in paths if path and path.name != "__init__.py"}


def circles_of(trees: Mapping[Path, ast.Module], package: Path) -> list[list[str]]:
    """Return the groups of files that import each other, directly or through others."""
    modules = {}
    for path in trees:
        parts = path.relative_to(package.parent).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = path
    graph = {path: imports_of(tree, modules) - {path} for path, tree in trees.items()}
    reached = {path: _reachable(path, graph) for path in graph}
    groups = set()
    for path in graph:
        if path in reached[path]:
            group = [other for other in reached[path] if path in reached[other]]
            names = [other.relative_to(package).as_posix() for other in group]
            groups.add(tuple(sorted(names)))
    return [list(group) for group in sorted(groups)]


def _reachable(start: Path, graph: Mapping[Path, Iterable[Path]]) -> set[Path]:
    reached: set[Path] = set()
    waiting = list(graph[start])
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            waiting.extend(graph[path])
    return reached


def table(rooms: Mapping[str, Figures]) -> str:
    """Return the figures as text, a line per room."""
    total = total_of(rooms)
    lines = [f"{'room':14}" + "".join(f"{name:>10}" for name in COLUMNS)]
    sums = {**rooms, f"all but {PAPERS}": total}
    for room, figures in sums.items():
        lines.append(f"{room:14}" + "".join(f"{figures[name]:10,}" for name in COLUMNS))
    share = total["single"] / total["functions"]
    lines.append(f"private functions with one reference: {share:.1%} of the functions")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the figures, or store them."""
    description = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--write", action="store_true", help="store the figures")
    arguments = parser.parse_args()
    trees = parse()
    rooms = count_rooms(trees, PACKAGE)
    if arguments.write:
        lines = [f"{json.dumps(name)}: {json.dumps(rooms[name])}" for name in rooms]
        BASELINE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    sys.stdout.write(table(rooms))
    circles = circles_of(trees, PACKAGE)
    sys.stdout.write(f"circles of imports: {len(circles)}\n")
    for circle in circles:
        sys.stdout.write(f"    {', '.join(circle)}\n")


if __name__ == "__main__":
    main()
