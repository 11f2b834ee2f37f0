"""Configuration of the documentation: `make docs`. The site loads nothing from other hosts."""

import html
import re
import runpy
import sys
import warnings
from functools import cache
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path

import yaml
from sphinx.application import Sphinx
from sphinx.config import Config

from mtlrun.catalog.registry import METHODS

SCRIPTS = Path(__file__).parents[1] / "scripts"
sys.path.append(str(SCRIPTS))  # for docs_gallery
example = runpy.run_path(str(SCRIPTS / "docs_examples.py"))["example"]
tex_of = runpy.run_path(str(SCRIPTS / "docs_formulas.py"))["tex_of"]
plain_words = runpy.run_path(str(SCRIPTS / "docs_words.py"))["plain_words"]
#: The copy of MathJax that is installed with the extra "docs": one file, which draws formulas without fonts.
MATHJAX = (
    Path(find_spec("sphinx-mathjax-offline").origin).parent
    / "static"
    / "mathjax"
    / "tex-svg.js"
)

project = "mtlrun"
version = version_of("mtlrun")
author = "The mtlrun authors"
copyright = "The mtlrun authors, BSD 3-Clause"
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
]
templates_path = ["templates"]
exclude_patterns = [
    "gallery_code",
    "html_extra",
    "**/README.txt",
    "templates",
    "gallery/*.ipynb",
]
suppress_warnings = ["myst.header", "misc.highlighting_failure"]

html_theme = "pydata_sphinx_theme"
html_title = "mtlrun"
html_static_path = ["static", str(MATHJAX)]
html_css_files = ["site.css"]
html_js_files = ["pages.js"]
html_search_scorer = str(Path(__file__).with_name("search_scorer.js"))
html_show_sourcelink = False
smartquotes_action = "qe"  # no dashes: options of commands keep their two hyphens
html_copy_source = False
# Without the menu at the left, pages of the API take a third less time.
html_sidebars = {"api/generated/*": []}
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navbar_end": ["version", "theme-switcher"],
    "header_links_before_dropdown": 7,
}

highlight_language = "none"  # literal blocks of docstrings are formulas; examples are known by their prompt

myst_enable_extensions = ["dollarmath", "amsmath", "attrs_inline", "colon_fence"]
myst_heading_anchors = 4
math_number_all = False
mathjax_path = MATHJAX.name

autosummary_generate = True
autodoc_typehints = "none"  # what may be passed is said in words below "Parameters"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": ["gallery_code"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "doc_module": ("mtlrun",),
    "backreferences_dir": "api/examples",
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,  # its page loads a style from elsewhere
    "show_signature": False,
    "download_all_examples": False,
    "min_reported_time": 3,
    "plot_gallery": True,
    "image_scrapers": ("docs_gallery.svg_scraper",),
}
copybutton_exclude = ".linenos, .gp, .go"

#: Where pages of the site before this one are now.
MOVED = {
    "quickstart": "start/install",
    "gallery": "gallery/index",
    "start/cheat-sheet": "guide/choosing",
    "verdicts": "protocols",
    "atlas-first": "atlas",
    "guide/certificates": "guide/paths",
    "start/first-comparison": "start/install",
    "guide/outliers": "guide/clusters",
    "gallery/plot_09_outlier_tasks": "guide/clusters",
    "gallery/plot_18_grid_search": "tutorials/scikit-learn",
    "guide/networks": "guide/choosing",
}


def _redirects(app: Sphinx, error: Exception | None) -> None:
    for old, new in MOVED.items():
        page = Path(app.outdir, f"{old}.html")
        if error is None and old not in app.env.found_docs:
            place = html.escape("../" * old.count("/") + new + ".html")
            page.write_text(
                f'<meta http-equiv="refresh" content="0; url={place}"><a href="{place}">Moved</a>\n',
                "utf-8",
            )


def _example(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Add an example to the page of an estimator whose docstring has none."""
    public = what == "class" and name == f"mtlrun.estimators.{name.rpartition('.')[2]}"
    if public and hasattr(obj, "fit") and not any(">>> " in line for line in lines):
        lines += ["", "Examples", "--------", *example(obj), ""]  # type: ignore[arg-type]


@cache
def _chapters(folder: Path) -> dict[str, str]:
    """Return the chapter of the guide that lists each class first, by the class's name."""
    chapters: dict[str, str] = {}
    index = (folder / "guide" / "index.md").read_text("utf-8")
    for stem in index.partition("{toctree}")[2].split():
        page = folder / "guide" / f"{stem}.md"
        if page.is_file():
            text = page.read_text("utf-8")
            block = re.search(r"Classes: (.*?)(\n\n|\Z)", text, re.DOTALL)
            for name in re.findall(r"[A-Z]\w+", block[1] if block else ""):
                chapters.setdefault(name.removesuffix("Classifier"), f"/guide/{stem}")
    return chapters


def _guide(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Put objective and chapter of an estimator below the first paragraph of its page."""
    if what != "class" or not name.startswith("mtlrun.estimators."):
        return
    short = name.rpartition(".")[2].removesuffix("CV")
    added = [""]
    if method := METHODS.get(short):
        added += [".. math::", "", f"   {tex_of(method.objective)}", ""]
    chapter = _chapters(Path(app.srcdir)).get(short.removesuffix("Classifier"))
    if chapter:
        added.append(f"Symbols, example and advice: :doc:`user guide <{chapter}>`.")
    else:
        added.append("Notation and similar methods: :doc:`methods </methods>`.")
    first = lines.index("") if "" in lines else len(lines)
    lines[first:first] = [*added, ""]


def _plain_words(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Keep the words of references inherited from scikit-learn, and bars of absolute values, in docstrings."""
    lines[:] = plain_words(lines)


def _pages_with_search_words(app: Sphinx, env: object, *changes: set[str]) -> list[str]:
    """Read these pages in each build: Sphinx forgets the entries of unchanged pages."""
    words = yaml.safe_load(Path(app.confdir, "searches.yaml").read_text("utf-8"))
    return [page for page in words["words"] if page in app.env.found_docs]


def _reports(app: Sphinx, config: Config) -> None:
    """Take the reports of the runs as docs_source.py wrote them."""
    config.html_extra_path = [str(Path(app.srcdir, "html_extra"))]


def setup(app: Sphinx) -> None:
    """Repair docstrings on their way, and leave pages where old ones were."""
    warnings.filterwarnings(
        "ignore", category=UserWarning, message=".*FigureCanvasAgg.*"
    )
    app.connect("autodoc-process-docstring", _example, priority=100)  # before numpydoc
    app.connect("autodoc-process-docstring", _guide, priority=100)
    app.connect("autodoc-process-docstring", _plain_words, priority=900)
    app.connect("env-get-outdated", _pages_with_search_words)
    app.connect("config-inited", _reports)
    app.connect("build-finished", _redirects)
