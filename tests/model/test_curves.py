"""``mtlrun plot MODEL --kind curve``: curves in the units of the table."""

import hashlib
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import MinMaxScaler, Normalizer
from typer.testing import CliRunner

import mtlrun
from mtlrun.cli.app import app
from mtlrun.engine.evaluation import innermost
from mtlrun.errors import UnknownNameError, UserError
from mtlrun.estimators import SmoothMTL
from mtlrun.estimators.baselines import ScaledTargets
from mtlrun.features.table import TableFeatures
from mtlrun.model.curves import (
    ModelCurves,
    checked_tasks,
    curve_picture,
    variances_line,
)
from mtlrun.model.files import load_model
from mtlrun.model.fitted import Model
from mtlrun.model.plots import plot_model
from mtlrun.show.drawing import draw

pytestmark = pytest.mark.usefixtures("few_trees")

FARMS = [f"farm {letter}" for letter in "abcde"]


def milk_table(with_gaps=False):
    """Return yields in liters by day of the year, far from zero and one."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(5), 12)
    days = rng.uniform(100, 300, size=task.size)
    level = 100 * np.array([3, 0, 4, 1, 2])[task]
    liters = 4000 + 300 * np.sin(days / 40) + level + 20 * rng.normal(size=60)
    table = pd.DataFrame({"day": days, "liters": liters})
    table["farm"] = [FARMS[t] for t in task]
    if with_gaps:
        table.loc[::7, "day"] = np.nan
        table["breed"] = np.where(rng.random(60) < 0.5, "red", "black")
    return table


CARD = """\
id: milk-of-farms
title: Milk of farms
task_type: regression
design: ragged
reader: {{name: table, options: {{data: milk.csv, targets: [liters], task: farm}}}}
folder: rows
files: [{{name: milk.csv, sha256: {sha}, bytes: {size}}}]
license: free
citation: nobody
"""
TRAINING = """\
schema: 1
kind: train
id: curves/milk
dataset: milk-of-farms
features: table
method:
  estimator: mtlrun.estimators.baselines:ScaledTargets
  params: {estimator: {estimator: SmoothMTL}}
