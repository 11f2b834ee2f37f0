"""Sweeps in the report: a table and a figure along the axis."""

import math

import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex

from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.formats import markdown, write_report
from mtlrun.show.drawing import draw, write_drawing
from mtlrun.show.figures import Figure, Line, Panel
from mtlrun.show.palette import COLORS


@pytest.fixture
def sweep(maker):
    """Return two values of t with both splits of each method; the second method has no
    result at t = 4.
    """
    maker.info["kind"] = "sweep"
    maker.config["sweep"] = {
        "name": "t",
        "params": ["n_blocks"],
        "values": [2, 4],
        "scale": "log",
    }
    facts = maker.info["datasets"].pop("alpha")
    for index, value in enumerate((2, 4)):
        label = f"alpha (t {value})"
        maker.info["datasets"][label] = {
            **facts,
            "notes": "A note.",
            "axis": {"of": "alpha", "value": value},
        }
        for method in maker.info["methods"]:
            for trial in range(2):
                if (method, value) == ("APG-RMTL", 4):
                    maker.fail(label, method, trial)
                else:
                    maker.cell(
                        label,
                        method,
                        trial,
                        auc=0.7 + 0.1 * index + 0.02 * trial,
                        fit=2.0**index + 0.5 * trial,
                    )
    return maker


@pytest.mark.parametrize(("unit", "name"), [(1, "AUC"), (100, "AUC (%)")])
def test_curves_have_means_and_standard_deviations_over_the_splits(sweep, unit, name):
    if unit == 100:
        sweep.config["table"] = {"percent": True}
    (figure,) = build_report(sweep.write()).figures
    assert (figure.name, figure.axis, figure.values, figure.log) == (
        "alpha",
        "t",
        [2, 4],
        True,
    )
    auc, seconds = figure.panels
    assert [auc.quantity, auc.log, seconds.quantity, seconds.log] == [
        name,
        False,
        "seconds to fit",
        True,
    ]
    assert [curve.place for curve in auc.curves] == [0, 1, 2]
    complete, broken, _ = auc.curves
    assert complete.x == [2, 4]
    assert complete.y == pytest.approx([0.71 * unit, 0.81 * unit])
    assert complete.spread == pytest.approx([0.02 * unit / math.sqrt(2)] * 2)
    assert (broken.label, broken.x) == ("APG-RMTL", [2])
    # Medians have no standard deviation.
    assert seconds.curves[0].y == [1.25, 2.25]
    assert not any(seconds.curves[0].spread)


def test_the_report_has_a_table_along_the_axis_and_names_the_figure(sweep):
    text = markdown(build_report(sweep.write()))
    lines = [" ".join(line.replace("|", " ").split()) for line in text.splitlines()]
    table = lines.index("**AUC, alpha**")
    assert lines[table + 2] == "t One Norm APG-RMTL LADM-DC-RMTL-10%"
    assert (
        lines[table + 4]
        == "2 **0.7100 ± 0.0141** **0.7100 ± 0.0141** **0.7100 ± 0.0141**"
    )
    assert lines[table + 5] == "4 **0.8100 ± 0.0141** failed **0.8100 ± 0.0141**"
    assert "![alpha: AUC, seconds to fit against t](figures/alpha.svg)" in lines
    assert lines.count("alpha: A note.") == 1, "the same data are described once"


def test_a_quantity_named_in_the_experiment_is_drawn(sweep):
    sweep.config["sweep"]["quantities"] = ["n_iter"]
    (figure,) = build_report(sweep.write()).figures
    assert [panel.quantity for panel in figure.panels] == ["iterations"]


def test_axis_ticks_may_depend_on_the_tasks(sweep):
    sweep.config["sweep"]["marks"] = {"1/sqrt(m)": "1/sqrt(tasks)", "one": 1}
    folder = sweep.write()
    (figure,) = build_report(folder).figures
    assert figure.panels[0].marks == {"1/sqrt(m)": pytest.approx(3**-0.5), "one": 1.0}
    write_drawing(figure, folder / "marks.svg")
    assert "one" in (folder / "marks.svg").read_text()


