"""Parameter selection: scores, ties, grid edges, failures, warm starts."""

from dataclasses import replace

import pytest

from mtlrun.data.sets.load import load_dataset
from mtlrun.engine.fit import score_candidates, train_test_data
from mtlrun.engine.job import HALVING, choice_of, choose, strong_to_weak
from mtlrun.engine.record import JobKind, Record, SearchResult, Seconds, candidates
from mtlrun.errors import ConfigError


def fit_of(
    lab, method='estimator: "lab.models:Ridge"', grid="{alpha: [0.1, 10]}", **search
):
    """Return the job of the first trial of a method with a search."""
    text = lab.tiny.replace(
        'estimator: "lab.models:Ridge"\n    grid: {alpha: [0.1, 10]}',
        f"{method}\n    grid: {grid}",
    )
    job = lab.plan(text).rows[0].job
    return replace(job, search=replace(job.search, **search))


def data():
    return load_dataset("simulated-rmtl", n=60, d=8, m=6, rank=2)


def scored(job, fold=0):
    return score_candidates(job.folds[fold], data()).selection


def fold(scores, errors=None):
    n = len(scores)
    return SearchResult(
        scores=scores,
        undefined=[0] * n,
        errors=errors or [None] * n,
        not_converged=[False] * n,
        warm_started=False,
    )


def chosen(grid, *folds, greater=True):
    return choose(
        grid,
        "auc",
        greater,
        [(f"fold{i}", selection) for i, selection in enumerate(folds)],
    )


def test_candidates_have_the_order_of_the_file():
    assert candidates({"a": [1, 2], "b": ["x", "y"]}) == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]


def test_the_best_mean_wins_in_the_direction_of_the_metric():
    grid = {"a": [1, 2, 3]}
    best = chosen(grid, fold([0.5, 0.9, 0.6]), fold([0.7, 0.9, 0.8]))
    assert (best.chosen, best.score, best.edges, best.ties) == (
        {"a": 2},
        0.9,
        {},
        [],
    )
    assert best.means == [0.6, 0.9, 0.7]
    assert best.scores == [[0.5, 0.7], [0.9, 0.9], [0.6, 0.8]]
    assert chosen(grid, fold([0.5, 0.9, 0.6]), greater=False).chosen == {"a": 1}


def test_the_direction_is_that_of_the_metric_of_the_search(lab):
    for metric, best in (("auc", 10), ("mse", 0.1)):
        job = fit_of(lab, metric=metric)
        folds = [
            Record(
                f.key,
                JobKind.FOLD,
                {},
                selection=fold([0.2, 0.4]),
                seconds=Seconds(total=2.0),
            )
            for f in job.folds
        ]
        selection = choice_of(job, folds)
        assert (selection.chosen, selection.metric, selection.seconds) == (
            {"alpha": best},
            metric,
            4.0,
        )


def test_ties_and_grid_edges_are_reported():
    selected = chosen({"a": [1, 3, 2], "b": ["x"], "c": [5]}, fold([0.1, 0.7, 0.7]))
    assert selected.chosen == {"a": 3, "b": "x", "c": 5}
    assert selected.ties == [{"a": 2, "b": "x", "c": 5}]
    assert selected.edges == {"a": "high"}
    assert chosen({"a": [3, 1]}, fold([0.1, 0.7])).edges == {"a": "low"}


def test_the_first_of_equal_candidates_wins():
    for order in ([1, 2], [2, 1]):
        selected = chosen({"a": order}, fold([0.5, 0.5]))
        assert (selected.chosen, selected.ties) == (
            {"a": order[0]},
            [{"a": order[1]}],
        )


def test_edges_exist_only_for_numeric_grids_with_several_values():
    grid = {
        "low": [1, 2, 3],
        "inside": [1, 2, 3],
        "high": [1.0, 2.0],
        "alone": [4],
        "switch": [False, True],
    }
    grid["word"] = ["a", "b"]
    index = candidates(grid).index(
        {"low": 1, "inside": 2, "high": 2.0, "alone": 4, "switch": True, "word": "b"}
    )
    scores = [0.5] * len(candidates(grid))
    scores[index] = 0.6
    assert chosen(grid, fold(scores)).edges == {"low": "low", "high": "high"}
    assert chosen({"a": [1, True, "x"]}, fold([0.6, 0.5, 0.5])).edges == {}


def test_all_results_of_candidates_are_kept_by_fold():
    first, second = fold([0.5, None], [None, "E: no"]), fold([0.7, 0.8])
    first.undefined, second.undefined = [1, 2], [3, 4]
    first.not_converged, second.not_converged = [True, False], [True, True]
    first.warm_started = True
    selected = chosen({"a": (1, 2)}, first, second)
    assert selected.undefined == [[1, 3], [2, 4]]
    assert selected.not_converged == [2, 1]
    assert selected.grid == {"a": [1, 2]}
    assert selected.metric == "auc"
    assert selected.errors == {"1": ["fold 0: E: no"]}
    assert selected.warm_started is False
    assert (
        chosen({"a": [1, 2]}, first, replace(second, warm_started=True)).warm_started
        is True
    )


