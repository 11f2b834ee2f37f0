"""Collect the sources of the documentation: `python scripts/docs_source.py build/docs`,
then Sphinx builds them.

Pages that lie outside docs/ take part in the site and stay where they are:
CHANGELOG.md, SECURITY.md, results/ with every report, its table and its figures, and
the pages beside experiment files and benchmarks. Notebooks appear with what their cells
show. Links are written as they hold in the repository; here they become those of the
site. Only what changed is written, so that a second build is short.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
import runpy
import shutil
import sys
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import typer.main
import yaml
from markdown_it import MarkdownIt

from mtlrun.cli.app import app
from mtlrun.show.palette import with_dark_colors

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("CHANGELOG.md", "SECURITY.md", "results/README.md")
#: Reached by links alone: they are neither in the menu nor in the search, where their
#: many words would hide the guide.
DETAILS = (
    "results/summary.md",
    "results/*/claims.md",
    "configs/errata.md",
    "configs/*/README.md",
    "benchmarks/*.md",
    "tests/README.md",
    "examples/README.md",
    "examples/extending/INTERFACES.md",
)
#: Reports of the runs: plain pages beside the site, whose many large tables would take
#: as long as all its other pages together.
REPORTS = "results/*/*/*/report.md"
#: Folder with files that the site takes as they are.
EXTRA = "html_extra"
#: What reports show and link.
FILES = ("results/*/*/*/figures/*.svg", "results/*/*/*/table.csv")
#: Figures of a run on the page of figures; its report has all.
MOST_FIGURES = 2
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)#\s]+)")
#: A block of text that follows a block of Python: its output.
_OUTPUT = re.compile(
    r"(^```python\n(?:(?!^```).)*?^```\n(?:(?!^```|^#).)*?)^```text$",
    re.DOTALL | re.MULTILINE,
)
_REPORT = re.compile(r"(\]\([^)\s]*/report)\.md((?:#[^)]*)?\))")
_EXAMPLE = re.compile(r"^examples/gallery/(plot_\w+)\.py$")
#: Names behind "Classes: " lead to the list of all classes; on the site each has a
#: page.
_CLASSES = re.compile(r"(?<=: )\[((?:[A-Z]\w+(?:, )?)+)\]\([./]*api/estimators\.md\)")
_TITLE = re.compile(r'^```(\w+) title="([^"]+)"$', re.MULTILINE)
#: Stands in a page where the chart of its questions belongs.
_CHART = "<!-- chart -->"
#: Begin of the pages of `DETAILS`.
DETAIL_HEADER = "---\norphan: true\nnosearch: true\n---\n\n"


def collect(target: Path) -> None:
    """Write all sources below `target` and remove what no longer belongs there."""
    texts = {
        path.relative_to(ROOT / "docs"): path
        for path in sorted((ROOT / "docs").rglob("*"))
        if path.is_file()
    }
    texts |= {Path(name): ROOT / name for name in PAGES}
    for pattern in (*DETAILS, *FILES):
        texts |= {path.relative_to(ROOT): path for path in sorted(ROOT.glob(pattern))}
    for place, path in texts.items():
        if path.suffix == ".md":
            _write(target / place, page(path.read_text("utf-8"), place, path).encode())
        elif path.suffix == ".svg" and place.parts[0] == "results":
            # Stored figures of runs get their colors for dark pages here.
            svg = with_dark_colors(path.read_text("utf-8"))
            _write(target / place, svg.encode())
        else:
            _write(target / place, path.read_bytes())
    _write(
        target / "figures.md", _REPORT.sub(r"\1.html\2{.external}", figures()).encode()
    )
    extra = target / EXTRA
    for path in sorted(ROOT.glob(REPORTS)):
        place = path.relative_to(ROOT)
        _write(extra / place.with_suffix(".html"), report(path, place).encode())
    for pattern in FILES:
        for path in sorted(ROOT.glob(pattern)):
            place = path.relative_to(ROOT)
            _write(extra / place, (target / place).read_bytes())
    _write(target / "reference" / "cli.md", command_line().encode())
    _write(target / "reference" / "keys.md", keys().encode())
    notebook = runpy.run_path(str(ROOT / "scripts" / "notebooks.py"))["page"]
    for path in sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")):
        place = Path("tutorials") / f"{path.stem}.md"
        if not _newer(target / place, path):
            _write(target / place, notebook(path).encode())
    made = {Path("figures.md"), Path("reference/cli.md"), Path("reference/keys.md")}
    made |= {
        Path("tutorials") / f"{path.stem}.md"
        for path in (ROOT / "docs" / "tutorials").glob("*.ipynb")
    }
    for old in target.rglob("*.md"):
        if old.relative_to(target) not in made | texts.keys():
            old.unlink()
    listed = "\n".join(
        path.read_text("utf-8") for path in (ROOT / "docs" / "api").glob("*.md")
    )
    for old in (target / "api" / "generated").glob("*.rst"):
        if old.stem not in listed:
            old.unlink()
    shutil.rmtree(target / "gallery_code", ignore_errors=True)
    shutil.copytree(ROOT / "examples" / "gallery", target / "gallery_code")
    for table in (ROOT / "examples").glob("*.csv"):
        shutil.copy(table, target)  # examples of the gallery read it from there


def page(text: str, place: Path, path: Path) -> str:
    """Return a page as the site has it: links between its pages, file names above
    code, details outside the menu and the search.
    """
    origin, uri = path.relative_to(ROOT).as_posix(), place.as_posix()

    def moved(link: re.Match[str]) -> str:
        goal = posixpath.normpath(posixpath.join(posixpath.dirname(origin), link[1]))
        goal = re.sub(r"\.ipynb$", ".md", goal)  # notebooks are pages of the site
        goal = _EXAMPLE.sub(r"docs/gallery/\1.rst", goal)  # so are examples
        return posixpath.relpath(
            goal.removeprefix("docs/"), posixpath.dirname(uri) or "."
        )

    if _CHART in text:
        drawn = runpy.run_path(str(ROOT / "scripts" / "docs_chart.py"))["chart"](text)
        text = text.replace(_CHART, f"```{{raw}} html\n{drawn}\n```")
    text = _CLASSES.sub(_class_links, text)
    text = _OUTPUT.sub(r"\1```{code-block} text\n:class: output\n", text)
    text = _TITLE.sub(r"```{code-block} \1\n:caption: \2\n", _LINK.sub(moved, text))
    # A file that is no source of Sphinx is linked like another site.
    text = _REPORT.sub(r"\1.html\2{.external}", text)
    if words := _search_words().get(uri.removesuffix(".md")):
        # Main entries of the index ("!") lead the results of a search.
        entries = ", ".join(f"! {word}" for word in words)
        text = text.replace("\n", f"\n\n```{{index}} {entries}\n```\n", 1)
    is_detail = any(PurePosixPath(origin).match(pattern) for pattern in DETAILS)
    return DETAIL_HEADER + text if is_detail else text


def report(path: Path, place: Path) -> str:
    """Return the page of a report: plain HTML with the style of the site."""
    root = "../" * len(place.parent.parts)

    def moved(link: re.Match[str]) -> str:
        goal = posixpath.normpath(posixpath.join(place.parent.as_posix(), link[1]))
        goal = re.sub(r"\.md$", ".html", goal.removeprefix("docs/"))
        return posixpath.relpath(goal, place.parent.as_posix())

    text = path.read_text("utf-8")
    title = html.escape(text.partition("\n")[0].removeprefix("# "))
    # Of the extra "docs"; tests of the other functions do without.
    from mdit_py_plugins.anchors import anchors_plugin

    markdown = MarkdownIt("commonmark").enable("table").use(anchors_plugin, max_level=4)
    body = markdown.render(_LINK.sub(moved, text))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n"
        f'<link rel="stylesheet" href="{root}_static/report.css">\n</head>\n<body>\n'
        f'<p><a href="{root}index.html">mtlrun</a>, '
        f'<a href="{root}results/README.html">results</a></p>\n{body}</body>\n</html>\n'
    )


@cache
def _search_words() -> dict[str, list[str]]:
    """Return the words of docs/searches.yaml that lead to each page."""
    path = ROOT / "docs" / "searches.yaml"
    return dict(yaml.safe_load(path.read_text("utf-8"))["words"])


def _class_links(link: re.Match[str]) -> str:
    """Return a link to the page of each class that is named."""
    names = link[1].split(", ")
    return ", ".join(
        f"{{py:class}}`{name} <mtlrun.estimators.{name}>`" for name in names
    )


def figures() -> str:
    """Return a page with figures of every run that has some, by paper, each with a
    link to its report.
    """
    lines = [
        "# Figures of the runs",
        "",
        "Drawn by `mtlrun report`. Each title leads to its report.",
    ]
    paper = ""
    for path in sorted(ROOT.glob("results/*/*/*/run.json")):
        found = sorted(path.parent.glob("figures/*.svg"))
        info = json.loads(path.read_text("utf-8"))
        place = path.parent.relative_to(ROOT).as_posix()
        if not found or not (path.parent / "report.md").exists():
            continue
        if str(info["paper"]["cite"]).partition(":")[0] != paper:
            paper = str(info["paper"]["cite"]).partition(":")[0]
            lines += ["", f"## {info['paper']['cite']}"]
        lines += [
            "",
            f"### [{info['title']}]({place}/report.md)",
            "",
            f"`{info['command']}`",
        ]
        for figure in found[:MOST_FIGURES]:
            lines += [
                "",
                f"![{info['title']}, {figure.stem}]({place}/figures/{figure.name})",
            ]
    return "\n".join(lines) + "\n"


def command_line() -> str:
    """Return a page with every command, its arguments and options, as `--help` has
    them.
    """
    lines = ["# Command line", "", "The same text as `mtlrun COMMAND --help`."]

    def section(name: str, command: Any, level: int) -> None:
        lines.extend(["", f"{'#' * level} `{name}`", "", _plain(command.help or "")])
        rows = [
            _option(parameter)
            for parameter in command.params
            if parameter.name != "help"
        ]
        if rows:
            lines.extend(
                ["", "| option | meaning | default |", "| --- | --- | --- |", *rows]
            )
        for sub, inner in getattr(command, "commands", {}).items():
            section(f"{name} {sub}", inner, min(level + 1, 4))

    for name, command in typer.main.get_command(app).commands.items():
        section(f"mtlrun {name}", command, 2)
    return "\n".join(lines) + "\n"


def keys() -> str:
    """Return a page with the keys of experiment files, from their JSON Schema."""
    schema = json.loads((ROOT / "docs" / "config.schema.json").read_text("utf-8"))
    lines = [
        "# Configuration keys",
        "",
        "Keys of experiment files; `mtlrun init --schema` writes the JSON Schema for editors.",
    ]
    parts = {"Experiment": schema, **schema.get("$defs", {})}
    for name, part in parts.items():
        rows = [
            f"| `{key}` | {_cell(_kind(value))} | {_cell(value.get('description', ''))} | "
            f"{'required' if key in part.get('required', ()) else _default(value)} |"
            for key, value in part.get("properties", {}).items()
        ]
        if rows:
            about = _plain(part.get("description", ""))
            lines += [
                "",
                f"## {name}",
                "",
                about,
                "",
                "| key | type | meaning | default |",
                "| --- | --- | --- | --- |",
                *rows,
            ]
    return "\n".join(lines) + "\n"


def _option(parameter: Any) -> str:
    names = ", ".join(
        f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts)
    )
    default = getattr(parameter, "default", None)
    shown = (
        "required"
        if parameter.required
        else ""
        if default in (None, (), False) or callable(default)
        else f"`{default}`"
    )
    return f"| {names} | {_cell(getattr(parameter, 'help', None) or '')} | {_cell(shown)} |"


def _kind(value: dict[str, Any]) -> str:
    if "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    choices = value.get("anyOf") or value.get("oneOf")
    return (
        " or ".join(dict.fromkeys(map(_kind, choices)))
        if choices
        else str(value.get("type", value.get("const", "any")))
    )


def _default(value: dict[str, Any]) -> str:
    return f"`{_cell(json.dumps(value['default']))}`" if "default" in value else ""


def _plain(text: str) -> str:
    return (
        re.sub(r"[\x00-\x08]|\[/?(?:bold|dim|[a-z]+)\]", "", text)
        .replace("<", "&lt;")
        .strip()
    )


def _cell(text: str) -> str:
    return " ".join(_plain(text).split()).replace("|", "\\|")


def _write(path: Path, content: bytes) -> None:
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _newer(made: Path, source: Path) -> bool:
    return made.exists() and made.stat().st_mtime > source.stat().st_mtime


if __name__ == "__main__":
    collect(Path(sys.argv[1]))
