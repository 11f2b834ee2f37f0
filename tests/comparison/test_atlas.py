"""The measure of the atlas: gains of compare with few training rows, and what a table is like before."""

import numpy as np
import pytest

from mtlrun.comparison.atlas import COLUMNS, gain, properties
from mtlrun.data.simulate import simulate_families, simulate_rmtl
from mtlrun.data.splits import fewer_rows
from mtlrun.errors import DataError

FEW = {"methods": ["HierarchicalMTL", "GraphMTL"], "folds": 3, "search": 2}


def families(family, **options):
    return simulate_families(
        family=family, **{"rows": 60, "tasks": 8, "d": 4, **options}
    )


def test_tasks_that_differ_by_slopes_gain_and_unrelated_ones_do_not():
    found = {
        family: gain(families(family), seed=0, rows=6, **FEW).values
        for family in ("slopes", "unrelated")
    }
    assert found["slopes"]["over_independent"] > 0.1
    assert found["unrelated"]["helps"] == 0
    assert found["slopes"]["low"] < found["slopes"]["gain"] < found["slopes"]["high"]
    assert found["slopes"]["rows_per_task"] == 6


def test_every_method_stands_in_the_table():
    (table,) = gain(families("clusters"), seed=0, rows=8, **FEW).tables.values()
    rows = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in table["rows"]}
    baselines = ["TaskMean", "IndependentRidge", "PooledRidge", "IndependentRidgeCV"]
    assert list(rows) == [*baselines, "HierarchicalMTL", "GraphMTL"]
    assert sum(rows[name]["chosen"] for name in ("HierarchicalMTL", "GraphMTL")) == 3
    assert rows["TaskMean"]["gain"] < rows["HierarchicalMTL"]["gain"]


def test_gains_of_labels_are_parts_of_an_error():
    found = gain(
        simulate_rmtl(n=90, d=5, m=4, rank=1),
        seed=0,
        rows=40,
        methods=["GraphMTL"],
        folds=3,
        search=2,
    ).values
    assert 0 < found["error"] < 0.5
    assert -1 < found["low"] < found["high"] < 1


def test_a_number_of_rows_that_most_tasks_lack_is_refused():
    with pytest.raises(DataError, match="50 training rows") as caught:
        gain(families("equal"), seed=0, rows=50, **FEW)
    assert caught.value.remedy


def test_more_rows_hold_the_fewer_ones():
    data = families("equal")
    few, many = (
        fewer_rows(data, np.arange(data.n_samples), rows, 0) for rows in (5, 12)
    )
    assert np.bincount(data.task_id[few]).tolist() == [5] * 8
    assert np.bincount(data.task_id[many]).tolist() == [12] * 8
    assert set(few) < set(many)


def test_properties_tell_families_apart():
    found = {
        family: properties(families(family, d=6))
        for family in ("equal", "low-rank", "unrelated")
    }
    shares = ("tasks_share", "mean_share", "noise")
    assert all(
        sum(traits[name] for name in shares) == pytest.approx(1, abs=0.02)
        for traits in found.values()
    )
    assert (
        found["equal"]["tasks_share"] < 0.05 < 0.3 < found["unrelated"]["tasks_share"]
    )
    assert (
        found["equal"]["rank"] < found["low-rank"]["rank"] < found["unrelated"]["rank"]
    )
    assert found["equal"]["mean_share"] == pytest.approx(0.5, abs=0.1)
