from __future__ import annotations

import numpy as np
import pytest

from mtlrun.data.sets.load import load_dataset
from mtlrun.data.sets.simulate import (
    AT_CONTENT,
    STUDIES,
    simulate_breast_cancer,
    simulate_splice,
)
from mtlrun.errors import DataError


def letters(data) -> np.ndarray:
    return data.X.view(np.uint8).reshape(len(data.X), -1)


def frequencies(strings: np.ndarray) -> np.ndarray:
    return np.stack([(strings == c).mean(axis=0) for c in b"ACGT"], axis=1)


def test_simulated_strings_have_the_requested_shape_and_a_site():
    data = simulate_splice(n=2001, length=42)
    assert data.X.dtype == "S42"
    assert data.tasks == ["fly", "mouse", "human", "cow"]
    assert np.bincount(data.task_id).tolist() == [501, 500, 500, 500]
    assert all(s[20:22] == b"AG" for s in data.X)
    assert set(b"".join(data.X)) == set(b"ACGT")
    assert simulate_splice(n=50, length=141).X.dtype == "S141"
    assert all(s[69:71] == b"AG" for s in simulate_splice(n=50, length=141).X)


def test_the_number_of_decoys_per_site_is_respected():
    data = simulate_splice(n=40000, decoys=9)
    assert (data.y > 0).mean() == pytest.approx(0.1, abs=0.01)


def test_letters_follow_the_weight_matrices_and_the_background():
    data = simulate_splice(n=60000, organisms=["human", "worm"], decoys=1, strength=1.0)
    strings, outside = letters(data), np.r_[0:20, 22:42]
    for t, organism in enumerate(data.tasks):
        in_task = data.task_id == t
        sites = frequencies(strings[in_task & (data.y > 0)])
        decoys = frequencies(strings[in_task & (data.y < 0)])
        # 15,000 draws: the standard error is at most 0.004; 1/256 is added for rounded
        # probabilities.
        np.testing.assert_allclose(
            sites[outside], data.truth["pwm"][t][outside], atol=0.024
        )
        at = AT_CONTENT[organism]
        np.testing.assert_allclose(
            decoys[outside],
            np.tile([at / 2, (1 - at) / 2, (1 - at) / 2, at / 2], (40, 1)),
            atol=0.024,
        )


def test_organisms_share_the_requested_fraction():
    same = simulate_splice(n=10, organisms=["mouse", "fly"], shared=1.0).truth["pwm"]
    np.testing.assert_allclose(same[0], same[1])
    other = simulate_splice(n=10, organisms=["mouse", "fly"], shared=0.0).truth["pwm"]
    assert np.abs(other[0] - other[1]).max() > 0.1


def test_zero_strength_gives_no_signal():
    data = simulate_splice(n=10, organisms=["worm", "cress"], strength=0.0)
    np.testing.assert_allclose(
        data.truth["pwm"][0], np.tile([0.32, 0.18, 0.18, 0.32], (42, 1))
    )


def test_seeds_determine_the_strings():
    first, again, other = (simulate_splice(n=100, seed=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.X, again.X)
    assert (first.X != other.X).any()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"length": 23}, "length >= 24"),
        ({"decoys": 0}, "decoys must be an integer of at least 1, not 0"),
        ({"shared": 1.5}, "0 <= shared <= 1"),
        ({"organisms": ["fly", "fly"]}, "organisms must be a list of different names"),
        ({"n": 7}, "n = 7 is too small for 4 organisms"),
    ],
)
def test_values_out_of_range_are_rejected(options, text):
    with pytest.raises(DataError) as caught:
        simulate_splice(**options)
    assert text in str(caught.value)


def test_breast_cancer_has_a_simulated_replacement():
    data = simulate_breast_cancer()
    assert data.X.shape == (474, 60)
    assert (
        np.bincount(data.task_id).tolist() == list(STUDIES.values()) == [114, 278, 82]
    )
    assert data.tasks == list(STUDIES)
    for t, size in enumerate(STUDIES.values()):
        assert (data.y[data.task_id == t] > 0).sum() == pytest.approx(
            0.25 * size, abs=1
        )
    assert data.X.var(axis=0).mean() == pytest.approx(1.0, abs=0.15)
    with pytest.raises(DataError, match="not shared=2"):
        simulate_breast_cancer(shared=2)


def test_responders_follow_the_weights():
    data = simulate_breast_cancer(seed=1)
    for t in range(3):
        in_task = data.task_id == t
        score = data.X[in_task] @ data.truth["W"][:, t]
        assert (
            score[data.y[in_task] > 0].mean() - score[data.y[in_task] < 0].mean()
            > score.std()
        )


@pytest.mark.parametrize("id", ["simulated-splice", "simulated-breast-cancer"])
def test_cards_state_that_they_are_simulated(id):
    data = load_dataset(id)
    assert data.simulated
    assert "imulated" in data.title
    assert data.truth
