"""Hooks of the documentation site: pages that lie outside docs/ take part in it, and stay where they are.

They are CHANGELOG.md, SECURITY.md, the pages of results/ with every report, its table and its figures, a gallery of
these figures, and the notebooks with what their cells show. Links are written as they hold in the repository; here they
are turned into those of the site.
"""

from __future__ import annotations

import json
import posixpath
import re
import runpy
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("CHANGELOG.md", "SECURITY.md", "results/README.md")
#: Below results/; reached from its page, in the menu they would be too many.
REPORTS = ("summary.md", "*/*/*/report.md", "*/*/*/figures/*.svg", "*/*/*/table.csv")
#: Figures of a run in the gallery; its report has all.
MOST_FIGURES = 2
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages before the menu is made."""
    reports = [path for pattern in REPORTS for path in sorted(ROOT.glob(f"results/{pattern}"))]
    for path in [*(ROOT / name for name in PAGES), *reports]:
        file = File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path))
        if path in reports:
            file.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(file)
    files.append(File.generated(config, "gallery.md", content=gallery()))
    notebook_page = runpy.run_path(str(ROOT / "scripts" / "notebooks.py"))["page"]
    for path in sorted(ROOT.glob("docs/tutorials/*.ipynb")):
        files.append(File.generated(config, f"tutorials/{path.stem}.md", content=notebook_page(path)))
    return files


def gallery() -> str:
    """Return a page with figures of every run that has some, by paper, each with a link to its report."""
    lines = [
        "# Gallery",
        "",
        "Figures of the committed runs, drawn by `mtlrun report`. Each title leads to its report.",
    ]
    paper = ""
    for path in sorted(ROOT.glob("results/*/*/*/run.json")):
        figures = sorted(path.parent.glob("figures/*.svg"))
        info = json.loads(path.read_text(encoding="utf-8"))
        if figures and str(info["paper"]["cite"]).partition(":")[0] != paper:
            paper = str(info["paper"]["cite"]).partition(":")[0]
            lines += ["", f"## {info['paper']['cite']}"]
        place = path.parent.relative_to(ROOT).as_posix()
        if figures:
            lines += ["", f"### [{info['title']}]({place}/report.md)", "", f"`{info['command']}`"]
        for figure in figures[:MOST_FIGURES]:
            lines += ["", f"![{figure.stem}]({place}/figures/{figure.name}){{ loading=lazy }}"]
    return "\n".join(lines) + "\n"


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Turn links between places in the repository into links between pages of the site."""
    uri = page.file.src_uri
    place = uri if page.file.generated_by else f"docs/{uri}"

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(place), link[1]))
        return posixpath.relpath(target.removeprefix("docs/"), posixpath.dirname(uri) or ".")

    return _LINK.sub(moved, markdown)


def on_page_content(html: str, **_: object) -> str:
    """End sentences before the formulas of docstrings with one colon: the second one is reStructuredText."""
    return html.replace("::</p>", ":</p>")
