"""Draw the squares of a strip of verdicts, with signs that differ as their colors do.

Sizes named ``..._INCHES`` are in inches.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle, Wedge

from mtlrun.tables.figures import SQUARES, StripRow

#: Size of a square with its gap.
SQUARE_INCHES = 0.22
SQUARES_PER_LINE = 24
#: Space to the left of the squares.
SQUARES_MARGIN_INCHES = 0.1
#: Colors of a square and of the sign in it. The signs differ as well.
SQUARE_COLOURS = {
    "holds": ("#0072B2", "#ffffff"),
    "partly": ("#9fd2f0", "#000000"),
    "depends": ("#F0E442", "#000000"),
    "undecided": ("#d9dee3", "#000000"),
    "fails": ("#D55E00", "#000000"),
    "untested": ("#ffffff", "#5b6570"),
}
#: Lines of a sign, as shares of the square from its upper left corner.
SQUARE_SIGNS: dict[str, list[list[tuple[float, float]]]] = {
    "holds": [[(0.22, 0.55), (0.42, 0.75), (0.78, 0.27)]],
    "depends": [
        [(0.2, 0.5), (0.8, 0.5)],
        [(0.5, 0.2), (0.5, 0.8)],
        [(0.2, 0.85), (0.8, 0.85)],
    ],
    "undecided": [[(0.28, 0.4), (0.72, 0.4)], [(0.28, 0.62), (0.72, 0.62)]],
    "fails": [[(0.26, 0.26), (0.74, 0.74)], [(0.26, 0.74), (0.74, 0.26)]],
    "untested": [[(0.5, 0.46), (0.5, 0.54)]],
}


def draw_squares(axes: Axes, row: StripRow, top: float) -> None:
    """Draw the squares of one paper, sorted by kind, below `top` (in inches)."""
    order = list(SQUARES)

    def position(square: tuple[str, str]) -> int:
        return order.index(square[0])

    squares = sorted(row.squares, key=position)
    for index, (kind, name) in enumerate(squares):
        line, column = divmod(index, SQUARES_PER_LINE)
        left = SQUARES_MARGIN_INCHES + SQUARE_INCHES * column
        corner = (left, top + SQUARE_INCHES * line)
        draw_square(axes, corner, kind, f"{kind}-{name}")


def draw_square(
    axes: Axes, corner: tuple[float, float], kind: str, name: str | None = None
) -> None:
    """Draw a square with the sign of its kind; `name` is the id of its shape in SVG."""
    size = 0.86 * SQUARE_INCHES
    fill, ink = SQUARE_COLOURS[kind]
    square = Rectangle(corner, size, size, facecolor=fill, edgecolor="#5b6570")
    square.set(linewidth=0.6, gid=name)
    axes.add_patch(square)
    left, top = corner
    if kind == "partly":
        center = (left + size / 2, top + size / 2)
        axes.add_patch(Wedge(center, 0.3 * size, 90, 270, facecolor=ink))
        ring = Wedge(center, 0.3 * size, 0, 360, facecolor="none", edgecolor=ink)
        axes.add_patch(ring)
    for line in SQUARE_SIGNS.get(kind, []):
        x = [left + size * across for across, _ in line]
        y = [top + size * down for _, down in line]
        axes.plot(x, y, color=ink, linewidth=1.4, solid_capstyle="round")
