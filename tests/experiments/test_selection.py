"""Choice of parameters: scores, ties, edges, failures, warm starts."""

import numpy as np
import pytest
from mtlrun.experiments.selection import candidates, combine, fit_fold, search_part

from mtlrun.data.load import load_dataset
from mtlrun.evaluation import Part


def inputs_of(lab, method, grid, **search):
    text = lab.tiny.replace(
        'estimator: "lab.models:Ridge"\n    grid: {alpha: [0.1, 10]}', f"{method}\n    grid: {grid}"
    )
    made = lab.plan(text)
    inputs = dict(made.selections[0].inputs)
    return {**inputs, "search": {**inputs["search"], **search}}


def fold(scores, errors=None):
    n = len(scores)
    return {
        "scores": scores,
        "undefined": [0] * n,
        "errors": errors or [None] * n,
        "not_converged": [False] * n,
        "warm_started": False,
        "seconds": 0.0,
    }


def combined(grid, *folds, metric="auc"):
    return combine({"grid": grid, "search": {"metric": metric}}, folds)


def test_candidates_in_the_order_of_the_file():
    assert candidates({"a": [1, 2], "b": ["x", "y"]}) == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]


def test_the_best_mean_wins_in_the_direction_of_the_metric():
    grid = {"a": [1, 2, 3]}
    best = combined(grid, fold([0.5, 0.9, 0.6]), fold([0.7, 0.9, 0.8]))
    assert (best["chosen"], best["score"], best["edges"], best["ties"]) == ({"a": 2}, 0.9, {}, [])
    assert [row["mean"] for row in best["candidates"]] == [0.6, 0.9, 0.7]
    assert combined(grid, fold([0.5, 0.9, 0.6]), metric="mse")["chosen"] == {"a": 1}


def test_ties_and_edges_are_reported():
    found = combined({"a": [1, 3, 2], "b": ["x"], "c": [5]}, fold([0.1, 0.7, 0.7]))
    assert found["chosen"] == {"a": 3, "b": "x", "c": 5}
    assert found["ties"] == [{"a": 2, "b": "x", "c": 5}]
    assert found["edges"] == {"a": "high"}
    assert combined({"a": [3, 1]}, fold([0.1, 0.7]))["edges"] == {"a": "low"}


def test_undefined_folds_are_left_out_and_counted():
    found = combined({"a": [1, 2]}, fold([None, 0.6]), fold([0.7, 0.6]), fold([None, None]))
    assert found["chosen"] == {"a": 1}
    assert [row["undefined_folds"] for row in found["candidates"]] == [2, 1]


def test_a_candidate_that_failed_in_a_fold_is_out():
    found = combined({"a": [1, 2]}, fold([0.9, 0.6]), fold([None, 0.6], ["ValueError: no", None]))
    assert found["chosen"] == {"a": 2}
    assert found["candidates"][0]["errors"] == ["fold 1: ValueError: no"]
    assert found["candidates"][0]["undefined_folds"] == 0
    assert combined({"a": [1]}, fold([None], ["E: x"]))["chosen"] is None
    assert combined({"a": [1]}, fold([None]))["chosen"] is None


def test_a_fold_scores_every_candidate_on_rows_it_was_not_fitted_on(lab):
    inputs = inputs_of(lab, 'estimator: "lab.models:Ridge"', "{alpha: [0.1, 10, -1]}")
    first, second = (fit_fold(inputs, None, k) for k in (0, 1))
    assert first["scores"][0] != second["scores"][0]
    assert first["scores"][2] is None
    assert first["errors"] == [None, None, "ValueError: alpha must not be negative"]
    assert fit_fold(inputs, None, 0)["scores"] == first["scores"]
    assert combine(inputs, [first, second])["chosen"] in ({"alpha": 0.1}, {"alpha": 10})


def test_an_error_is_one_line(lab):
    lab.models.write_text(lab.models.read_text().replace("must not be", "must\\nnot be"))
    found = fit_fold(inputs_of(lab, 'estimator: "lab.models:Ridge"', "{alpha: [1, -1]}"), None, 0)
    assert found["errors"] == [None, "ValueError: alpha must not be negative"]


def test_a_diverging_candidate_is_an_error_and_a_lazy_one_is_noted(lab):
    diverging = fit_fold(inputs_of(lab, 'estimator: "lab.models:Diverging"', "{alpha: [1, 2]}"), None, 0)
    assert diverging["errors"][0].startswith("Diverged: ")
    lazy = fit_fold(inputs_of(lab, 'estimator: "lab.models:Lazy"', "{alpha: [1, 2]}"), None, 0)
    assert lazy["not_converged"] == [True, True]
    assert None not in lazy["scores"]


def test_warm_starts_go_from_strong_to_weak_regularisation(lab, monkeypatch, tmp_path):
    journal = tmp_path / "journal"
    monkeypatch.setenv("LAB_JOURNAL", str(journal))
    result = fit_fold(inputs_of(lab, 'estimator: "lab.models:Ridge"', "{alpha: [1, 100, 10]}"), None, 0)
    assert result["warm_started"] is True
    assert journal.read_text().splitlines() == ["fit 100 False", "fit 10 True", "fit 1 True"]
    journal.unlink()
    cold = fit_fold(
        inputs_of(lab, 'estimator: "lab.models:Broken"\n    select_with: {warm_start: true}', "{alpha: [1]}"), None, 0
    )
    assert cold["warm_started"] is False


def test_after_a_failure_the_path_starts_anew(lab, monkeypatch, tmp_path):
    journal = tmp_path / "journal"
    monkeypatch.setenv("LAB_JOURNAL", str(journal))
    inputs = inputs_of(lab, 'estimator: "lab.models:Ridge"', "{alpha: [5, -1]}")
    inputs["grid"] = {"alpha": [5, 2, 3]}
    dataset = load_dataset("simulated-rmtl", n=60, d=8, m=6, rank=2)
    part = Part.of(dataset, np.arange(30), np.arange(30, 60))
    calls = []

    class Stumbling:
        train, test, one_class = part.train, part.test, part.one_class
        predict, score = part.predict, part.score

        def fit(self, estimator):
            calls.append((estimator.alpha, hasattr(estimator, "coef_")))
            if estimator.alpha == 3:
                raise RuntimeError("stumbled")
            return part.fit(estimator)

    result = search_part(inputs, Stumbling())
    assert calls == [(5, False), (3, True), (2, False)]
    assert result["errors"] == [None, None, "RuntimeError: stumbled"]


def test_strong_means_small_for_weights_of_the_loss(lab):
    from mtlrun.experiments.selection import _Walk

    walk = _Walk(
        {"estimator": {"estimator": "lab.models:Ridge", "params": {}}, "grid": {"C": [1, 10, 0.1], "alpha": [2, 3]}}
    )
    assert [walk.candidates[i] for i in walk.order()][:3] == [
        {"C": 0.1, "alpha": 3},
        {"C": 0.1, "alpha": 2},
        {"C": 1, "alpha": 3},
    ]


@pytest.mark.parametrize("metric", ["auc", "f1", "mse"])
def test_any_metric_of_the_catalogue_can_choose(lab, metric):
    inputs = inputs_of(lab, 'estimator: "lab.models:Ridge"', "{alpha: [0.1, 10]}", metric=metric)
    assert combine(inputs, [fit_fold(inputs, None, k) for k in (0, 1)])["chosen"] is not None
