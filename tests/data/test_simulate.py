"""Generators give equal numbers for equal arguments, and have the stated properties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from mtlrun.data.dataset import Dataset
from mtlrun.data.sets.simulate import (
    FAMILIES,
    simulate_eurlex,
    simulate_families,
    simulate_fetr,
    simulate_gauss2d,
    simulate_rmtl,
)
from mtlrun.errors import DataError

SMALL_DOCUMENTS = {"n": 400, "d": 300, "m": 30, "draws": 40, "rank": 6, "outliers": 3}
GENERATORS = [
    (simulate_rmtl, {"n": 40, "d": 10, "m": 6}),
    (simulate_fetr, {"n": 40, "d": 6, "m": 4}),
    (simulate_gauss2d, {"n": 200}),
    (simulate_eurlex, SMALL_DOCUMENTS),
]


def values(data: Dataset) -> np.ndarray:
    return data.X.toarray() if sparse.issparse(data.X) else data.X


@pytest.mark.parametrize(("generate", "options"), GENERATORS)
def test_generators_are_deterministic_and_seeded(
    generate: Any, options: dict[str, Any]
) -> None:
    first, again, other = (
        generate(**options),
        generate(**options),
        generate(**options, seed=1),
    )
    np.testing.assert_array_equal(values(first), values(again))
    np.testing.assert_array_equal(first.y, again.y)
    np.testing.assert_array_equal(first.truth["W"], again.truth["W"])
    assert not np.array_equal(values(first), values(other))
    assert (
        not np.array_equal(first.truth["W"], other.truth["W"])
        or generate is simulate_gauss2d
    )


@pytest.mark.parametrize(
    ("generate", "options", "x", "y", "w"),
    [
        (simulate_rmtl, {"n": 40, "d": 10, "m": 6}, 0.125730, 11.118771, -7.968373),
        (simulate_fetr, {"n": 40, "d": 6, "m": 4}, 0.636962, 0.413150, 11.622827),
        (simulate_gauss2d, {"n": 200}, 2.510226, -24.373079, 8.254592),
        (simulate_families, {"rows": 10}, -0.704140, -3.221604, 20.811869),
        (simulate_eurlex, SMALL_DOCUMENTS, 0.024590, 21.688529, 308.329458),
    ],
)
def test_generated_numbers_do_not_change(
    generate: Any, options: dict[str, Any], x: float, y: float, w: float
) -> None:
    """A change would affect the simulated results of all users."""
    data = generate(**options)
    X = values(data).ravel()
    actual = [
        X[np.flatnonzero(X)[0]],
        data.y.ravel() @ np.sin(np.arange(data.y.size)),
        data.truth["W"].sum(),
    ]
    assert actual == pytest.approx([x, y, w], abs=1e-5)


def test_rmtl_is_low_rank_plus_outlier_columns() -> None:
    data = simulate_rmtl(n=200, d=60, m=40, kind="value", noise=0.1)
    L, E, outliers = data.truth["L"], data.truth["E"], data.truth["outliers"]
    assert np.linalg.matrix_rank(L) == 5
    assert len(outliers) == 4
    np.testing.assert_array_equal(np.flatnonzero(np.abs(E).sum(axis=0)), outliers)
    np.testing.assert_allclose(data.truth["W"], L + E)
    assert E[:, outliers].std() == pytest.approx(2.0, rel=0.1)
    clean = data.X @ data.truth["W"]
    assert (data.y - clean).std() == pytest.approx(
        0.1 * np.sqrt(clean.var(axis=0).mean()), rel=0.1
    )
    assert data.task_type == "regression"


def test_rmtl_signs_are_those_of_the_values() -> None:
    signs, numbers = simulate_rmtl(kind="sign"), simulate_rmtl(kind="value")
    np.testing.assert_array_equal(signs.y, np.sign(numbers.y))
    assert signs.task_type == "binary"
    assert simulate_rmtl(outliers=0.0).truth["outliers"].size == 0
    assert simulate_rmtl(outliers=0.001).truth["outliers"].size == 1


def test_fetr_precisions_match_their_definition() -> None:
    data = simulate_fetr(n=3000, d=12, m=8, l=0.5, u=2.0, noise=0.0)
    for name, size in (("Sigma1", 12), ("Sigma2", 8)):
        spectrum = np.linalg.eigvalsh(data.truth[name])
        assert data.truth[name].shape == (size, size)
        assert spectrum.min() >= 0.5 - 1e-12
        assert spectrum.max() <= 2.0 + 1e-12
    assert data.X.min() >= 0
    assert data.X.max() <= 1
    np.testing.assert_allclose(data.X @ data.truth["W"], data.y)


def test_fetr_coefficients_have_the_covariance_of_the_model() -> None:
    """tr(Sigma1 W Sigma2 W') is a sum of d*m squared standard normals."""
    d, m = 30, 20
    sums = []
    for seed in range(20):
        truth = simulate_fetr(n=1, d=d, m=m, seed=seed).truth
        sums.append(
            np.trace(truth["Sigma1"] @ truth["W"] @ truth["Sigma2"] @ truth["W"].T)
        )
    assert np.mean(sums) == pytest.approx(d * m, rel=0.05)


def test_families_share_the_documented_structure() -> None:
    W = {
        family: simulate_families(family=family, rows=2).truth["W"]
        for family in FAMILIES
    }
    ranks = {family: np.linalg.matrix_rank(w) for family, w in W.items()}
    assert ranks == {
        **dict.fromkeys(["slopes", "outliers", "unrelated", "unrelated-scales"], 12),
        "equal": 1,
        "sign-flipped": 1,
        "low-rank": 2,
        "shared-features": 3,
        "clusters": 3,
    }
    for family, w in W.items():
        if family != "unrelated-scales":
            np.testing.assert_allclose(np.linalg.norm(w, axis=0), 1)
    np.testing.assert_array_equal(W["shared-features"][3:], 0)
    assert W["sign-flipped"].sum() == pytest.approx(0)
    near = {
        family: w.mean(axis=1) @ w for family, w in W.items()
    }  # Including the mean of all tasks
    assert near["slopes"].min() > 0.6
    assert near["outliers"][5::6].max() < near["outliers"][[0, 1, 2, 3, 4, 6]].min()


def test_tasks_of_unrelated_scales_differ_in_length_noise_and_level() -> None:
    def noise_and_level(family: str) -> tuple[np.ndarray, np.ndarray]:
        data = simulate_families(family=family, tasks=300, rows=100, d=3)
        assert data.task_id is not None
        scores = np.einsum("ij,ij->i", data.X, data.truth["W"].T[data.task_id])
        rest = (data.y - scores).reshape(300, 100)
        return rest.std(axis=1), rest.mean(axis=1)

    noise, level = noise_and_level("unrelated")
    assert (noise.min(), noise.max()) == pytest.approx((1.0, 1.0), abs=0.25)
    assert level.std() == pytest.approx(0.1, abs=0.02)
    noise, level = noise_and_level("unrelated-scales")
    assert np.log(noise).std() == pytest.approx(1.0, abs=0.15)
    assert level.std() == pytest.approx(1.0, abs=0.2)
    W = simulate_families(family="unrelated-scales", tasks=300, rows=1).truth["W"]
    lengths = np.linalg.norm(W, axis=0)
    assert np.log(lengths).std() == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize(
    "options", [{"family": "friends"}, {"d": 2}, {"noise": -1.0}, {"rows": 0}]
)
def test_families_reject_impossible_options(options: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=next(iter(options))):
        simulate_families(**options)


def test_gauss2d_has_the_bayes_error_and_balance_of_the_paper() -> None:
    data = simulate_gauss2d()
    assert data.task_id is not None
    assert np.bincount(data.task_id).tolist() == [50_000, 50_000]
    scores = np.einsum("ij,ij->i", data.X, data.truth["W"].T[data.task_id])
    for task in (0, 1):
        rows = data.task_id == task
        assert np.mean(data.y[rows] * scores[rows] < 0) == pytest.approx(
            0.07, abs=0.004
        )
        assert data.y[rows].sum() == 0
    first, second = data.truth["means"]
    cosine = first @ second / (np.linalg.norm(first) * np.linalg.norm(second))
    assert np.arccos(cosine) == pytest.approx(0.3)


def test_gauss2d_follows_the_authors_code() -> None:
    data = simulate_gauss2d(means="authors", seed=3)
    height = data.truth["means"][0, 1]
    assert -2 < height < 0
    assert np.array_equal(data.truth["means"], [[-1.5, height]] * 2)
    assert np.array_equal(data.truth["similarity"], [[1, 0.5], [0.5, 1]])
    for t in range(2):
        for label in (1, -1):
            X = data.X[(data.task_id == t) & (data.y == label)]
            assert len(X) == 25_000
            assert np.allclose(
                X.mean(axis=0), label * data.truth["means"][t], atol=0.03
            )
            assert np.allclose(np.cov(X.T), np.eye(2), atol=0.04)
    wrong = np.mean(np.sign(data.X @ data.truth["W"][:, 0]) != data.y)
    assert wrong == pytest.approx(data.truth["bayes_error"], abs=0.003)
    assert (
        simulate_gauss2d(n=100, means="authors", seed=4).truth["means"][0, 1] != height
    )


def test_gauss2d_supports_odd_sizes_and_more_tasks() -> None:
    data = simulate_gauss2d(n=101, tasks=3)
    assert data.task_id is not None
    assert np.bincount(data.task_id).tolist() == [34, 34, 33]
    assert simulate_gauss2d(n=10, tasks=1).n_tasks == 1


def test_eurlex_has_documents_and_labels() -> None:
    data = simulate_eurlex(**SMALL_DOCUMENTS)
    norms = np.sqrt(data.X.multiply(data.X).sum(axis=1))
    np.testing.assert_allclose(norms, 1.0)
    assert data.X.has_canonical_format
    counts = np.sort((data.y > 0).sum(axis=0))[::-1]
    assert counts.min() == 8
    assert counts.sum() == pytest.approx(1.29 * 400, abs=15)
    free = counts[counts > 8]
    expected = free[0] * np.arange(1, len(free) + 1) ** -0.8
    np.testing.assert_allclose(free, expected, atol=1.0)
    assert len(data.truth["outliers"]) == 3


def test_eurlex_labels_are_the_top_scores() -> None:
    data = simulate_eurlex(**SMALL_DOCUMENTS)
    scores = data.X @ data.truth["W"]
    for t in range(30):
        assert (
            scores[data.y[:, t] > 0, t].mean()
            > scores[:, t].mean() + scores[:, t].std()
        )


@pytest.mark.slow
def test_eurlex_has_the_shape_of_the_real_set() -> None:
    # The rows do not depend on the number of labels.
    data = simulate_eurlex(m=100)
    assert data.X.shape == (19348, 5000)
    assert data.X.nnz / 19348 == pytest.approx(258, abs=1)
    assert data.statistics()["cardinality"] == pytest.approx(1.29, abs=1e-4)
    assert data.statistics()["label_min"] >= 8


def test_impossible_arguments_are_rejected(lacking: Any) -> None:
    for generate, options, words in [
        (simulate_rmtl, {"n": 0}, ["n must be", "1, not 0"]),
        (simulate_rmtl, {"m": 2.5}, ["m must be", "integer", "not 2.5"]),
        (simulate_rmtl, {"d": True}, ["d must be", "integer", "not True"]),
        (simulate_rmtl, {"kind": "signs"}, ["kind", "'sign'", "'value'", "'signs'"]),
        (simulate_rmtl, {"outliers": 1.5}, ["outliers", "[0, 1]", "1.5"]),
        (simulate_fetr, {"l": 0.0}, ["0 < l <= u", "l=0.0"]),
        (simulate_gauss2d, {"n": 3}, ["n >= 2 * tasks", "n=3"]),
        (simulate_gauss2d, {"bayes_error": 0.5}, ["bayes_error=0.5"]),
        (simulate_gauss2d, {"means": "ours"}, ["means", "rotated", "authors", "ours"]),
        (simulate_eurlex, {**SMALL_DOCUMENTS, "outliers": 31}, ["31 outliers", "30"]),
        (
            simulate_eurlex,
            {**SMALL_DOCUMENTS, "least": 50},
            ["30 labels", "50", "1.29"],
        ),
    ]:
        with pytest.raises(DataError) as caught:
            generate(**options)
        assert not lacking(caught.value, *words)
