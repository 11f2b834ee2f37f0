"""Colors of all pictures, of the package and of its documentation.

A strategy has the same color, line and marker in every picture. Gains and losses have
colors of their own, and what is undecided is an open mark. The colors differ for
readers with each kind of color blindness, and each has a variant for dark pages
(`dark_color`).

This module needs no matplotlib.
"""

from __future__ import annotations

import colorsys
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class StrategyStyle:
    """How a strategy is drawn.

    Attributes
    ----------
    color : str
    line, marker : str
        Styles of matplotlib.
    css : str
        Style of the line in the legend of a page.
    """

    color: str
    line: str
    marker: str
    css: str


#: Styles of the strategies by the names of `mtlrun.comparison.predictions`.
STRATEGIES = {
    "separate": StrategyStyle("#D98200", "--", "s", "dashed"),
    "pooled": StrategyStyle("#777777", "-.", "x", "dotted"),
    "multi-task": StrategyStyle("#0072B2", "-", "o", "solid"),
}
SEPARATE = STRATEGIES["separate"]
POOLED = STRATEGIES["pooled"]
MULTITASK = STRATEGIES["multi-task"]
#: A clear gain, a clear loss, and the open mark of undecided values.
GAIN_COLOR = "#285D31"
LOSS_COLOR = "#5C2E6B"
UNDECIDED_COLOR = "#1C2126"
#: Map of gains (high, green) and losses (low, purple) around zero.
GAIN_MAP = "PRGn"
#: Palette of Okabe and Ito, for curves other than strategies.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
#: Curves behind the others, and neutral lines and areas on white and on dark pages.
BACKGROUND_COLOR = "#b0b0b0"
NEUTRAL_COLOR = "#808080"
#: Observed values.
DATA_COLOR = "#333333"
#: Text on light cells of a map. It is not pure black, so that it stays dark on a dark
#: page, as the cells stay light.
INK_ON_CELLS = "#0b0b0b"

#: Background and ink of dark pages.
DARK_GROUND = (0x14, 0x18, 0x1C)
DARK_INK = (0xE4, 0xE8, 0xEC)
#: Colors with less saturation count as gray.
MIN_SATURATION = 0.12
#: Smallest lightness and greatest saturation of a color on a dark page.
MIN_LIGHTNESS = 0.5
MAX_SATURATION = 0.92
_COLOR = re.compile(r"(fill|stroke): (#[0-9a-f]{6})", re.IGNORECASE)


def dark_color(color: str) -> str:
    """Return the color of a dark page in the place of one of a white page.

    Grays are turned round between ground and ink; other colors keep their hue and
    become light enough.

    Parameters
    ----------
    color : str
        As ``#0072b2``.
    """
    rgb = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    hue, lightness, saturation = colorsys.rgb_to_hls(*rgb)
    channels = []
    if max(rgb) - min(rgb) < MIN_SATURATION:
        for ground, ink in zip(DARK_GROUND, DARK_INK, strict=True):
            channels.append(round(ink + (ground - ink) * lightness))
    else:
        light = colorsys.hls_to_rgb(
            hue,
            max(lightness, MIN_LIGHTNESS),
            min(saturation, MAX_SATURATION),
        )
        channels = [round(255 * channel) for channel in light]
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def with_dark_colors(svg: str) -> str:
    """Return an SVG of matplotlib that also has the colors of a dark page.

    A style inside it replaces colors where the page around it is dark
    (``prefers-color-scheme``, which follows ``color-scheme`` of an image). Viewers
    without styles show the light colors. The cells of color maps keep their colors. A
    map whose numbers do not have `INK_ON_CELLS`, and images of pixels, stay on white.
    """
    is_map = "QuadMesh" in svg
    if "<image" in svg or (is_map and INK_ON_CELLS not in svg):
        return svg
    outside = ""
    if is_map:
        outside = ":not([id*='QuadMesh'] *)"
    ink = dark_color("#000000")
    rules = [f"text:not([style*='fill']){{fill:{ink}!important}}"]
    for name, color in sorted(set(_COLOR.findall(svg))):
        if color == INK_ON_CELLS:
            continue
        # White letters stand on dark cells.
        kind = ":not(text)" if color == "#ffffff" else ""
        selector = f"[style*='{name}: {color}']{kind}{outside}"
        rules.append(f"{selector}{{{name}:{dark_color(color)}!important}}")
    style = f"@media screen and (prefers-color-scheme:dark){{{''.join(rules)}}}"
    start = svg.index(">", svg.index("<svg ")) + 1
    return f"{svg[:start]}<style>{style}</style>{svg[start:]}"