split: {kind: random, train: 0.8}
metrics: [rmse]
"""


def trained_model(folder, table, card=CARD, training=TRAINING):
    """Return the folder of a smooth model, without a comparison."""
    rows = table.to_csv(index=False).encode()
    (folder / "data" / "rows").mkdir(parents=True)
    (folder / "data" / "rows" / "milk.csv").write_bytes(rows)
    (folder / "data" / "cards").mkdir()
    card = card.format(sha=hashlib.sha256(rows).hexdigest(), size=len(rows))
    (folder / "data" / "cards" / "milk-of-farms.yaml").write_text(card)
    (folder / "milk.yaml").write_text(training)
    words = ["train", folder / "milk.yaml", "-o", folder, "--data-dir", folder / "data"]
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return folder / "curves" / "milk"


def saved_model(folder, table, method="SmoothMTL"):
    result = mtlrun.compare(
        table,
        target="liters",
        task="farm",
        methods=[method],
        splits=2,
        repeats=1,
        folds=2,
        output=folder,
    )
    result.save(folder / "saved")
    return next(folder.rglob("model.json")).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trained_model(tmp_path_factory.mktemp("curves"), milk_table())


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    return trained_model(tmp_path_factory.mktemp("mixed"), milk_table(with_gaps=True))


def plot(model, *arguments):
    return CliRunner().invoke(app, ["plot", str(model), *map(str, arguments)])


@pytest.mark.slow
def test_a_saved_model_says_that_its_predictions_depend_on_the_centers(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.7, 1.7, size=(240, 3))
    rough = np.sin(2 * X[:, 0] * X[:, 1] + 2 * X[:, 2])
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table["liters"] = rough + 0.02 * rng.normal(size=240)
    table["farm"] = np.repeat(FARMS, 48)
    folder = trained_model(tmp_path, table)
    (note,) = innermost(load_model(folder).estimator).notes()
    shown = CliRunner().invoke(app, ["show", str(folder)])
    assert " ".join(note.split()) in " ".join(shown.output.split())


@pytest.mark.rendered
def test_the_figure_names_column_target_and_tasks(folder, tmp_path):
    file = tmp_path / "curve.svg"
    result = plot(
        folder, "--kind", "curve", "--column", "day", "--tasks", "farm b", "-o", file
    )
    assert result.exit_code == 0, result.output
    assert "shares of the variance: " in result.output
    text = file.read_text()
    for name in (">day<", ">liters<", ">farm b<"):
        assert name in text
    assert ">farm c<" not in text


def test_the_curve_of_a_task_equals_the_predictions_of_the_model(folder):
    """With a single column nothing is averaged."""
    model = load_model(folder)
    curve = ModelCurves(folder, model, "day").curve(2)
    rows = pd.DataFrame({"day": curve.values, "farm": FARMS[2]})
    np.testing.assert_allclose(curve.mean, model.predict(rows), rtol=1e-8)
    assert 100 < curve.values.min() < curve.values.max() < 300
    # Bands are narrower than intervals of new targets, which include noise.
    noise = model.deviations(*model.read(rows))
    assert ((curve.high - curve.low) / (2 * 1.96) < noise).all()
    estimator = innermost(model.estimator)
    low, high = estimator.partial_dependence(0, task=estimator.tasks_[2]).interval(0.95)
    width = model.estimator.scale_ * (high - low)
    np.testing.assert_allclose(curve.high - curve.low, width)


def test_all_panels_share_one_axis_that_shows_every_band(folder):
    picture = curve_picture(folder, load_model(folder), "day")
    # The lowest, the middle and the highest curve
    names = ["all tasks", "farm b", "farm e", "farm c"]
    assert [panel.name for panel in picture.panels] == names
    axes = draw(picture)
    ends = {one.get_ylim() for one in axes}
    ((low, high),) = ends
    for panel in picture.panels:
        _, band_low, band_high = np.transpose(panel.band)
        assert low < band_low.min()
        assert high > band_high.max()
    assert len(picture.panels[0].background) == 5


def test_columns_with_missing_values_keep_their_units(mixed):
    curve = ModelCurves(mixed, load_model(mixed), "day").curve(None)
    assert 100 < curve.values.min() < 130
    assert 270 < curve.values.max() < 300


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["--kind", "curve", "--column", "dya"], "'day'"),
        (["--kind", "curve", "--column", "breed"], "predict"),
        (["--kind", "curve", "--column", "day", "--tasks", "farm b,farm"], "'farm e'"),
        (["--kind", "tasks", "--column", "day"], "--kind curve"),
        (["--kind", "path", "--tasks", "farm a"], "--kind curve"),
    ],
)
def test_errors_about_curves_have_a_remedy(mixed, tmp_path, arguments, remedy):
    result = plot(mixed, *arguments, "-o", tmp_path / "a.svg")
    assert result.exit_code == 2
    assert remedy in result.output


@pytest.mark.rendered
def test_a_smooth_model_is_drawn_by_the_curve_of_its_first_numeric_column(
    mixed, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    result = plot(mixed)
    assert result.exit_code == 0, result.output
    (file,) = tmp_path.iterdir()
    assert file.name.endswith("-curve.svg")
    assert ">day<" in file.read_text()


@pytest.mark.slow
def test_a_model_without_curves_is_rejected(tmp_path):
    folder = saved_model(tmp_path, milk_table(), "PooledRidge")
    with pytest.raises(UserError) as caught:
        plot_model(folder, "curve", tmp_path / "a.svg", column="day")
    assert "SmoothMTL" in caught.value.remedy
    assert variances_line(load_model(folder)) is None


def test_a_run_has_no_columns(tmp_path):
    result = plot("fetr/fig2a", "--kind", "scaling", "--column", "x", "-o", "a.svg")
    assert result.exit_code == 2
    assert "model" in result.output


def fitted_model(X, y, step=None, **facts):
    """Return a model of two targets on the same rows, in units of their own."""
    features = X if step is None else step.fit_transform(X)
    estimator = ScaledTargets(SmoothMTL(task_parts=("level", "smooth")))
    estimator.fit(features, y)
    details = {
        "task_type": "regression",
        "design": "shared",
        "tasks": ["fat", "water"],
        "input": {"n_features": X.shape[1], "names": ["a", "b"]},
        "estimator": {"name": "SmoothMTL"},
    }
    return Model(estimator, step, details | facts)


@pytest.fixture(scope="module")
def shared_rows():
    rng = np.random.default_rng(1)
    X = rng.uniform(10, 20, size=(40, 2))
    y = np.column_stack([np.sin(X[:, 0]), 100 + X[:, 1]])
    return X, y + 0.1 * rng.normal(size=y.shape)


@pytest.fixture(scope="module")
def shared_model(shared_rows):
    return fitted_model(*shared_rows)


def test_targets_on_the_same_rows_have_panels_with_separate_axes(shared_model):
    picture = curve_picture("", shared_model, "b")
    assert [panel.name for panel in picture.panels] == ["fat", "water"]
    assert not picture.shares_axes
    # Each curve is in the unit of its target.
    fat, water = (
        np.transpose(panel.lines["multi-task"])[1] for panel in picture.panels
    )
    assert np.abs(fat).max() < 2
    assert 109 < water.min() < water.max() < 121


def test_shares_of_the_variance_are_means_over_the_targets():
    shares = {"common": np.array([0.1, 0.5]), "noise": np.array([0.004, 0.002])}
    model = SimpleNamespace(estimator=SimpleNamespace(variance_shares_=shares))
    assert variances_line(model).endswith(": common 30%")


def test_the_axis_of_labels_names_the_label_with_positive_log_odds(folder):
    model = load_model(folder)
    labels = {"task_type": "binary", "labels": {"liters": ["few", "many"]}}
    model = Model(model.estimator, model.step, model.about | labels)
    assert ModelCurves(folder, model, "day").quantity(None).endswith(" = many")


@pytest.mark.parametrize("step", [None, MinMaxScaler(), TableFeatures()])
def test_curves_are_drawn_at_values_of_the_column(shared_rows, shared_model, step):
    model = shared_model
    if step is not None:
        model = fitted_model(*shared_rows, step)
    values = ModelCurves("", model, "b").original_values()
    # Each row occurs once per target.
    expected = np.quantile(shared_rows[0][:, 1], [0.02, 0.98])
    np.testing.assert_allclose(values[[0, -1]], expected, rtol=1e-8)


def test_features_that_mix_columns_are_rejected(shared_rows):
    with pytest.raises(UserError) as caught:
        ModelCurves("", fitted_model(*shared_rows, Normalizer()), "b")
    assert "table" in caught.value.remedy


def test_columns_without_names_are_numbered(shared_model):
    inputs = {"n_features": 2, "names": []}
    model = Model(shared_model.estimator, None, shared_model.about | {"input": inputs})
    assert curve_picture("", model, "1").x_axis == "1"
    with pytest.raises(UnknownNameError):
        ModelCurves("", model, "2")


def test_a_constant_column_is_rejected(shared_rows):
    X, y = shared_rows
    model = fitted_model(np.column_stack([X[:, 0], np.ones(40)]), y)
    with pytest.raises(UserError) as caught:
        ModelCurves("", model, "b")
    assert "--column" in caught.value.remedy


@pytest.mark.slow
@pytest.mark.rendered
def test_the_title_names_the_method_and_not_the_target_scaling(folder, tmp_path):
    file = tmp_path / "curve.svg"
    plot(folder, "--kind", "curve", "--column", "day", "-o", file)
    # A smooth method adds its baselines; the best method is saved.
    assert re.search(
        r">Smooth(MTL|Pooled|Independent): liters over day<", file.read_text()
    )


@pytest.mark.slow
def test_curves_of_labels_are_log_odds_of_the_named_label(tmp_path):
    table = milk_table()
    table["liters"] = np.where(table.liters > 4200, "high", "low")
    card = CARD.replace("regression", "binary")
    training = TRAINING.replace("rmse", "auc").replace(
        """estimator: mtlrun.estimators.baselines:ScaledTargets
  params: {estimator: {estimator: SmoothMTL}}""",
        "estimator: SmoothMTLClassifier",
    )
    folder = trained_model(tmp_path, table, card, training)
    model = load_model(folder)
    curves = ModelCurves(folder, model, "day")
    assert curves.quantity(None) == "log-odds of liters = low"
    curve = curves.curve(0)
    rows = pd.DataFrame({"day": curve.values, "farm": FARMS[0]})
    chances = model.predict_proba(rows)[:, list(model.classes_).index("low")]
    # Averaging over the posterior moves probabilities towards one half, but never
    # across it.
    clear = np.abs(curve.mean) > 0.1
    np.testing.assert_array_equal((curve.mean > 0)[clear], (chances > 0.5)[clear])
    assert clear.sum() > 5


def test_names_of_tasks_may_contain_commas(shared_model):
    facts = shared_model.about | {"tasks": ["fat, dry", "water"]}
    model = Model(shared_model.estimator, None, facts)
    curves = ModelCurves("", model, "a")
    assert checked_tasks(["fat, dry", "water"], curves.tasks) == [0, 1]
    model.facts = {**model.facts, "tasks": ["fat", "water"]}
    assert checked_tasks(["water, fat"], ModelCurves("", model, "a").tasks) == [1, 0]
