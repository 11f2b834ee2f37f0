"""Colors differ for all readers, on white and on dark pages; marks stay readable."""

from itertools import combinations, product

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from mtlrun.show.drawing import draw, inline_svg
from mtlrun.show.palette import (
    GAIN_COLOR,
    LOSS_COLOR,
    STRATEGIES,
    UNDECIDED_COLOR,
    dark_color,
    with_dark_colors,
)
from mtlrun.show.pictures import (
    HeatMapPicture,
    Interval,
    ListPicture,
    Shrinkage,
    ShrinkagePicture,
)

#: What readers see who have full sight, protanopia and deuteranopia: matrices for
#: linear RGB of Machado, Oliveira and Fernandes (2009), severity 1.
SIGHTS = (
    np.eye(3),
    np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
)
XYZ = np.array(
    [
        [0.4124, 0.3576, 0.1805],
        [0.2126, 0.7152, 0.0722],
        [0.0193, 0.1192, 0.9505],
    ]
)
MEANINGS = {
    **{name: style.color for name, style in STRATEGIES.items()},
    "gain": GAIN_COLOR,
    "loss": LOSS_COLOR,
    "undecided": UNDECIDED_COLOR,
}


def lab(color, sight):
    """Return a color in CIELAB, where distances are those that readers see."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(sight @ linear, 0, 1) / np.array([0.95047, 1, 1.08883])
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("is_dark", [False, True])
def test_no_two_meanings_look_alike_to_any_reader(is_dark):
    colors = MEANINGS
    if is_dark:
        colors = {name: dark_color(color) for name, color in MEANINGS.items()}
    pairs = combinations(colors.items(), 2)
    for ((name, one), (other, two)), sight in product(pairs, SIGHTS):
        distance = np.linalg.norm(lab(one, sight) - lab(two, sight))
        assert distance > 20, (name, other)


def test_strategies_differ_without_color():
    styles = list(STRATEGIES.values())
    for look in ("line", "marker", "css"):
        assert len({getattr(style, look) for style in styles}) == len(styles)


def picture():
    intervals = [Interval("x", 0.1, 0.05, 0.2), Interval("y", -0.2, -0.3, -0.1)]
    return ListPicture("Gains", "gain", "nmse", intervals, 0.01)


@pytest.mark.rendered
def test_each_color_of_a_picture_has_a_dark_one():
    svg = inline_svg(picture(), "gains")
    assert "prefers-color-scheme:dark" in svg
    for color in (GAIN_COLOR, LOSS_COLOR):
        assert f"stroke: {color.lower()}" in svg
        assert f"{{stroke:{dark_color(color)}!important}}" in svg
    assert dark_color("#000000") != "#000000"


def test_cells_of_a_map_keep_their_colors_and_their_dark_numbers():
    heat_map = HeatMapPicture("Map", "nmse", ["a", "b"], ["M"], [[0.1], [0.01]])
    svg = inline_svg(heat_map, "map")
    style = svg[svg.index("<style>") : svg.index("</style>")]
    rules = style.split("}")
    assert all("QuadMesh" in rule for rule in rules if "fill: #" in rule)
    assert "#0b0b0b" not in style


def test_images_of_pixels_stay_as_they_are():
    svg = '<svg ><image/><path style="fill: #000000"/></svg>'
    assert with_dark_colors(svg) == svg


def test_an_arrow_that_is_shorter_than_its_head_has_none():
    arrows = [Shrinkage("long", 0.0, 5.0), Shrinkage("short", 9.9, 10.0)]
    axes = draw(ShrinkagePicture("Means", "grade", arrows, "Estimates."))
    axes.figure.draw_without_rendering()
    styles = {}
    for text in axes.texts:
        styles[text.xy[0]] = type(text.arrow_patch.get_arrowstyle()).__name__
    assert styles == {5.0: "CurveB", 10.0: "Curve"}


def test_a_distant_separate_estimate_does_not_squeeze_the_others():
    arrows = [Shrinkage("a", 1.0, 1.5), Shrinkage("b", 900.0, 2.0)]
    axes = draw(ShrinkagePicture("Means", "grade", arrows, "Estimates."))
    high = axes.get_xlim()[1]
    assert high < 5
    (triangle,) = [line for line in axes.lines if line.get_marker() == ">"]
    assert triangle.get_xdata()[0] == high
