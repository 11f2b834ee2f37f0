"""Save the figures of the gallery: SVG with colors for dark pages, too."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from sphinx_gallery.scrapers import matplotlib_scraper

from mtlrun.show.palette import with_dark_colors


def svg_scraper(block: Any, block_vars: Any, gallery_conf: Any) -> str:
    """Save the open figures of a block, and return how the page shows them.

    Parameters and result are those of `sphinx_gallery.scrapers.matplotlib_scraper`.
    """
    # Letters stay text: files are small, and words in pictures can be searched.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "mtlrun"}):
        text = matplotlib_scraper(block, block_vars, gallery_conf, format="svg")
    source = Path(block_vars["target_file"])
    for path in source.with_name("images").glob(f"sphx_glr_{source.stem}_*.svg"):
        svg = path.read_text("utf-8")
        if "<style>@media" not in svg:
            path.write_text(with_dark_colors(svg), "utf-8")
    return str(text)
