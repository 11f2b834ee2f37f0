"""Racing: methods far behind after the first inner folds are not searched further."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import mtlrun
from mtlrun.catalog.methods import Method
from mtlrun.comparison.candidates import (
    Candidate,
    default_candidates,
    raced_labels,
)
from mtlrun.comparison.racing import (
    deficit,
    n_first_folds,
    race,
)
from mtlrun.comparison.verdict import INDEPENDENT, MULTITASK
from mtlrun.data.dataset import Dataset
from mtlrun.engine.job import DatasetRef, Job, Scoring, Search, Split, choose, job_from
from mtlrun.engine.packed import fold_keys
from mtlrun.engine.record import SearchResult

#: Simple default methods, which keep these comparisons short.
DEFAULT = (
    "TaskMean",
    "IndependentRidge",
    "PooledRidge",
    "IndependentRidgeCV",
    "IndependentLasso",
    "GraphMTL",
    "JointFeatureMTL",
    "TraceNormMTL",
)
QUICK = {"target": "y", "task": "school", "splits": 3, "repeats": 1, "folds": 3}


@pytest.fixture(scope="module")
def short_list():
    """Shorten the default list of methods."""
    from mtlrun.comparison import candidates

    default_candidates = candidates.default_candidates

    def few(dataset, train):
        return [
            candidate
            for candidate in default_candidates(dataset, train)
            if candidate.label in DEFAULT
        ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "default_candidates", few)
        yield


def unrelated_tasks(n_tasks=4, n=24):
    """Return a table whose tasks share only their first feature."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n_tasks * n, 6)), columns=list("abcdef"))
    task = np.repeat(np.arange(n_tasks), n)
    signal = 3 * frame.to_numpy()[np.arange(len(frame)), 1 + task]
    frame["y"] = frame.a + signal + 0.3 * rng.normal(size=len(frame))
    return frame.assign(school=[f"s{t}" for t in task])


def job_of(on="folds"):
    method = Method("IndependentRidge", params={"alpha": 1.0})
    return Job(
        DatasetRef("toy", {}, "0"),
        Split("kfold", 0, 0, folds=3),
        method,
        Scoring(("rmse",)),
        search=Search({"alpha": [1.0, 2.0]}, 5, "rmse", 0, method, on),
    )


def test_errors_are_compared_as_ratios_and_scores_as_differences():
    assert deficit("nmse", 1.1, 1.0) == pytest.approx(0.1)
    assert deficit("rmse", 1.1, 1.0) == pytest.approx(0.21)
    assert deficit("r2", 0.4, 0.5) == pytest.approx(0.2)
    assert deficit("auc", 0.7, 0.75) == pytest.approx(0.05)
    assert deficit("rmse", 0.0, 0.0) == 0


def test_a_method_is_compared_with_the_best_method_of_its_family():
    families = {"A": INDEPENDENT, "B": INDEPENDENT, "M": MULTITASK, "N": MULTITASK}
    means = {"A": [1.0], "B": [1.06, 2.0], "M": [2.0], "N": [None, 2.01]}
    result = race("nmse", means, families, ["B", "N"])
    assert list(result.stopped) == ["B"]
    assert result.stopped["B"] == pytest.approx(0.06)


def test_auc_races_in_points_and_the_best_method_is_never_stopped():
    families = dict.fromkeys("ABC", MULTITASK)
    means = {"A": [0.7, 0.8], "B": [0.799, 0.791, 0.785], "C": [0.78]}
    result = race("auc", means, families, "ABC")
    assert list(result.stopped) == ["C"]
    assert result.survivors == {"A": [1], "B": [0, 1]}


def test_a_method_behind_a_simpler_one_is_stopped_earlier_than_the_reverse():
    families = dict.fromkeys("AB", MULTITASK)
    behind = race("nmse", {"A": [1.0], "B": [1.02]}, families, "AB")
    ahead = race("nmse", {"A": [1.02], "B": [1.0]}, families, "AB")
    assert behind.stopped == {"B": pytest.approx(0.02)}
    assert ahead.stopped == {}
    means = {"A": [1.0], "B": [1.02], "C": [0.96]}
    between = race("nmse", means, dict.fromkeys("ABC", MULTITASK), "B")
    # The distance is the one to the best method, simpler or not.
    assert between.stopped == {"B": pytest.approx(1.02 / 0.96 - 1)}


def test_small_differences_count_only_with_enough_targets():
    families = dict.fromkeys("AB", MULTITASK)
    means = {"A": [1.0], "B": [1.02, 1.09]}
    assert race("nmse", means, families, "AB", 100).stopped.keys() == {"B"}
    few = race("nmse", means, families, "AB", 99)
    assert few.stopped == {}
    assert few.survivors["B"] == [0, 1]


def test_a_simpler_method_of_another_family_stops_no_method():
    families = {"A": INDEPENDENT, "B": MULTITASK}
    result = race("nmse", {"A": [1.0], "B": [1.04]}, families, "AB")
    assert result.stopped == {}


def test_a_method_without_a_score_is_not_stopped():
    families = dict.fromkeys("AB", MULTITASK)
    means = {"A": [1.0], "B": [None, None]}
    result = race("nmse", means, families, "AB")
    assert result.stopped == {}
    assert result.survivors == {"A": [0]}


