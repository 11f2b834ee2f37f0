"""Figures on demand: mtlrun plot."""

from __future__ import annotations

import re

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from typer.testing import CliRunner

from mtlrun.cli.app import app
from mtlrun.errors import UserError
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.figures import (
    matrix_figures,
    matrix_sections,
    measured_ranks,
    path_figures,
    plot,
    rank_diagrams,
)
from mtlrun.lab.report.formats import markdown
from mtlrun.lab.report.run import read_run, results_of
from mtlrun.show.drawing import draw, svg
from mtlrun.show.figure_drawing import alike
from mtlrun.show.figures import SQUARES, Figure, HeatMap, RankDiagram, Strip, StripRow
from mtlrun.show.ranking import Ranking


@pytest.fixture
def searched(maker):
    """Return a search over alpha and beta in each split of one method."""
    maker.fill()
    for trial in range(2):
        grid = {"alpha": [0.1, 1.0, 10.0, 100.0], "beta": [1.0, 2.0]}
        scores = [
            0.5 + 0.1 * fold + 0.02 * (beta > 1) + 0.1 * trial
            for fold in range(3)
            for beta in grid["beta"]
        ]
        maker.search("alpha", "One Norm", trial, grid, [*scores, None, None])
    return maker


def test_a_path_uses_the_best_values_of_the_other_parameters(searched):
    (figure,) = path_figures(read_run(searched.write()))
    alpha, beta = figure.panels
    assert (alpha.axis, alpha.x_log, alpha.quantity) == (
        "alpha",
        True,
        "AUC (validation)",
    )
    curve, without, _ = alpha.curves
    assert (curve.x, without.x) == ([0.1, 1.0, 10.0], [])
    assert curve.y == pytest.approx([0.57, 0.67, 0.77])
    assert curve.spread == pytest.approx([0.1 / 2**0.5] * 3)
    assert (beta.x_log, beta.curves[0].y) == (False, pytest.approx([0.75, 0.77]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "magic"), [(".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")]
)
def test_all_formats_are_written(searched, tmp_path, suffix, magic):
    out = tmp_path / f"made{suffix}"
    assert plot(searched.write(), "path", out) == [out]
    assert out.read_bytes().startswith(magic)


@pytest.mark.rendered
def test_critical_differences_are_drawn(maker, tmp_path):
    maker.trials = 4
    folder = maker.fill().write()
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    plot(folder, "cd-diagram", first)
    plot(folder, "cd-diagram", second)
    assert first.read_bytes() == second.read_bytes()
    text = first.read_text()
    assert all(method in text for method in maker.info["methods"])
    assert ">AUC, 4 splits of alpha<" in text
    report = build_report(folder)
    (diagram,) = rank_diagrams(report.run, report.rows)
    assert diagram.caption.startswith(
        "Average ranks by AUC, 4 splits of alpha (1 is best)"
    )


@pytest.mark.rendered
def test_rankings_of_analyses_are_stacked(maker, tmp_path):
    folder = maker.fill().write()
    run = build_report(folder).run
    first_key = next(iter(results_of(run, "alpha", run.methods[0])))
    values = [[1.0, 2.0, 3.0]] * 8
    scores = {
        "blocks": list("abcdefgh"),
        "methods": ["one", "two", "three"],
        "values": values,
        "greater": False,
    }
    first_key.result["rankings"] = [
        {"label": label, "quantity": "error", **scores} for label in ("few", "many")
    ]
    (diagram,) = measured_ranks(run)
    assert diagram.name == f"alpha-{run.methods[0].replace(' ', '-')}-ranks"
    text = svg(diagram)
    positions = [text.index(f">error, {label}<") for label in ("few", "many")]
    assert positions == sorted(positions)
    assert text.count(">one (1.00)<") == 2


@pytest.mark.rendered
@pytest.mark.parametrize("n_rankings", [1, 2])
def test_texts_of_ranks_and_strips_lie_inside_the_figure(n_rankings):
    values = [[0.9, 0.8, 0.7]] * 5
    ranks = Ranking("all", "auc", list("abcde"), ["A", "B", "C"], values, True)
    squares = [(kind, f"claim-{kind}") for kind in SQUARES]
    figures = [
        RankDiagram("ranks", [ranks] * n_rankings, "Ranks"),
        Strip("strip", "Claims", [StripRow("Paper", squares)] * n_rankings),
    ]
    for figure in figures:
        canvas = draw(figure)
        FigureCanvasAgg(canvas).draw()
        inside = canvas.bbox.padded(1.0)
        texts = [t for t in canvas.findobj(Text) if t.get_visible() and t.get_text()]
        for text in texts:
            box = text.get_window_extent()
            assert inside.contains(box.x0, box.y0), text
            assert inside.contains(box.x1, box.y1), text


@pytest.mark.rendered
def test_titles_of_a_strip_are_above_their_squares_and_its_legend_beside_them():
    squares = [(kind, f"{kind}-{k}") for kind in SQUARES for k in range(9)]
    rows = [StripRow("First", squares), StripRow("Second", squares[:2])]
    canvas = draw(Strip("strip", "Claims", rows))
    FigureCanvasAgg(canvas).draw()
    (axes,) = canvas.axes
    shapes = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    boxes = [shape.get_window_extent() for shape in shapes]
    places = {text.get_text(): text.get_window_extent() for text in axes.texts}
    for title in ("First", "Second"):
        assert not any(box.overlaps(places[title]) for box in boxes)
    n_above = sum(box.y0 > places["Second"].y0 for box in boxes)
    assert n_above == len(squares)
    # The last squares explain the kinds.
    for box, text in zip(boxes[-len(SQUARES) :], SQUARES.values(), strict=True):
        assert box.y0 < (places[text].y0 + places[text].y1) / 2 < box.y1


