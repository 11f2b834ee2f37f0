"""Task similarity: correlations of the learned parameters, compared with NumPy."""

import numpy as np
import pytest

from mtlrun.estimators import (
    FETR,
    MTFRL,
    MTRL,
    ClusteredMTL,
    GraphMTL,
    GroupMKLClassifier,
    JointFeatureMTL,
    Whom,
)


@pytest.fixture(scope="module")
def shared():
    """Return two pairs of tasks: equal up to the sign within a pair."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6))
    first, second = X[:, 0] + X[:, 1], X[:, 3] - X[:, 4]
    return X, np.stack([first, second, -first, second], axis=1) + 0.1 * rng.normal(
        size=(80, 4)
    )


def _correlation(covariance):
    scale = np.diag(1 / np.sqrt(np.diag(covariance)))
    return scale @ covariance @ scale


@pytest.mark.parametrize(
    "model", [FETR(rho=0.01), MTFRL(), MTRL()], ids=lambda model: type(model).__name__
)
def test_a_covariance_becomes_a_correlation(model, shared):
    similarity = model.fit(*shared).task_similarity_
    assert similarity == pytest.approx(_correlation(model.task_covariance_))
    assert similarity.diagonal() == pytest.approx(1)
    if isinstance(model, MTRL):  # The others keep their covariances within bounds.
        assert similarity[0, 2] < -0.9
        assert similarity[1, 3] > 0.9 > abs(similarity[0, 1])


def test_a_graph_gives_the_correlation_of_its_prior(shared):
    A = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0.0]])
    similarity = GraphMTL(alpha=2.0, ridge=0.5, graph=A).fit(*shared).task_similarity_
    assert similarity == pytest.approx(
        _correlation(np.linalg.inv(2.0 * (np.diag(A.sum(1)) - A) + 0.5 * np.eye(4)))
    )
    assert similarity[3, :3] == pytest.approx(0)


def test_the_relaxed_matrix_shows_clusters(shared):
    model = ClusteredMTL(alpha=1.0, eta=0.1, n_clusters=2).fit(*shared)
    assert model.task_similarity_ == pytest.approx(_correlation(model.task_relation()))
    assert model.task_similarity_[1, 3] > 0.9


def test_groups_give_zeros_and_ones(shared):
    X, Y = shared
    model = Whom(n_task_clusters=2).fit(X, np.sign(Y))
    expected = [
        [any({s, t} <= set(group) for group in model.groups_) for t in range(4)]
        for s in range(4)
    ]
    assert np.array_equal(model.task_similarity_, np.array(expected, dtype=float))


def test_kernel_weights_are_compared_by_cosine(shared):
    X, Y = shared
    model = GroupMKLClassifier().fit(X, np.sign(Y))
    unit = model.theta_ / np.linalg.norm(model.theta_, axis=1, keepdims=True)
    assert model.task_similarity_ == pytest.approx(unit @ unit.T)


def test_other_and_unfitted_models_have_no_similarity(shared):
    assert not any(
        hasattr(model, "task_similarity_")
        for model in (MTRL(), GraphMTL(), ClusteredMTL())
    )
    with pytest.raises(AttributeError, match="JointFeatureMTL"):
        JointFeatureMTL().fit(*shared).task_similarity_  # noqa: B018


def test_a_task_without_coefficients_is_similar_to_no_other(shared):
    X, Y = shared
    similarity = MTRL(lam1=0.1, lam2=1.0).fit(X, Y * [1, 1, 1, 0]).task_similarity_
    assert similarity[3].tolist() == [0.0, 0.0, 0.0, 1.0]
