"""Run the notebooks of docs/tutorials and write them as pages: `python
scripts/notebooks.py NOTEBOOK`.

Cells are Python only. They run one after the other in an empty folder, as in Jupyter;
what the last expression of a cell shows there is shown below it. No package of Jupyter
is needed.
"""

from __future__ import annotations

import ast
import contextlib
import html
import io
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def cells(path: Path) -> list[tuple[str, str]]:
    """Return the type, "markdown" or "code", and the source of every cell."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    return [(cell["cell_type"], "".join(cell["source"])) for cell in stored["cells"]]


def run(path: Path, folder: Path) -> list[tuple[str, str, str]]:
    """Run the code in a folder; return type, source and what is shown, as HTML, of
    every cell.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    found = cells(path)
    with _inside(folder), warnings.catch_warnings():
        warnings.simplefilter("error")
        return [
            (kind, text, _run_cell(text, names) if kind == "code" else "")
            for kind, text in found
        ]


def page(path: Path) -> str:
    """Return the notebook as a Markdown page with what its cells show.

    Raises
    ------
    ValueError
        If a cell shows nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        parts = run(path, Path(folder))
    for kind, text, shown in parts:
        if kind == "code" and "<" not in shown:
            raise ValueError(f"{path}: a cell shows nothing: {text}")
    texts = [
        text if kind == "markdown" else f"```python\n{text}\n```\n\n{shown}"
        for kind, text, shown in parts
    ]
    return (
        "\n\n".join([*texts, f"[Download this page as a notebook]({path.name})"]) + "\n"
    )


def _run_cell(source: str, names: dict[str, Any]) -> str:
    tree = ast.parse(source)
    last = (
        tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    )
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        value = (
            eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
            if last is not None
            else None
        )
    shown = (
        [f"<pre>{html.escape(printed.getvalue())}</pre>"] if printed.getvalue() else []
    )
    if value is not None:
        rich = value._repr_html_() if hasattr(value, "_repr_html_") else ""
        rich = rich.replace(
            ' border="1"', ""
        )  # the site has a style of its own for tables
        shown.append(
            f'<div class="output">{rich}</div>'
            if rich
            else f"<pre>{html.escape(repr(value))}</pre>"
        )
    return "\n".join(
        line for line in "\n".join(shown).splitlines() if line.strip()
    )  # a blank line would end the block


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    sys.stdout.write(page(Path(sys.argv[1])))
