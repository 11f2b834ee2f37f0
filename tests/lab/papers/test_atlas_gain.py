"""The analysis behind the atlas: gains of compare with few training rows, and
properties of tables.
"""

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from mtlrun.data.sets.simulate import simulate_families, simulate_rmtl
from mtlrun.data.splits import fewer_rows
from mtlrun.errors import DataError
from mtlrun.papers.atlas.gain import COLUMNS, gain, properties, protocol_of

FEW = {"methods": ["HierarchicalMTL", "GraphMTL"], "folds": 3, "search": 2}


def families(family, **options):
    return simulate_families(
        family=family, **{"rows": 60, "tasks": 8, "d": 4, **options}
    )


@pytest.fixture(scope="module")
def clusters_gain():
    """Return the result of tables with clusters of tasks, where sharing helps."""
    return gain(families("clusters"), seed=0, rows=16, **FEW)


@pytest.mark.slow
def test_tasks_with_different_slopes_gain_and_unrelated_tasks_do_not():
    values_by_family = {
        family: gain(families(family), seed=0, rows=6, **FEW).values
        for family in ("slopes", "unrelated")
    }
    assert values_by_family["slopes"]["over_independent"] > 0.1
    assert values_by_family["unrelated"]["helps"] == 0
    assert (
        values_by_family["slopes"]["low"]
        < values_by_family["slopes"]["gain"]
        < values_by_family["slopes"]["high"]
    )
    assert values_by_family["slopes"]["rows_per_task"] == 6


def test_a_gain_that_may_not_reach_the_smallest_one_does_not_help(
    clusters_gain, monkeypatch
):
    clear = clusters_gain.values
    assert clear["helps"] == 1

    def demanding(*args):
        return replace(protocol_of(*args), smallest=1e6)

    monkeypatch.setattr("mtlrun.papers.atlas.gain.protocol_of", demanding)
    small = gain(families("clusters"), seed=0, rows=16, **FEW).values
    assert small["low"] == clear["low"] > 0
    assert small["helps"] == 0


def test_the_table_contains_every_method(clusters_gain):
    (table,) = clusters_gain.tables.values()
    rows = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in table["rows"]}
    baselines = ["TaskMean", "IndependentRidge", "PooledRidge", "IndependentRidgeCV"]
    assert list(rows) == [*baselines, "HierarchicalMTL", "GraphMTL"]
    assert sum(rows[name]["chosen"] for name in ("HierarchicalMTL", "GraphMTL")) == 3
    assert rows["TaskMean"]["gain"] < rows["HierarchicalMTL"]["gain"]


@pytest.mark.slow
def test_gains_of_labels_are_relative_reductions_of_the_error():
    values = gain(
        simulate_rmtl(n=60, d=5, m=4, rank=1),
        seed=0,
        rows=25,
        methods=["GraphMTL"],
        folds=2,
        search=2,
    ).values
    assert 0 < values["error"] < 0.5
    assert -1 < values["low"] < values["high"] < 1


@pytest.mark.parametrize(
    "has_labels", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_gains_are_relative_to_the_error_of_the_alternative(has_labels):
    data = families("slopes", rows=40, tasks=4, d=3)
    if has_labels:
        data.y = np.where(data.y > np.median(data.y), 1.0, -1.0)
        data.task_type = "binary"
    # With this seed the gains over the three alternatives differ.
    seed = 0 if has_labels else 10
    result = gain(data, seed=seed, rows=16, methods=["GraphMTL"], folds=2, search=2)
    (table,) = result.tables.values()
    rows = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in table["rows"]}
    joint = next(row for row in rows.values() if row["family"] == "multi-task")
    # With a single multi-task method, the strategy equals that method.
    assert joint["chosen"] == 2
    values = result.values
    relative = 1 - joint["error"] / values["error"]
    assert values["gain"] == pytest.approx(relative, abs=1e-5)
    for name in ("gain", "low", "high"):
        assert joint[name] == pytest.approx(values[name], abs=1e-5)
    assert joint["over alone"] == pytest.approx(values["over_independent"], abs=1e-5)
    assert values["over_independent"] != pytest.approx(values["over_pooled"], abs=1e-3)
    smaller = min(values["over_independent"], values["over_pooled"])
    assert values["gain"] <= smaller + 0.05
    assert values["better_tasks"] in [k / 4 for k in range(5)]
    assert values["better_tasks"] <= 1