def test_the_key_of_a_search_is_that_of_its_folds():
    def key(*names):
        return choose(
            {"a": [1]}, "auc", True, [(name, fold([0.5])) for name in names]
        ).key

    assert len({key("x"), key("y"), key("x", "y"), key("y", "x")}) == 4
    assert key("x", "y") == key("x", "y")
    assert len(key("x")) == 64


def test_undefined_folds_are_left_out():
    selected = chosen(
        {"a": [1, 2]}, fold([None, 0.6]), fold([0.7, 0.6]), fold([None, None])
    )
    assert selected.chosen == {"a": 1}
    assert selected.scores == [[None, 0.7, None], [0.6, 0.6, None]]
    assert selected.means == [0.7, 0.6]
    assert selected.errors == {}


def test_a_candidate_that_failed_in_a_fold_is_excluded():
    selected = chosen(
        {"a": [1, 2]}, fold([0.9, 0.6]), fold([None, 0.6], ["ValueError: no", None])
    )
    assert selected.chosen == {"a": 2}
    assert selected.errors == {"0": ["fold 1: ValueError: no"]}
    assert selected.means == [None, 0.6]
    assert chosen({"a": [1]}, fold([None], ["E: x"])).chosen is None
    assert chosen({"a": [1]}, fold([None])).chosen is None


def test_a_fold_scores_each_candidate_on_rows_outside_its_fit(lab):
    job = fit_of(lab, grid="{alpha: [0.1, 10, -1]}")
    outer, parts = (
        train_test_data(job, data())[0],
        [train_test_data(f, data())[0] for f in job.folds],
    )
    trained = {tuple(row) for row in outer.train.X}
    for part in parts:
        fitted, tested = (
            {tuple(row) for row in rows.X} for rows in (part.train, part.test)
        )
        assert (fitted | tested, fitted & tested) == (trained, set())
    assert not {tuple(row) for row in parts[0].test.X} & {
        tuple(row) for row in parts[1].test.X
    }
    first, second = (score_candidates(f, data()) for f in job.folds)
    assert (first.family, first.key) == (JobKind.FOLD, job.folds[0].key)
    assert first.selection.scores[0] != second.selection.scores[0]
    assert first.selection.scores[2] is None
    assert first.selection.errors == [
        None,
        None,
        "ValueError: alpha must not be negative",
    ]
    assert score_candidates(job.folds[0], data()).selection == first.selection
    assert choice_of(job, [first, second]).chosen in ({"alpha": 0.1}, {"alpha": 10})


def test_an_error_is_one_line(lab):
    lab.models.write_text(
        lab.models.read_text().replace("must not be", "must\\nnot be")
    )
    assert scored(fit_of(lab, grid="{alpha: [1, -1]}")).errors == [
        None,
        "ValueError: alpha must not be negative",
    ]


def test_a_diverging_candidate_is_an_error_and_a_slow_one_is_noted(lab):
    diverging = scored(
        fit_of(lab, 'estimator: "lab.models:Diverging"', "{alpha: [1, 2]}")
    )
    assert diverging.errors[0].startswith("Diverged: ")
    lazy = scored(fit_of(lab, 'estimator: "lab.models:Lazy"', "{alpha: [1, 2]}"))
    assert lazy.not_converged == [True, True]
    assert None not in lazy.scores


def test_warm_starts_go_from_strong_to_weak_regularization(lab, monkeypatch, tmp_path):
    journal = tmp_path / "journal"
    monkeypatch.setenv("LAB_JOURNAL", str(journal))
    job = fit_of(lab, grid="{alpha: [1, 100, 10]}")
    assert scored(job).warm_started is True
    assert journal.read_text().splitlines() == [
        "fit 100 False",
        "fit 10 True",
        "fit 1 True",
    ]
    journal.unlink()
    fit = fit_of(
        lab,
        'estimator: "lab.models:Ridge"\n    select_with: {warm_start: true}',
        "{alpha: [1]}",
    )
    assert scored(fit).warm_started is False
    assert journal.read_text().splitlines() == ["fit 1 False"]


def test_estimators_that_accumulate_state_start_cold(lab):
    forest = fit_of(
        lab,
        'estimator: "sklearn.ensemble:RandomForestClassifier"',
        "{n_estimators: [2, 3]}",
    )
    assert scored(forest).warm_started is False


STUMBLING = """

class Stumbling(Ridge):
    def fit(self, X, y):
        super().fit(X, y)
        if self.alpha == 3:
            raise RuntimeError("stumbled")
        return self
"""


