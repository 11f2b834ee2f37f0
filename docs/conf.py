"""Configuration of the documentation: `make docs`. The site loads nothing from other hosts."""

import html
import re
import warnings
from pathlib import Path

import latex2mathml.converter
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

project = "mtlrun"
author = "The mtlrun authors"
copyright = "The mtlrun authors, BSD 3-Clause"
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
]
templates_path = ["templates"]
exclude_patterns = ["gallery_code", "**/README.txt", "templates", "gallery/*.ipynb"]
suppress_warnings = ["myst.header", "misc.highlighting_failure"]

html_theme = "pydata_sphinx_theme"
html_title = "mtlrun"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 7,
}

myst_enable_extensions = ["dollarmath", "amsmath", "attrs_inline", "colon_fence"]
myst_heading_anchors = 4
math_number_all = False

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
}
copybutton_exclude = ".linenos, .gp, .go"

#: Where pages of the site before this one are now.
MOVED = {
    "quickstart": "start/install",
    "gallery": "figures",
}


def _inline(self, node) -> None:  # type: ignore[no-untyped-def]
    self.body.append(latex2mathml.converter.convert(node.astext()))
    raise nodes.SkipNode


def _block(self, node) -> None:  # type: ignore[no-untyped-def]
    formula = latex2mathml.converter.convert(node.astext(), display="block")
    self.body.append(f'<div class="formula" role="math">{formula}</div>')
    raise nodes.SkipNode


def _redirects(app: Sphinx, error: Exception | None) -> None:
    for old, new in MOVED.items():
        page = Path(app.outdir, f"{old}.html")
        if error is None and old not in app.env.found_docs:
            place = html.escape("../" * old.count("/") + new + ".html")
            page.write_text(
                f'<meta http-equiv="refresh" content="0; url={place}"><a href="{place}">Moved</a>\n', "utf-8"
            )


def _plain_words(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Keep the words of references inherited from scikit-learn, and bars of absolute values, in docstrings."""
    literal = -1  # columns that a formula set apart is indented beyond
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent <= literal:
            literal = -1
        if literal < 0:
            line = re.sub(r":(?:ref|term):`([^`<]*?)\s*(?:<[^`]*>)?`", r"\1", line)
            parts = re.split(r"(`[^`]*`)", line)
            lines[i] = "".join(part if part[:1] == "`" else part.replace("|", "\\|") for part in parts)
            literal = indent if line.rstrip().endswith("::") else -1


def _foreign(app: Sphinx, error: Exception | None) -> None:
    """Warn, which ends the build, about pages that load something from another host."""
    loads = re.compile(
        r'<(?:script|img|iframe)[^>]* src="(?:https?:)?//[^"]*|<link (?![^>]*canonical)[^>]*href="https?://[^"]*'
    )
    for page in [] if error else sorted(Path(app.outdir).rglob("*.html")):
        if found := loads.search(page.read_text("utf-8")):
            logging.getLogger(__name__).warning("%s loads %s", page.name, found[0])


def setup(app: Sphinx) -> None:
    """Write formulas as MathML, which browsers show without scripts or fonts, and leave pages where old ones were."""
    warnings.filterwarnings("ignore", category=UserWarning, message=".*FigureCanvasAgg.*")
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("autodoc-process-docstring", _plain_words, priority=900)
    app.connect("build-finished", _redirects)
    app.connect("build-finished", _foreign)


html_math_renderer = "mathml"
