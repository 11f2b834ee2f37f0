"""``--kind task``: the rows of a task over a column, with the lines of strategies."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose
from typer.testing import CliRunner

import mtlrun
from mtlrun.cli.app import app
from mtlrun.engine.evaluation import innermost
from mtlrun.errors import DataError, UnknownNameError, UserError
from mtlrun.model.curves import ModelCurves, checked_tasks
from mtlrun.model.files import load_model
from mtlrun.model.task_lines import task_picture, training_rows
from mtlrun.show.drawing import draw
from mtlrun.show.palette import STRATEGIES

FAST = {"splits": 2, "repeats": 1, "folds": 2}


def plants(n_tasks=8, n=12, n_last=4):
    """Return heights of plants in beds; by default the last bed has as many plants as
    coefficients.
    """
    rng = np.random.default_rng(0)
    sizes = [n] * (n_tasks - 1) + [n_last]
    bed = np.repeat(np.arange(n_tasks), sizes)
    table = pd.DataFrame({"water": rng.uniform(0, 10, len(bed))})
    table["light"] = rng.normal(size=len(bed))
    table["soil"] = rng.choice(["clay", "sand"], len(bed))
    slopes = 2 + 0.2 * rng.normal(size=n_tasks)
    table["height"] = 5 + slopes[bed] * table.water + rng.normal(size=len(bed))
    table["bed"] = [f"bed {k}" for k in bed]
    return table


def compared(table, methods):
    """Return a comparison of some methods."""
    return mtlrun.compare(
        table, target="height", task="bed", methods=methods, min_rows=3, **FAST
    )


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    result = compared(plants(), ["HierarchicalMTL"])
    assert result.saved == "HierarchicalMTL"
    return result, result.save(tmp_path_factory.mktemp("plants") / "out")


def test_a_panel_has_the_rows_of_its_task_and_the_lines_of_all_strategies(grown):
    result, _ = grown
    (axes,) = result.plot_task(["bed 2"], column="water")
    rows = plants().query("bed == 'bed 2'")
    lines = {line.get_label(): line for line in axes.lines}
    assert_allclose(lines["observed"].get_xdata(), rows.water)
    assert_allclose(lines["observed"].get_ydata(), rows.height)
    assert (axes.get_xlabel(), axes.get_title(loc="left")[:5]) == ("water", "bed 2")
    for name, label in (
        ("separate", "separate"),
        ("pooled", "pooled"),
        ("multi-task", "partially pooled"),
    ):
        assert to_hex(lines[label].get_color()) == STRATEGIES[name].color.lower()
    # The partially pooled line predicts the typical row of the task.
    x = lines["partially pooled"].get_xdata()
    typical = pd.DataFrame(
        {"water": x, "light": rows.light.mean(), "soil": rows.soil.mode()[0]}
    ).assign(bed="bed 2")
    assert_allclose(lines["partially pooled"].get_ydata(), result.predict(typical))
    assert (x.min(), x.max()) == (rows.water.min(), rows.water.max())
    (behind,) = axes.collections[:1]
    assert len(behind.get_segments()) == 7


def test_the_separate_line_is_least_squares_and_the_pooled_one_of_all_rows(tmp_path):
    table = plants(n_tasks=5, n_last=12).drop(columns=["light", "soil"])
    result = compared(table, ["HierarchicalMTL"])
    (panel,) = task_picture(result.model, result.dataset, None, ["bed 1"]).panels
    for name, rows in (("separate", table.query("bed == 'bed 1'")), ("pooled", table)):
        x, y = np.transpose(panel.lines[name])
        expected = np.polyval(np.polyfit(rows.water, rows.height, 1), x)
        assert_allclose(y, expected, rtol=1e-4)
    x, low, high = np.transpose(panel.band)
    _, partial = np.transpose(panel.lines["multi-task"])
    assert (low < partial).all()
    assert (partial < high).all()
    # The band is that of the line, not of new rows around it.
    residuals = table.height - result.predict(table)
    assert (high - low).min() < 2 * residuals.std()
    rows = result.model.read(pd.DataFrame({"water": x, "bed": "bed 1"}))
    estimator = innermost(result.model.estimator)
    noise = estimator.noise_variance_ * result.model.estimator.scale_**2
    variance = result.model.deviations(*rows) ** 2 - noise
    assert_allclose(high - low, 2 * 1.96 * np.sqrt(variance))


def test_a_task_with_few_rows_has_no_line_of_its_own(grown):
    result, _ = grown
    panels = task_picture(result.model, result.dataset, "water").panels
    # Six tasks, the smallest first.
    assert [panel.name[-1] for panel in panels] == list("702356")
    assert panels[0].lines["separate"] == []
    assert panels[0].lines["multi-task"]
    assert all(panel.lines["separate"] for panel in panels[1:])


@pytest.mark.rendered
def test_the_saved_model_is_drawn_with_the_rows_of_its_comparison(grown, tmp_path):
    _, folder = grown
    for target in (folder, folder / "model"):
        out = tmp_path / "task.svg"
        words = ["plot", str(target), "--kind", "task", "--tasks", "bed 2"]
        run = CliRunner().invoke(app, [*words, "--column", "water", "-o", str(out)])
        assert run.exit_code == 0, run.output
        text = out.read_text()
        assert ">bed 2<" in text
        assert ">partially pooled<" in text
    model = load_model(folder / "model")
    rows = training_rows(folder / "model", model)
    assert_allclose(rows.y, plants().height)


def test_without_the_rows_the_error_says_where_they_may_be(grown, tmp_path):
    _, folder = grown
    model = load_model(folder / "model")
    with pytest.raises(UserError) as caught:
        training_rows(tmp_path / "model", model)
    assert "--data-dir" in caught.value.remedy


@pytest.mark.parametrize(
    ("column", "word"),
    [("soil", "categories"), ("bed", "tasks"), ("height", "targets"), ("watr", "watr")],
)
def test_a_column_that_is_no_number_is_refused_with_those_that_are(grown, column, word):
    result, _ = grown
    with pytest.raises(UserError) as caught:
        result.plot_task(column=column)
    assert word in caught.value.message
    assert "water" in caught.value.remedy


def test_unknown_and_too_many_tasks_are_refused(grown):
    result, _ = grown
    with pytest.raises(UnknownNameError) as caught:
        result.plot_task(["bed 22"])
    assert "bed 2" in caught.value.remedy
    names = [f"bed {k}" for k in range(25)]
    with pytest.raises(UserError, match="24"):
        checked_tasks(names, names)


@pytest.mark.slow
def test_labels_have_lines_of_probabilities():
    table = plants(n_tasks=6)
    table["tall"] = np.where(table.height > table.height.median(), "yes", "no")
    result = mtlrun.compare(
        table.drop(columns="height"),
        target="tall",
        task="bed",
        methods=["PooledLogistic"],
        min_rows=3,
        **FAST,
    )
    picture = task_picture(result.model, result.dataset, "water")
    assert picture.y_axis == "probability of tall = yes"
    assert len(picture.panels) == 6
    for panel in picture.panels:
        assert set(panel.y) <= {0.0, 1.0}
        _, y = np.transpose(panel.lines["pooled"])
        assert y[0] < y[-1] <= 1


@pytest.mark.slow
def test_the_line_of_a_separate_model_is_not_called_multi_task():
    table = plants(n_last=3)
    result = compared(table, ["IndependentRidge"])
    picture = task_picture(result.model, result.dataset, "water", ["bed 1"])
    assert picture.labels["separate"] == "IndependentRidge"
    (panel,) = picture.panels
    x, y = np.transpose(panel.lines["separate"])
    rows = table.query("bed == 'bed 1'")
    typical = pd.DataFrame(
        {"water": x, "light": rows.light.mean(), "soil": rows.soil.mode()[0]}
    ).assign(bed="bed 1")
    assert_allclose(y, result.predict(typical))
    _, partial = np.transpose(panel.lines["multi-task"])
    assert np.abs(partial - y).max() > 0


@pytest.mark.slow
def test_tasks_of_another_size_have_axes_of_their_own():
    table = plants()
    table.loc[table.bed == "bed 1", ["water", "height"]] *= 100
    result = compared(table, ["PooledRidge"])
    picture = task_picture(result.model, result.dataset, "water", ["bed 1", "bed 2"])
    assert not picture.shares_axes
    _, small = draw(picture)
    # Lines of other tasks behind do not stretch the axis.
    assert small.get_xlim()[1] < 20


@pytest.mark.slow
def test_the_line_of_a_smooth_model_is_a_curve_with_its_band(tmp_path):
    table = plants(n_last=3).drop(columns=["light", "soil"])
    table["height"] = 10 * np.sin(table.water) + 0.3 * np.arange(len(table)) % 2
    result = compared(table, ["SmoothMTL"])
    assert result.saved == "SmoothMTL"
    (panel,) = task_picture(result.model, result.dataset, "water", ["bed 2"]).panels
    for name in ("separate", "pooled", "multi-task"):
        x, y = np.transpose(panel.lines[name])
        assert np.ptp(np.diff(y) / np.diff(x)) > 5, "no straight line"
    x, low, high = np.transpose(panel.band)
    curve = ModelCurves(tmp_path, result.model, "water").curve(2)
    # The band holds what the curve of the posterior misses, too, but no noise.
    width = np.interp(curve.values, x, high - low)
    assert (width > curve.high - curve.low).all()
    rows = pd.DataFrame({"water": x, "bed": "bed 2"})
    new_targets = 2 * 1.96 * result.model.deviations(*result.model.read(rows))
    assert (high - low < new_targets).all()


def test_a_loaded_model_is_drawn_with_its_rows_or_with_its_table(grown):
    _, folder = grown
    model = load_model(folder / "model")
    for axes in (
        mtlrun.plot_task(folder / "model", ["bed 2"], column="water"),
        mtlrun.plot_task(model, ["bed 2"], column="water", table=plants()),
    ):
        lines = {line.get_label(): line for line in axes[0].lines}
        rows = plants().query("bed == 'bed 2'")
        assert_allclose(lines["observed"].get_ydata(), rows.height)
    with pytest.raises(UserError, match="keep") as caught:
        mtlrun.plot_task(model)
    assert "table=" in caught.value.remedy
    with pytest.raises(DataError, match="tasks"):
        mtlrun.plot_task(model, table=plants(5))


def test_a_kind_that_a_model_lacks_is_refused_with_those_that_it_has(grown, tmp_path):
    _, folder = grown
    words = ["plot", str(folder / "model"), "--kind", "tasks", "-o"]
    run = CliRunner().invoke(app, [*words, str(tmp_path / "a.svg")])
    assert run.exit_code == 2
    for kind in ("coefficients", "shrinkage", "task"):
        assert kind in run.stderr


@pytest.mark.slow
def test_tasks_of_equal_size_have_no_picture_of_gains_by_rows():
    table = plants().query("bed != 'bed 7'")
    result = compared(table, ["GraphMTL"])
    with pytest.raises(UserError, match="12 rows") as caught:
        result.plot_gains()
    assert "plot_tasks" in caught.value.remedy
