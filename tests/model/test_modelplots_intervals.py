"""Plots and predictions of a hierarchical model with intervals."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose
from scipy.stats import norm
from typer.testing import CliRunner

import mtlrun
from mtlrun.cli.app import app
from mtlrun.engine.evaluation import innermost
from mtlrun.estimators import HierarchicalMTL
from mtlrun.estimators.baselines import ScaledTargets
from mtlrun.model import plots as modelplots
from mtlrun.model.files import load_model
from mtlrun.model.fitted import Model
from mtlrun.model.plots import estimate_pictures, estimates_of
from mtlrun.show.drawing import draw
from mtlrun.show.palette import MULTITASK, SEPARATE
from mtlrun.show.pictures import N_EXTREMES


def shops(seed=0, T=12, n=10):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(T), n)
    frame = pd.DataFrame(rng.normal(size=(T * n, 2)), columns=["price", "promo"])
    slopes = 1 + rng.normal(size=T)
    frame["sales"] = (
        50
        + 4 * rng.normal(size=T)[task]
        + 3 * slopes[task] * frame.price
        + rng.normal(size=T * n)
    )
    frame["shop"] = [f"shop {t}" for t in task]
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("intervals")
    lines = []
    result = mtlrun.compare(
        shops(),
        target="sales",
        task="shop",
        unseen="mean",
        methods=["HierarchicalMTL"],
        splits=2,
        repeats=1,
        folds=2,
        output=home,
        say=lines.append,
    )
    result.save(home / "saved")
    shops(1).to_csv(home / "new.csv", index=False)
    return home, next(home.rglob("model.json")).parent, lines


@pytest.mark.parametrize("has_level", [True, False])
def test_a_feature_called_intercept_is_not_taken_for_the_intercept(has_level):
    frame = shops().rename(columns={"promo": "intercept"})
    hierarchical = HierarchicalMTL(fit_intercept=has_level)
    estimator = ScaledTargets(hierarchical)
    X = frame[["price", "intercept"]]
    estimator.fit(X, frame["sales"], task_id=frame["shop"])
    model = Model(estimator, None, {"input": {"names": list(X.columns)}})
    estimates, _ = estimates_of(model)
    features = ["price", "intercept (2)"]
    assert estimates.names == [*(["intercept"] * has_level), *features]
    assert_allclose(estimates.pooled[:, -2:], estimator.coef_)


def test_compare_prints_how_tasks_differ_before_any_fit(folder):
    lines = folder[2]
    (line_number,) = [
        k for k, line in enumerate(lines) if line.startswith("tasks explain")
    ]
    assert "slopes differ in price (" in lines[line_number]
    assert "promo" not in lines[line_number]
    assert line_number < min(k for k, line in enumerate(lines) if "rmse" in line)


def test_intervals_are_written_next_to_predictions(folder, tmp_path):
    home, model, _ = folder
    out = tmp_path / "out.csv"
    arguments = [
        "predict",
        str(model),
        str(home / "new.csv"),
        "--interval",
        "0.8",
        "-o",
        str(out),
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    table = pd.read_csv(out)
    expected = ["row", "task", "prediction", "lower", "upper", "is_known_task"]
    assert list(table.columns)[:6] == expected
    assert table.is_known_task.all()
    loaded = load_model(model)
    std = loaded.deviations(*loaded.read(shops(1)))
    # The model's standard deviations set the scale, and held-out rows the multiples,
    # which may differ above and below.
    for half_width in (table.upper - table.prediction, table.prediction - table.lower):
        factor = half_width / std
        np.testing.assert_allclose(factor, factor[0], rtol=1e-4)
        assert 0.8 < factor[0] / norm.ppf(0.9) < 1.5
    inner = innermost(loaded.estimator)
    assert (std >= np.sqrt(inner.noise_variance_) * loaded.estimator.scale_).all()
    new = shops(1).assign(shop="elsewhere")
    assert (loaded.deviations(*loaded.read(new)) > std.min()).all()


@pytest.mark.parametrize(
    ("interval", "word"), [("1.5", "--interval"), ("0", "--interval")]
)
def test_an_invalid_coverage_is_rejected(folder, interval, word):
    home, model, _ = folder
    result = CliRunner().invoke(
        app, ["predict", str(model), str(home / "new.csv"), "--interval", interval]
    )
    assert result.exit_code == 2
    assert word in result.output


@pytest.mark.slow
def test_a_method_without_standard_deviations_has_intervals_but_no_shrinkage_plot(
    folder, tmp_path
):
    frame = shops()
    other = mtlrun.compare(
        frame,
        target="sales",
        task="shop",
        methods=["PooledRidge"],
        splits=2,
        repeats=1,
        folds=2,
        output=tmp_path,
    )
    other.save(tmp_path / "saved")
    model = next(tmp_path.rglob("model.json")).parent
    out = tmp_path / "p.csv"
    words = ["predict", str(model), str(folder[0] / "new.csv"), "--interval", "0.9"]
    result = CliRunner().invoke(app, [*words, "-o", str(out)])
    assert result.exit_code == 0
    table = pd.read_csv(out)
    assert (table.lower < table.prediction).all()
    assert (table.prediction < table.upper).all()
    result = CliRunner().invoke(
        app, ["plot", str(model), "--kind", "shrinkage", "-o", str(tmp_path / "a.svg")]
    )
    assert result.exit_code == 2


@pytest.mark.slow
@pytest.mark.rendered
@pytest.mark.parametrize("kind", ["shrinkage", "coefficients"])
def test_figures_with_intervals_are_drawn(folder, kind, tmp_path):
    file = tmp_path / "figure.svg"
    result = CliRunner().invoke(
        app, ["plot", str(folder[1]), "--kind", kind, "-o", str(file)]
    )
    assert result.exit_code == 0, result.output
    text = file.read_text()
    assert "price" in text
    assert ">shop 3<" in text


def test_pictures_show_the_numbers_of_the_model(folder):
    model = load_model(folder[1])
    intercept, price, *_ = modelplots.picture_of(folder[1], "shrinkage").facets
    assert (intercept.title, intercept.axis) == ("Intercept", "sales")
    assert price.title == "Coefficient of price"
    arrows = {arrow.name: arrow for arrow in price.arrows}
    assert set(arrows) == {f"shop {t}" for t in range(12)}
    std = innermost(model.estimator).coef_std_[:, 0] * model.estimator.scale_
    for t, task in enumerate(model.about["tasks"]):
        arrow = arrows[task]
        assert arrow.multitask == pytest.approx(model.estimator.coef_[t, 0])
        assert arrow.high - arrow.multitask == pytest.approx(1.96 * std[t])
    separate = [arrow.separate for arrow in arrows.values()]
    assert np.ptp(separate) > np.ptp(model.estimator.coef_[:, 0])
    # Columns of a table are standardized: the axis tells the step in their units.
    step = shops().price.std(ddof=0)
    assert price.axis == f"sales per {step:.3g} of price"


def test_the_constant_of_a_task_is_called_intercept_in_all_outputs(folder):
    title = modelplots.picture_of(folder[1], "shrinkage").facets[0].title
    columns = pd.read_csv(folder[0] / "saved" / "coefficients.csv").columns
    shown = CliRunner().invoke(app, ["show", str(folder[1])]).output
    assert title == "Intercept"
    assert columns[1] == "intercept"
    assert "  intercept" in shown


def test_the_separate_estimates_belong_to_shrinkage_only(folder):
    for facet in modelplots.picture_of(folder[1], "coefficients").facets:
        assert all(arrow.separate is None for arrow in facet.arrows)


def test_rows_are_named_and_sorted_and_no_label_is_cut(folder):
    axes, *_ = draw(modelplots.picture_of(folder[1], "shrinkage"))
    (partial,) = [a for a in axes.lines if a.get_label() == "partially pooled"]
    (separate,) = [a for a in axes.lines if a.get_label() == "separate"]
    assert to_hex(partial.get_color()) == MULTITASK.color.lower()
    assert to_hex(separate.get_color()) == SEPARATE.color.lower()
    assert separate.get_markerfacecolor() == "white"
    assert (np.diff(partial.get_xdata()) <= 0).all()
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert set(names) == {f"shop {t}" for t in range(12)}
    figure = axes.figure
    figure.draw_without_rendering()
    for text in axes.get_yticklabels():
        assert text.get_window_extent().x0 >= 0


def test_coefficients_that_all_tasks_share_are_drawn_once(folder):
    model = load_model(folder[1])
    inner = innermost(model.estimator)
    estimates = inner.estimates()
    estimates.pooled[:, 2] = estimates.pooled[0, 2]
    inner.estimates = lambda: estimates
    *_, common = estimate_pictures(model)
    assert [arrow.name for arrow in common.arrows] == ["promo"]
    assert "all tasks" in common.title


@pytest.mark.slow
def test_a_linear_model_of_many_tasks_shows_their_distribution(tmp_path):
    frame = shops(T=80, n=6)
    model = mtlrun.compare(
        frame, target="sales", task="shop", methods=["GraphMTL"], splits=2, repeats=1,
        folds=2,
    )  # fmt: skip
    model.save(tmp_path)
    picture = modelplots.picture_of(tmp_path / "model", "coefficients")
    assert all(facet.has_selection for facet in picture.facets)
    axes, *_ = draw(picture)
    assert [text.get_text() for text in axes.texts] == [
        f"{80 - 2 * N_EXTREMES} tasks between",
        "all 80 tasks",
    ]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    (folder / "mine.yaml").write_text(
        "schema: 1\nid: my/model\ntitle: Mine\nkind: train\n"
        "dataset: simulated-kernel-groups\n"
        "method: {estimator: HierarchicalMTLClassifier}\n"
        "split: {kind: random, train: 0.5}\nmetrics: [auc]\n"
    )
    words = ["train", str(folder / "mine.yaml"), "-o", str(folder)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return folder / "my" / "model"


@pytest.mark.rendered
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["shrinkage", "coefficients"])
def test_log_odds_of_a_classifier_are_drawn_with_intervals(kind, classifier, tmp_path):
    file = tmp_path / "figure.svg"
    words = ["plot", str(classifier), "--kind", kind, "-o", str(file)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "log-odds" in file.read_text()