@pytest.fixture
def read_journal(lab, monkeypatch):
    """Return a function that lists the fits of the laboratory's methods."""
    journal = lab.root / "journal"
    monkeypatch.setenv("LAB_JOURNAL", str(journal))
    return lambda: journal.read_text().splitlines()


def test_after_a_failure_the_path_starts_cold(lab, read_journal):
    lab.models.write_text(lab.models.read_text() + STUMBLING)
    method = 'estimator: "lab.models:Stumbling"'
    result = scored(fit_of(lab, method, grid="{alpha: [5, 2, 3]}"))
    # Each line has alpha, and whether the model has coefficients.
    assert read_journal() == ["fit 5 False", "fit 3 True", "fit 2 False"]
    assert result.errors == [None, None, "RuntimeError: stumbled"]


def test_strong_regularization_means_a_small_weight_of_the_loss():
    combinations = candidates({"C": [1, 10, 0.1], "alpha": [2, 3]})
    assert [combinations[i] for i in strong_to_weak(combinations)][:3] == [
        {"C": 0.1, "alpha": 3},
        {"C": 0.1, "alpha": 2},
        {"C": 1, "alpha": 3},
    ]


def test_weights_of_the_loss_of_a_nested_estimator_are_recognized_by_their_name():
    combinations = candidates({"base__C": [10, 1], "beta__alpha": [1, 10]})
    assert [combinations[i] for i in strong_to_weak(combinations)] == [
        {"base__C": 1, "beta__alpha": 10},
        {"base__C": 1, "beta__alpha": 1},
        {"base__C": 10, "beta__alpha": 10},
        {"base__C": 10, "beta__alpha": 1},
    ]


def test_non_numeric_values_stay_together_in_the_order_of_the_file():
    combinations = candidates(
        {"alpha": [1, 2], "kernel": ["rbf", "linear", None], "scale": [True, False]}
    )
    order = [combinations[i] for i in strong_to_weak(combinations)]
    assert [params["alpha"] for params in order] == [2] * 6 + [1] * 6
    assert [params["kernel"] for params in order] == [
        "rbf",
        "rbf",
        "linear",
        "linear",
        None,
        None,
    ] * 2
    assert [params["scale"] for params in order] == [True, False] * 6


@pytest.mark.parametrize("metric", ["auc", "f1", "mse"])
def test_any_metric_of_the_catalogue_can_select(lab, metric):
    job = fit_of(lab, metric=metric)
    assert (
        choice_of(job, [score_candidates(f, data()) for f in job.folds]).chosen
        is not None
    )


def test_halving_continues_with_the_better_half_and_uses_its_mean(lab, read_journal):
    text = lab.tiny.replace(
        "grid: {alpha: [0.1, 10]}", "grid: {alpha: [0.1, 10, 1000]}\n    halving: true"
    )
    job = lab.plan(text).rows[0].job
    job = replace(job, search=replace(job.search, folds=3))
    (only,) = job.folds
    assert only.search.on == HALVING
    unhalved = replace(job, search=replace(job.search, on="folds"))
    columns = [scored(unhalved, k).scores for k in range(job.search.folds)]
    n_before = len(read_journal())
    search = scored(job)
    visited = [float(line.split()[1]) for line in read_journal()[n_before:]]
    by_fold = [[0, 1, 2]]
    for k in range(1, len(columns)):
        left, means = (
            by_fold[-1],
            [sum(column[i] for column in columns[:k]) / k for i in range(3)],
        )
        best = sorted(left, key=lambda i: -means[i])[: -(-len(left) // 2)]
        by_fold.append(sorted(best))
    assert sorted(visited) == sorted(
        job.search.grid["alpha"][i] for left in by_fold for i in left
    )
    assert [len(left) for left in by_fold] == [3, 2, 1]
    (last,) = by_fold[-1]
    assert choice_of(job, [score_candidates(only, data())]).chosen == {
        "alpha": job.search.grid["alpha"][last]
    }
    assert search.scores[last] == pytest.approx(
        sum(column[last] for column in columns) / len(columns), abs=1e-15
    )
    dropped = set(range(3)) - set(by_fold[-1])
    assert dropped
    assert all(search.scores[i] is None and search.errors[i] is None for i in dropped)


def test_halving_drops_candidates_that_fail(lab):
    text = lab.tiny.replace(
        "grid: {alpha: [0.1, 10]}", "grid: {alpha: [-1, 10, 1]}\n    halving: true"
    )
    search = scored(lab.plan(text).rows[0].job)
    assert search.errors[0] == "ValueError: alpha must not be negative"
    assert search.scores[0] is None
    assert any(score is not None for score in search.scores)


def test_halving_without_values_is_rejected(lab):
    with pytest.raises(ConfigError, match="halving"):
        lab.plan(lab.tiny.replace("grid: {alpha: [0.1, 10]}", "halving: true"))