def test_published_curves_are_drawn_below_those_of_a_sweep(sweep):
    entry = {
        "dataset": "alpha",
        "method": "APG-RMTL",
        "name": "auc",
        "x": [1, 8],
        "y": [0.6, 0.7],
    }
    sweep.info["published"] = {
        "file": "made.yaml",
        "curves": [entry, {**entry, "dataset": "beta"}],
    }
    (figure,) = build_report(sweep.write()).figures
    auc, seconds = figure.panels
    assert [c.label for c in auc.curves if c.published] == ["APG-RMTL (published)"]
    assert auc.curves[0].place == 1
    assert not any(c.published for c in seconds.curves)
    labels = [text.get_text() for text in draw(figure).legends[0].texts]
    assert labels[-1] == "APG-RMTL (published)"


@pytest.mark.slow
def test_the_files_of_a_sweep_are_reproducible(sweep, tmp_path):
    report = build_report(sweep.write())
    first = {p.name: p.read_bytes() for p in write_report(report, tmp_path / "a")}
    second = {p.name: p.read_bytes() for p in write_report(report, tmp_path / "b")}
    assert first == second
    assert "alpha.svg" in first
    assert (tmp_path / "a" / "figures" / "alpha.svg").is_file()


def test_without_an_axis_there_are_no_figures(maker, tmp_path):
    report = build_report(maker.fill().write())
    assert report.figures == []
    write_report(report, tmp_path / "out")
    assert not (tmp_path / "out" / "figures").exists()


def made(values, n_curves=3, **panel):
    curves = [
        Line(f"m{i}", list(values), [10.0**k for k in range(len(values))], [0.0] * 2)
        for i in range(n_curves)
    ]
    log = panel.pop("x_log", False)
    return Figure(
        "made",
        "Made",
        [Panel("auc", curves=curves, **panel)],
        "axis",
        list(values),
        log,
    )


def test_axes_are_logarithmic_on_request():
    axes = draw(made([1, 10], log=True, x_log=True)).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    axes = draw(made([1, 10], log=False)).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")


def test_text_values_on_the_axis_are_ticks():
    axes = draw(made(["random", "clustered"], log=False)).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [
        "random",
        "clustered",
    ]


def test_every_method_has_its_own_style():
    lines = [
        c.lines[0]
        for c in draw(made([1, 2], n_curves=14, log=False)).axes[0].containers
    ]
    looks = {
        (to_hex(line.get_color()), line.get_marker(), line.get_linestyle())
        for line in lines
    }
    assert len(looks) == 14
    assert len({line.get_marker() for line in lines[: len(COLORS)]}) == len(COLORS), (
        "markers alone tell them apart"
    )


@pytest.mark.rendered
def test_svg_files_have_no_date_and_keep_their_text(tmp_path):
    figure = made([1, 2], log=False)
    first, again = tmp_path / "first.svg", tmp_path / "again.svg"
    write_drawing(figure, first)
    write_drawing(figure, again)
    text = first.read_text()
    assert text == again.read_text()
    assert "<dc:date>" not in text
    assert ">m0</text>" in text


def test_the_legend_shows_a_curve_as_the_last_panel_does():
    panels = [
        Panel("auc", False, [Line("a", [1, 2], [0.5, 0.6], spread=[0.1, 0.1])]),
        Panel("seconds", False, [Line("a", [1, 2], [3.0, 4.0])]),
    ]
    n_bars = []
    for ordered in (panels, panels[::-1]):
        (legend,) = draw(Figure("f", "F", ordered, values=[1, 2])).legends
        n_bars.append(len(legend.findobj(LineCollection)))
    assert n_bars == [0, 1]