def test_numbers_in_a_heat_map_have_room():
    rows, columns = [f"row {i}" for i in range(34)], [f"column {j}" for j in range(6)]
    panel = HeatMap("gain", [[-0.004] * 5 + [None]] * 34, rows, columns, 0.0)
    canvas = draw(Figure("map", "A map", [panel]))
    renderer = FigureCanvasAgg(canvas).get_renderer()
    canvas.draw(renderer)
    axes = canvas.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == rows
    boxes = [text.get_window_extent(renderer) for text in axes.texts]
    assert len(boxes) == 34 * 5
    assert not any(
        box.overlaps(other) for i, box in enumerate(boxes) for other in boxes[i + 1 :]
    )


def test_methods_that_differ_by_less_than_the_critical_difference_share_a_bar():
    assert alike([1.0, 1.4, 2.0, 3.5], 1.0) == [(0, 1), (1, 2)]
    assert alike([1.0, 1.5, 1.9], 1.0) == [(0, 2)]
    assert alike([1.0, 2.0], 1.0) == []


def test_several_data_sets_give_several_files(searched, tmp_path):
    searched.fill(("beta",))
    for trial in range(2):
        chosen = searched.records["alpha", "One Norm", trial].selection
        searched.records["beta", "One Norm", trial].selection = chosen
    folder = searched.write()
    paths = plot(folder, "path", tmp_path / "made.svg")
    assert [p.name for p in paths] == ["made-alpha-path.svg", "made-beta-path.svg"]


@pytest.mark.parametrize("kind", ["trace", "scaling", "heatmap", "path"])
def test_if_nothing_can_be_drawn_the_message_has_the_remedy(maker, tmp_path, kind):
    with pytest.raises(UserError, match="nothing to draw"):
        plot(maker.fill().write(), kind, tmp_path / "a.svg")


def test_the_available_kinds_are_listed(searched, tmp_path):
    folder = searched.write()
    with pytest.raises(UserError) as caught:
        plot(folder, "trace", tmp_path / "a.svg")
    assert re.search(
        r"This run has something for --kind .*path\.$", caught.value.remedy
    )


def test_the_command_draws_figures(searched, tmp_path):
    folder = str(searched.write())
    runner = CliRunner()
    done = runner.invoke(
        app, ["plot", folder, "--kind", "path", "--out", str(tmp_path / "made.svg")]
    )
    assert (done.exit_code, done.stdout.strip()) == (0, str(tmp_path / "made.svg"))
    wrong = runner.invoke(
        app, ["plot", folder, "--kind", "pith", "--out", str(tmp_path / "made.svg")]
    )
    assert wrong.exit_code == 2
    assert "path" in wrong.stderr
    form = runner.invoke(
        app, ["plot", folder, "--kind", "path", "--out", str(tmp_path / "made.gif")]
    )
    assert form.exit_code == 2
    assert ".pdf" in form.stderr


def test_the_protocol_lists_where_parameters_were_selected_and_what_differs_by_data_set(
    searched,
):
    searched.config["selection"] = {"on": "validation", "metric": "auc"}
    searched.config["datasets"] = [
        {"id": "alpha", "split": {"kind": "kfold", "folds": 10}, "metrics": ["auc"]}
    ]
    text = markdown(build_report(searched.write()))
    assert (
        "Parameters are chosen on the validation part of each split; methods with the same objective share one search."
        in text
    )
    assert "Different for alpha: split (kfold, folds 10), metrics [auc]." in text


def test_a_figure_without_data_is_titled_only_by_its_analysis(maker, tmp_path):
    folder = maker.fill().write()
    run = build_report(folder).run
    record = next(iter(results_of(run, "alpha", run.methods[0])))
    values = [[0.5, None], [-0.25, 0.0]]
    record.result["matrices"] = {
        "gain": {
            "values": values,
            "rows": ["north", "south"],
            "columns": ["5 rows", "10 rows"],
            "centre": 0.0,
        }
    }
    (figure,) = matrix_figures(run)
    assert figure.title == f"alpha: {run.methods[0]}"
    run.datasets["alpha"].id = "published"
    (figure,) = matrix_figures(run)
    assert figure.title == run.methods[0]


def test_the_numbers_of_a_small_matrix_are_also_a_table(maker):
    run = build_report(maker.fill().write()).run
    record = next(iter(results_of(run, "alpha", run.methods[0])))
    small = {
        "values": [[0.5, None], [-0.25, 0.0]],
        "rows": ["north", "south"],
        "columns": ["5 rows", "10 rows"],
    }
    wide = {"values": [[0.0] * 11], "rows": ["a"], "columns": list("abcdefghijk")}
    record.result["matrices"] = {"gain": small, "wide": wide}
    (section,) = matrix_sections(run)
    assert section.grids[0].texts() == [
        ["north", "0.5000", "-"],
        ["south", "-0.2500", "0.0000"],
    ]


def test_values_above_the_center_are_blue():
    values = [[-1.0, 1.0]]
    panel = HeatMap("gain", values, ["a"], ["loss", "gain"], centre=0.0)
    mesh = draw(Figure("map", "A map", [panel])).axes[0].collections[0]
    (loss_red, _, loss_blue, _), (gain_red, _, gain_blue, _) = mesh.to_rgba(values[0])
    assert gain_blue > gain_red
    assert loss_red > loss_blue