def test_named_methods_and_baselines_do_not_race():
    rng = np.random.default_rng(0)
    dataset = Dataset(
        X=rng.normal(size=(40, 3)),
        y=rng.choice([-1.0, 1.0], 40),
        task_type="binary",
        task_id=np.arange(40) % 2,
    )
    labels = (
        "TaskMean",
        "IndependentLogistic",
        "PooledLogistic",
        "IndependentLogisticCV",
        # The first multi-task method
        "HierarchicalMTLClassifier",
        "GraphMTLClassifier",
        "TraceNormMTLClassifier",
    )
    default = default_candidates(dataset, 0.8)
    candidates = [c for c in default if c.label in labels]
    candidates.append(Candidate("Mine", MULTITASK, "x"))
    names = ["default", "GraphMTL", "pkg:Mine"]
    assert raced_labels(candidates, names, dataset, 0.8) == ["TraceNormMTLClassifier"]


def test_at_least_one_inner_fold_is_computed_first():
    assert [n_first_folds(n) for n in (2, 3, 5, 10)] == [1, 1, 1, 3]


def test_the_first_folds_are_jobs_of_the_full_search():
    job = job_of()
    first = job.of_first_folds(2)
    assert [fold.key for fold in first.folds] == [fold.key for fold in job.folds[:2]]
    assert first.key != job.key
    halving = job_of("halving")
    assert halving.of_first_folds(2).folds[0].key != halving.folds[0].key


def test_a_dropped_candidate_is_not_selected():
    first = SearchResult(scores=[1.0, 2.0], undefined=[0, 0], errors=[None, None])
    first.not_converged = [False, False]
    later = replace(first, scores=[None, 3.0])
    grid = {"alpha": [1.0, 2.0]}
    selection = choose(grid, "rmse", False, [("a", first), ("b", later)], [1])
    assert selection.means == [None, 2.5]
    assert selection.chosen == {"alpha": 2.0}


def test_survivors_change_only_the_later_folds():
    job = job_of()
    raced = job.with_survivors(2, [1])
    assert [fold.key for fold in raced.folds[:2]] == [f.key for f in job.folds[:2]]
    assert not {f.key for f in raced.folds[2:]} & {f.key for f in job.folds}
    inputs = raced.content()
    assert inputs["search"].pop("keys") == fold_keys(inputs, {})
    assert job_from(raced.content(), {}, {}).key == raced.key


@pytest.mark.parametrize("on", ["folds", "halving"])
def test_packed_records_find_the_keys_of_the_first_folds(on):
    job = job_of(on).of_first_folds(2)
    inputs = job.content()
    keys = inputs["search"].pop("keys")
    assert keys == [fold.key for fold in job.folds]
    assert fold_keys(inputs, {}) == keys


@pytest.fixture(scope="module")
def raced_in(short_list, tmp_path_factory):
    """Return a comparison with a race in one process, and its folder."""
    folder = tmp_path_factory.mktemp("raced")
    return mtlrun.compare(unrelated_tasks(), output=folder, jobs=1, **QUICK), folder


@pytest.mark.slow
def test_a_race_stops_methods_and_changes_no_score(raced_in):
    frame = unrelated_tasks()
    full = mtlrun.compare(frame, racing=False, **QUICK)
    raced, folder = raced_in
    entries = {entry.label: entry for entry in full.board.entries}
    stopped = [entry for entry in raced.board.entries if entry.stopped]
    assert stopped
    for entry in raced.board.entries:
        for split, inner in entry.inner.items():
            # A dropped value may be better on all folds, and the others start from
            # different solutions, which are accurate to the tolerance of searches.
            assert inner >= entries[entry.label].inner[split] * 0.99
            if entry.chosen[split] == entries[entry.label].chosen[split]:
                assert inner == pytest.approx(
                    entries[entry.label].inner[split], rel=0.01
                )
                assert entry.scores[split] == entries[entry.label].scores[split]
    # Methods stopped in most splits are listed. A method stopped in one split of three
    # has all scores, and one stopped in two splits has the score of the third.
    for entry in stopped:
        n_stopped = len(entry.stopped)
        assert len(entry.scores) == {1: 3, 2: 1, 3: 0}[n_stopped]
        assert not entry.stopped.keys() & entry.inner.keys()
        if n_stopped >= 2:
            assert any(entry.label in line for line in raced.board.left_out)
    assert raced.board.answer.decision == full.board.answer.decision
    # The folder also serves a comparison without racing.
    again = mtlrun.compare(frame, output=folder, racing=False, **QUICK)
    assert {e.label: e.scores for e in again.board.entries} == {
        e.label: e.scores for e in full.board.entries
    }


@pytest.mark.slow
def test_the_number_of_processes_does_not_affect_which_methods_stop(raced_in):
    two_processes = mtlrun.compare(unrelated_tasks(), jobs=2, **QUICK)
    boards = [
        {entry.label: (entry.stopped, entry.scores) for entry in result.board.entries}
        for result in (raced_in[0], two_processes)
    ]
    assert any(stopped for stopped, _ in boards[0].values())
    assert boards[0] == boards[1]
