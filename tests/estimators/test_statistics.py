"""Models fitted to sufficient statistics equal those fitted to the rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mtlrun.estimators as estimators
from mtlrun.catalog.registry import METHODS
from mtlrun.problem.statistics import TaskStatistics

MODELS = [
    name
    for name, method in METHODS.items()
    if method.class_path.startswith("mtlrun.")
    and getattr(getattr(estimators, name), "_by_sums", False)
    and hasattr(getattr(estimators, name), "fit_statistics")
    and method.kind == "regressor"
]


def data(layout, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 5)) + np.array([50, 0, 0, 5, 0])
    Y = X @ rng.normal(size=(5, 4)) + rng.normal(size=(80, 4)) + 20
    if layout == "masked":
        return X, np.where(rng.random(Y.shape) < 0.2, np.nan, Y), {}
    if layout == "ragged":
        t = np.arange(80) % 4
        return X, Y[np.arange(80), t], {"task_id": np.array(list("abcd"))[t]}
    return X, Y, {}


def test_all_models_with_the_squared_loss_are_tested():
    assert {
        "IndependentRidge",
        "TraceNormMTL",
        "RobustMTL",
        "FETR",
        "MTFL",
        "MTRL",
        "MTFRL",
        "FusedMTL",
    } <= {*MODELS}
    assert not {"PooledRidge", "GraphSVC", "TraceNormMTLClassifier", "MTNetwork"} & {
        *MODELS
    }
    for name in ("PooledRidge", "TraceNormMTLCV", "RobustMTLClassifier"):
        assert not hasattr(getattr(estimators, name)(), "partial_fit")


@pytest.mark.cover(
    name=MODELS, layout=["shared", "ragged", "masked"], intercept=[True, False]
)
def test_statistics_give_the_model_of_the_rows(name, layout, intercept):
    X, y, ids = data(layout)
    weights = np.random.default_rng(1).random(len(X)) + 0.1
    model = getattr(estimators, name)(
        fit_intercept=intercept, **({"lam": 0.7} if name == "RobustMTL" else {})
    )
    defaults = model.get_params()
    model.set_params(
        **{k: v for k, v in {"tol": 1e-9, "max_iter": 20000}.items() if k in defaults}
    )
    model.fit(X, y, sample_weight=weights, **ids)
    rows, sums = (
        dict(vars(model)),
        model.fit_statistics(TaskStatistics.of(X, y, ids.get("task_id"), weights)),
    )
    assert sums.objective_[-1] == pytest.approx(rows["objective_"][-1], rel=1e-8)
    assert_allclose(sums.coef_, rows["coef_"], atol=1e-4)
    assert_allclose(sums.intercept_, rows["intercept_"], atol=5e-3)
    assert sums.tasks_.tolist() == rows["tasks_"].tolist()
    assert (sums.gap_ is None) == (rows["gap_"] is None)
    assert_allclose(
        sums.predict(X, **ids),
        X @ sums.coef_.T + sums.intercept_ if not ids else sums.predict(X, **ids),
    )


@pytest.mark.parametrize("layout", ["shared", "ragged"])
def test_partial_fits_end_at_the_solution_of_one_fit(layout):
    X, y, ids = data(layout)
    single_fit = estimators.TraceNormMTL(alpha=5.0, tol=1e-9).fit(X, y, **ids)
    model = estimators.TraceNormMTL(alpha=5.0, tol=1e-9)
    for k in range(4):
        part = slice(k, None, 4) if layout == "shared" else ids["task_id"] == "abcd"[k]
        model.partial_fit(
            X[part], y[part], **{name: values[part] for name, values in ids.items()}
        )
    assert_allclose(model.coef_, single_fit.coef_, atol=1e-5)
    assert_allclose(model.intercept_, single_fit.intercept_, atol=1e-3)
    assert model.statistics_.n_rows.tolist() == [80 if layout == "shared" else 20] * 4
    again = model.partial_fit(
        X[:1], y[:1], **{name: values[:1] for name, values in ids.items()}
    )
    cold = estimators.TraceNormMTL(alpha=5.0, tol=1e-9).fit_statistics(
        again.statistics_
    )
    assert again.objective_[0] < cold.objective_[0]  # It starts near the solution.
    assert again.objective_[-1] == pytest.approx(cold.objective_[-1], rel=1e-8)


def test_rows_of_another_layout_are_rejected_and_change_nothing():
    X, y, ids = data("ragged")
    model = estimators.SparseMTL().partial_fit(X, y, **ids)
    coef = model.coef_
    with pytest.raises(ValueError, match="ragged layout"):
        model.partial_fit(*data("shared")[:2])
    assert model.coef_ is coef
    assert model.predict(X, **ids).shape == (80,)


def test_sites_send_statistics_and_not_rows(tmp_path):
    X, y, ids = data("ragged")
    sites = [ids["task_id"] == name for name in "abcd"]
    files = [
        TaskStatistics.of(X[site], y[site], ids["task_id"][site]).save(
            tmp_path / f"{k}.npz"
        )
        for k, site in enumerate(sites)
    ]
    total = sum(map(TaskStatistics.load, files[1:]), TaskStatistics.load(files[0]))
    joint = estimators.GraphMTL(tol=1e-9).fit_statistics(total)
    assert_allclose(
        joint.coef_, estimators.GraphMTL(tol=1e-9).fit(X, y, **ids).coef_, atol=1e-5
    )


@pytest.mark.parametrize("layout", ["shared", "ragged", "masked"])
def test_large_single_precision_arrays_are_read_in_blocks(
    layout, monkeypatch, watch_calls
):
    X, y, ids = data(layout)
    X, targets = np.float32(np.tile(X, (2, 1))), np.concatenate([y, y])
    ids = {name: np.concatenate([values, values]) for name, values in ids.items()}
    weights = np.random.default_rng(1).random(len(X)) + 0.1
    rows = estimators.TraceNormMTL(alpha=5.0, tol=1e-9).fit(
        X, targets, sample_weight=weights, **ids
    )
    read = []
    monkeypatch.setattr("mtlrun.estimators.base._LARGE", 0)
    monkeypatch.setattr("mtlrun.estimators.base._BLOCK", 5 * 30)
    watch_calls(TaskStatistics.__add__, read.append)
    blocks = estimators.TraceNormMTL(alpha=5.0, tol=1e-9).fit(
        X, targets, sample_weight=weights, **ids
    )
    assert len(read) == 5
    assert_allclose(blocks.coef_, rows.coef_, atol=1e-5)
    assert_allclose(blocks.intercept_, rows.intercept_, atol=1e-3)
    assert blocks.objective_[-1] == pytest.approx(rows.objective_[-1], rel=1e-7)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        estimators.TraceNormMTL().fit(
            np.where(np.isclose(X, X[-1, -1]), np.nan, X), targets, **ids
        )
    read.clear()
    estimators.RobustMTL(lam=0.7, solver="apg", tol=0.1).fit(
        X, targets, **ids
    )  # An algorithm of the paper
    assert not read