def test_seconds_of_a_method_include_its_search(monkeypatch):
    # Each look at the clock is a second after the last one.
    seconds_passed = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(seconds_passed)))
    result = gain(families("equal"), seed=0, rows=6, **FEW)
    (table,) = result.tables.values()
    seconds = {row[0]: row[COLUMNS.index("seconds")] for row in table["rows"]}
    # A ridge is searched in two inner folds of each of three, and a mean is not.
    assert seconds["IndependentRidge"] - seconds["TaskMean"] == 3 * 2


def test_the_effective_rank_is_relative_to_its_maximum():
    rng = np.random.default_rng(0)
    n_tasks, n_rows, n_features = 6, 400, 3
    ids = np.arange(n_tasks * n_rows) % n_tasks
    X = rng.normal(size=(len(ids), n_features))
    orthogonal = np.vstack([np.eye(3), -np.eye(3)])
    data = families("equal", rows=n_rows, tasks=n_tasks, d=n_features)
    data.X = X
    data.task_id = ids
    data.y = (X * 30 * orthogonal[ids]).sum(axis=1)
    traits = properties(data)
    assert traits["rank"] == pytest.approx(1.0, abs=0.01)
    assert (traits["rows_per_task"], traits["tasks"], traits["features"]) == (400, 6, 3)


def test_the_rank_is_that_of_ridge_coefficients_with_a_penalty_per_column():
    data = families("low-rank", rows=8, tasks=5, d=4)
    X = StandardScaler().fit_transform(data.X)
    coefs = []
    for task in range(5):
        rows = data.task_id == task
        coefs.append(Ridge(alpha=4.0).fit(X[rows], data.y[rows]).coef_)
    squares = np.linalg.svd(coefs, compute_uv=False) ** 2
    shares = squares / squares.sum()
    expected = np.exp(-np.sum(shares * np.log(shares))) / 4
    assert properties(data)["rank"] == pytest.approx(expected)


def test_a_number_of_rows_that_most_tasks_lack_is_rejected():
    with pytest.raises(DataError, match="50 training rows") as caught:
        gain(families("equal"), seed=0, rows=50, **FEW)
    assert caught.value.remedy


def test_larger_training_sets_contain_the_smaller_ones():
    data = families("equal")
    few, many = (
        fewer_rows(data, np.arange(data.n_samples), rows, 0) for rows in (5, 12)
    )
    assert np.bincount(data.task_id[few]).tolist() == [5] * 8
    assert np.bincount(data.task_id[many]).tolist() == [12] * 8
    assert set(few) < set(many)


def test_properties_distinguish_families_of_tables():
    traits_by_family = {
        family: properties(families(family, d=6))
        for family in ("equal", "low-rank", "unrelated")
    }
    shares = ("tasks_share", "mean_share", "noise")
    assert all(
        sum(traits[name] for name in shares) == pytest.approx(1, abs=0.02)
        for traits in traits_by_family.values()
    )
    assert (
        traits_by_family["equal"]["tasks_share"]
        < 0.05
        < 0.3
        < traits_by_family["unrelated"]["tasks_share"]
    )
    assert (
        traits_by_family["equal"]["rank"]
        < traits_by_family["low-rank"]["rank"]
        < traits_by_family["unrelated"]["rank"]
    )
    assert traits_by_family["equal"]["mean_share"] == pytest.approx(0.5, abs=0.1)
