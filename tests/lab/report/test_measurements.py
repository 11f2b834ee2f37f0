"""Reports of analyses: inspect, trace, scaling and audit."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.formats import (
    FORMATS,
    csv_table,
    is_written,
    markdown,
    render,
    write_report,
)
from mtlrun.lab.report.run import jobs_with_outcome
from mtlrun.lab.report.terminal import print_report
from mtlrun.parallel.status import FAILED
from mtlrun.show.drawing import draw, write_drawing
from mtlrun.show.figures import HeatMap


def lines_of(text: str) -> list[str]:
    return [" ".join(line.replace("|", " ").split()) for line in text.splitlines()]


def curve(y, x=(0.0, 1.0, 2.0), **fields):
    return {
        "x": list(x),
        "y": y,
        "x_label": "seconds",
        "y_label": "gap",
        "log": "y",
        "marks": {},
        **fields,
    }


@pytest.fixture
def trace(maker):
    """Return two repeats of two methods, and two published curves."""
    maker.measure("trace", ["seconds_to_1e-4"], repeats=2)
    for method, factor in (("DCD", 1.0), ("MTK", 10.0)):
        for trial in range(2):
            stored = curve(
                [factor * (1 + trial), factor * 0.1, None], marks={"MTK stops": 1.5}
            )
            values = {"seconds_to_1e-4": factor * (1 + trial)}
            maker.measurement(
                "alpha",
                method,
                trial,
                metrics=values,
                result={"curves": {"objective": stored}},
            )
    published = [
        {
            "dataset": "alpha",
            "method": m,
            "name": "objective",
            "x": [0, 5, 9],
            "y": [3.0, 0.0, 0.5],
            "source": "theirs",
        }
        for m in ("MTK", "SVMLight")
    ]
    maker.info["published"] = {"file": "made/published.yaml", "curves": published}
    return maker


def test_a_trace_has_a_panel_with_bands_and_published_curves(trace):
    (figure,) = build_report(trace.write()).figures
    (panel,) = figure.panels
    assert (panel.axis, panel.quantity, panel.log, panel.x_log) == (
        "seconds",
        "gap",
        True,
        False,
    )
    assert panel.marks == {"MTK stops": 1.5}
    theirs, other, dcd, mtk = panel.curves
    assert [theirs.label, other.label] == ["MTK (published)", "SVMLight (published)"]
    assert (theirs.place, other.place, mtk.place) == (1, 2, 1), (
        "the look of a method is the same"
    )
    assert (theirs.x, theirs.y) == ([0, 9], [3.0, 0.5]), (
        "zero has no place on a logarithmic axis"
    )
    assert (dcd.x, dcd.y, dcd.low, dcd.high) == (
        [0.0, 1.0],
        [1.0, 0.1],
        [1.0, 0.1],
        [2.0, 0.1],
    )


def test_a_method_without_a_variant_of_a_curve_is_drawn_with_the_plain_one(trace):
    for trial in range(2):
        trace.records["alpha", "MTK", trial].result["curves"]["objective, primal"] = (
            curve([5.0, 3.0, 1.0])
        )
    (figure,) = build_report(trace.write()).figures
    plain, primal = figure.panels
    assert [panel.title for panel in figure.panels] == [
        "objective",
        "objective, primal",
    ]
    ours = {c.label: c.y for c in plain.curves if not c.published}
    assert (
        {c.label: c.y for c in primal.curves}
        == {"DCD": ours["DCD"], "MTK": [5.0, 3.0, 1.0]}
        != ours
    )


def test_without_a_common_x_there_is_no_band(trace):
    trace.records["alpha", "DCD", 1].result["curves"]["objective"]["x"] = [
        0.0,
        1.5,
        2.0,
    ]
    (figure,) = build_report(trace.write()).figures
    assert figure.panels[0].curves[2].low == []
    assert figure.panels[0].curves[3].low != []


def test_published_curves_are_thin_and_dashed(trace):
    (figure,) = build_report(trace.write()).figures
    canvas = draw(figure)
    drawn = {line.get_label(): line for line in canvas.axes[0].lines}
    assert drawn["MTK (published)"].get_linestyle() == "--"
    ours = canvas.axes[0].containers[1].lines[0]
    assert drawn["MTK (published)"].get_marker() == ours.get_marker()
    assert drawn["MTK (published)"].get_linewidth() < ours.get_linewidth()
    legend = [text.get_text() for text in canvas.legends[0].texts]
    assert legend == ["DCD", "MTK", "MTK (published)", "SVMLight (published)"]


def test_a_report_that_lost_a_figure_must_be_rewritten(trace, tmp_path):
    report = build_report(trace.write())
    *_, figure = write_report(report, tmp_path)
    assert figure.suffix == ".svg"
    assert is_written(report, tmp_path)
    figure.unlink()
    assert not is_written(report, tmp_path)


def test_a_trace_has_a_report(trace):
    text = lines_of(markdown(build_report(trace.write())))
    assert text[text.index("**alpha**") + 2] == "method seconds to 1e-4"
    assert "DCD **1.5 ± 0.71**" in text
    assert "![alpha: gap against seconds](figures/alpha.svg)" in text
    assert "Pale dashed curves are the published ones: theirs." in text
    assert "Repeats: 2, each with its own seed; base seed 0." in text
    assert "seconds_to_1e-4: made seconds_to_1e-4." in text
    assert "DCD made C 10" in text


def test_scaling_reports_runs_that_reached_the_limit(maker):
    sweep = {"name": "n", "option": "n", "values": [10, 100], "scale": "log"}
    maker.measure(
        "scaling", ["seconds"], sweep=sweep, limits={"seconds": 120.0}, repeats=2
    )
    maker.info["datasets"] = {
        f"alpha (n {n})": {
            "id": "alpha",
            "axis": {"of": "alpha", "value": n},
            "simulated": True,
        }
        for n in (10, 100)
    }
    for n in (10, 100):
        for trial in range(2):
            maker.measurement(
                f"alpha (n {n})", "DCD", trial, metrics={"seconds": n * (1.0 + trial)}
            )
            if n == 100 or trial == 1:
                maker.fail(
                    f"alpha (n {n})",
                    "MTK",
                    trial,
                    status="timeout",
                    error="limit of 120 s",
                )
                maker.records[f"alpha (n {n})", "MTK", trial].family = "measure"
            else:
                maker.measurement(
                    f"alpha (n {n})", "MTK", trial, metrics={"seconds": 40.0}
                )
    report = build_report(maker.write())
    text = lines_of(markdown(report))
    assert "**seconds to fit, alpha (simulated)**" in text
    assert "10 **15 ± 7.1** 40 (1 of 2 > 120 s)" in text
    assert "100 150 ± 71 > 120 s" in text
    assert jobs_with_outcome(report.run, FAILED) == [], (
        "the limit is part of the experiment"
    )
    assert report.summary[-1] == "5 of 8 results done, 3 stopped at the time limit."
    (figure,) = report.figures
    dcd, mtk = figure.panels[0].curves
    assert (figure.panels[0].log, dcd.y, mtk.x) == (True, [15.0, 150.0], [10])
    assert "alpha (n 100),MTK,,,0,timeout,2" in csv_table(report).splitlines()


def test_inspect_has_a_line_per_data_set_next_to_the_published_number(maker):
    maker.measure("inspect", ["tasks", "density"])
    maker.info["methods"] = ["statistics"]
    maker.config["methods"] = [
        {"label": "statistics", "measure": "data-set-statistics", "params": {}}
    ]
    maker.config["reference"] = [
        {"dataset": "alpha", "method": "statistics", "quantity": "tasks", "value": 29}
    ]
    maker.info["datasets"]["beta"] = {"id": "beta", "title": "Beta"}
    maker.measurement("alpha", "statistics", metrics={"tasks": 29, "density": 0.123456})
    maker.measurement("beta", "statistics", metrics={"tasks": 1000000, "density": 1.0})
    report = build_report(maker.write())
    lines = lines_of(markdown(report))
    start = lines.index("data set tasks density")
    header, _, *rows = lines[start:]
    assert header == "data set tasks density"
    assert rows[:3] == ["alpha 29 0.1235", "printed 29 -", "beta 1000000 1"]
    assert report.references[0].verdict == "within"
    stream = io.StringIO()
    print_report(Console(file=stream, width=80), report)
    assert any(
        line.split() == ["beta", "1000000", "1"]
        for line in stream.getvalue().splitlines()
    )


def test_audits_report_sentences_and_tables(maker):
    maker.measure("audit", ["findings"])
    maker.info.update(methods=["Tables"], datasets={}, paper_datasets=[])
    maker.config["methods"] = [{"label": "Tables", "measure": "made", "params": {}}]
    table = {
        "columns": ["method", "printed", "found"],
        "rows": [["STL", 3.93, 3.77], ["MTL", None, 2]],
    }
    result = {
        "lines": ["The <10%> column does not follow."],
        "tables": {"Holm's test": table},
    }
    maker.measurement("published", "Tables", metrics={"findings": 3}, result=result)
    check = {"kind": "value", "quantity": "findings", "of": "Tables", "at_most": 0}
    maker.config["claims"] = [{"id": "c", "text": "They follow", "checks": [check]}]
    report = build_report(maker.write())
    text = markdown(report)
    assert (
        "## Tables\n\n* The <10%> column does not follow.\n\n## Tables: Holm's test"
        in text
    )
    assert "STL 3.93 3.77" in lines_of(text)
    assert "MTL - 2" in lines_of(text)
    assert report.claims[0].verdict == "not confirmed"
    for form in FORMATS:
        assert render(report, form)


@pytest.mark.parametrize("n_tables", [100, 101])
def test_many_tables_of_single_jobs_are_left_out(maker, n_tables):
    maker.measure("audit", ["findings"])
    maker.info.update(methods=["Tables"], datasets={}, paper_datasets=[])
    maker.config["methods"] = [{"label": "Tables", "measure": "made", "params": {}}]
    tables = {}
    for index in range(n_tables):
        rows = [["STL", 3.77]]
        tables[f"table {index}"] = {"columns": ["method", "ours"], "rows": rows}
    result = {"lines": ["A sentence."], "tables": tables}
    maker.measurement("published", "Tables", metrics={"findings": 3}, result=result)
    text = markdown(build_report(maker.write()))
    is_left_out = n_tables > 100
    assert ("STL 3.77" in lines_of(text)) != is_left_out
    assert "A sentence." in text
    assert ("of single jobs" in text) == is_left_out


def test_matrices_are_heat_maps(maker):
    maker.measure("inspect", ["rank"])
    stored = {
        "values": [[1.0, -2.0], [-2.0, None]],
        "rows": ["a", "b"],
        "columns": ["c", "d"],
        "centre": 0.0,
    }
    maker.measurement(
        "alpha",
        "DCD",
        metrics={"rank": 2},
        result={"matrices": {"task covariance": stored}},
    )
    folder = maker.write()
    (figure,) = build_report(folder).figures
    assert figure.panels == [
        HeatMap("task covariance", stored["values"], ["a", "b"], ["c", "d"], 0.0)
    ]
    assert (figure.name, figure.caption) == (
        "alpha-DCD-matrices",
        "alpha: DCD: task covariance",
    )
    mesh = draw(figure).axes[0].collections[0]
    assert (mesh.norm.vmin, mesh.norm.vmax) == (-2.0, 2.0), (
        "the colours are symmetric about the centre"
    )
    for name in ("first.svg", "second.svg"):
        write_drawing(figure, folder / name)
    text = (folder / "first.svg").read_text()
    assert text == (folder / "second.svg").read_text()
    assert "<image" not in text


def test_analyses_are_not_ranked(maker):
    maker.measure("trace", ["seconds"])
    maker.info["methods"] = ["a", "b", "c"]
    for index, method in enumerate(maker.info["methods"]):
        maker.measurement("alpha", method, metrics={"seconds": 1.0 + index})
    titles = [section.title for section in build_report(maker.write()).sections]
    assert "Comparison of methods" not in titles


def test_a_quantity_may_be_named_like_a_field_of_the_runner(maker):
    maker.measure("trace", ["seconds", "n_iter"])
    for trial, seconds in enumerate((1.0, 2.0, 6.0)):
        values = {"seconds": seconds, "n_iter": 7}
        maker.measurement(
            "alpha", "DCD", trial, metrics=values, solver={"n_iter": 5, "gap": 1e-9}
        )
    (row,) = build_report(maker.write()).rows
    assert (row.value("seconds"), row.value("n_iter"), row.value("gap")) == (
        3.0,
        7.0,
        1e-9,
    )
