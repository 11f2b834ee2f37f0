"""Networks: all layouts and variants, determinism, missing PyTorch."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from mtlrun.errors import ConfigError
from mtlrun.estimators.network import MTNetwork

VARIANTS = ["mtn", "stn", "mtn-fetr"]


def problem(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 3)) * [1, 10, 1] + [0, 5, 0]
    Y = np.column_stack([np.abs(X[:, 0]), 100 * np.abs(X[:, 0]) + 7, -np.abs(X[:, 0])])
    return X, Y + 0.01 * rng.normal(size=Y.shape)


def test_without_torch_the_message_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match="needs PyTorch") as caught:
        MTNetwork().fit(*problem(20))
    assert caught.value.remedy == "pip install '.[nn]'"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"variant": "mtn-fter"}, "did you mean 'mtn-fetr'"),
        (
            {"hidden": (10, 0)},
            r"hidden must be a tuple of positive ints, got \(10, 0\)",
        ),
        ({"hidden": 10}, "hidden must be a tuple of positive ints, got 10"),
        ({"lower": 2.0, "upper": 1.0}, "0 < lower < upper"),
        ({"eta": 0.0}, "eta must be"),
        ({"max_iter": 0}, "max_iter must be"),
    ],
)
def test_invalid_parameters_are_reported(params, message):
    with pytest.raises(ValueError, match=message):
        MTNetwork(**params).fit(*problem(20))


@pytest.mark.slow
class TestTraining:
    """Tests that need PyTorch."""

    @pytest.fixture(autouse=True)
    def torch(self):
        return pytest.importorskip(
            "torch", reason="PyTorch is not installed (extra nn)"
        )

    @pytest.mark.parametrize("variant", VARIANTS)
    def test_nonlinear_functions_of_different_scales_are_learned(self, variant):
        X, Y = problem()
        model = MTNetwork(
            variant,
            hidden=(32, 16),
            max_iter=60,
            batch_size=32,
            learning_rate=0.01,
            eta=0.1,
            rho=0.1,
        )
        assert model.fit(X[:200], Y[:200]).score(X[200:], Y[200:]) > 0.97
        assert len(model.networks_) == (3 if variant == "stn" else 1)
        assert model.objective_[-1] < 0.5 * model.objective_[0]
        assert len(model.objective_) == model.n_iter_ == 60
        assert hasattr(model, "task_covariance_") == (variant == "mtn-fetr")

    @pytest.mark.parametrize("variant", ["stn", "mtn-fetr"])
    def test_early_stopping_keeps_the_epoch_with_the_smallest_held_out_error(
        self, variant
    ):
        """Pure noise can only be memorized, so early stopping stays near the mean."""
        rng = np.random.default_rng(0)
        X, Y = rng.normal(size=(120, 5)), rng.normal(size=(120, 2))
        model = MTNetwork(
            variant,
            hidden=(64,),
            max_iter=300,
            batch_size=32,
            learning_rate=0.01,
            rho=0.001,
            eta=0.001,
        )
        by_heart, early = (
            clone(model).fit(X, Y),
            clone(model).set_params(early_stopping=True).fit(X, Y),
        )
        assert len(early.objective_) == early.n_iter_ < 100 < by_heart.n_iter_ == 300
        new, truth = rng.normal(size=(500, 5)), rng.normal(size=(500, 2))
        errors = [
            np.mean((fitted.predict(new) - truth) ** 2) for fitted in (early, by_heart)
        ]
        assert errors[0] < 0.8 * errors[1]

    def test_the_task_covariance_shows_related_outputs(self):
        X, Y = problem()
        # In a wide box the scale moves from S1, which has null directions, to S2 until
        # that equals upper * I.
        model = MTNetwork(
            "mtn-fetr",
            hidden=(16,),
            eta=0.01,
            rho=0.01,
            lower=1.0,
            upper=1000.0,
            max_iter=30,
        )
        model.set_params(batch_size=32, learning_rate=0.01).fit(X, Y)
        covariance = model.task_covariance_
        assert covariance[0, 1] > 0 > covariance[0, 2]
        assert model.feature_precision_.shape == (16, 16)
        assert_allclose(model.task_precision_ @ covariance, np.eye(3), atol=1e-10)
        assert not hasattr(
            model.set_params(variant="mtn").fit(X, Y), "task_covariance_"
        )

    @pytest.mark.parametrize("variant", VARIANTS)
    def test_ragged_tasks_and_missing_targets_are_fitted(self, variant):
        X, Y = problem()
        model = MTNetwork(
            variant,
            hidden=(32,),
            max_iter=50,
            batch_size=32,
            learning_rate=0.02,
            eta=0.1,
            rho=0.1,
        )
        ids = np.array(["a", "b", "c"])[np.arange(300) % 3]
        y = Y[np.arange(300), np.arange(300) % 3]
        ragged = clone(model).fit(X, y, task_id=ids)
        assert ragged.score(X, y, task_id=ids) > 0.9
        with pytest.raises(ValueError, match="task_id is required"):
            ragged.predict(X)
        with pytest.raises(ValueError, match="not seen"):
            ragged.predict(X[:2], task_id=["a", "z"])
        mean = ragged.set_params(unseen="mean").predict(X[:1], task_id=["z"])
        each = [ragged.predict(X[:1], task_id=[t])[0] for t in "abc"]
        assert mean[0] == pytest.approx(np.mean(each))
        holes = np.where(
            np.random.default_rng(1).uniform(size=Y.shape) < 0.3, np.nan, Y
        )
        assert clone(model).fit(X, holes).score(X, Y) > 0.9

    def test_missing_targets_have_no_influence(self):
        """Only observed entries count, whatever values the others have."""
        X, Y = problem(60)
        Y[::2, 1] = np.nan
        model = MTNetwork("stn", hidden=(8,), max_iter=5, batch_size=1000).fit(X, Y)
        alone = MTNetwork("stn", hidden=(8,), max_iter=5, batch_size=1000).fit(
            X, Y[:, [0]]
        )
        assert_allclose(model.predict(X)[:, 0], alone.predict(X)[:, 0], rtol=1e-6)
        assert np.isfinite(model.predict(X)).all()

    def test_sparse_and_dense_designs_agree(self):
        X, Y = problem(80)
        X = np.where(np.abs(X) > 1, X, 0.0)
        dense = MTNetwork(hidden=(8,), max_iter=5).fit(X, Y)
        sparse = MTNetwork(hidden=(8,), max_iter=5).fit(sp.csr_matrix(X), Y)
        assert_allclose(sparse.predict(sp.csr_matrix(X)), dense.predict(X), rtol=1e-8)

    def test_runs_repeat_and_do_not_change_the_global_generator(self, torch):
        X, Y = problem(60)
        torch.manual_seed(5)
        expected = torch.rand(3).tolist()
        torch.manual_seed(5)
        first, second = (
            MTNetwork(hidden=(8,), max_iter=3).fit(X, Y).predict(X) for _ in range(2)
        )
        assert torch.rand(3).tolist() == expected
        assert_array_equal(first, second)
        other = MTNetwork(hidden=(8,), max_iter=3, random_state=1).fit(X, Y)
        assert np.any(other.predict(X) != first)

    @pytest.mark.parametrize("variant", VARIANTS)
    def test_constant_columns_and_targets_are_fitted(self, variant):
        X, Y = problem(40)
        X[:, 1], Y[:, 2] = 3.0, 5.0
        model = MTNetwork(variant, hidden=(8,), max_iter=40, learning_rate=0.01).fit(
            X, Y
        )
        assert np.isfinite(model.predict(X)).all()
        assert_allclose(model.predict(X)[:, 2], 5, atol=0.5)

    def test_a_network_without_hidden_layers_is_linear_regression(self):
        X, _ = problem(200)
        y = X @ [1.0, 2.0, 3.0] + 4
        model = MTNetwork(
            hidden=(), max_iter=150, learning_rate=0.05, batch_size=50
        ).fit(X, y)
        assert_allclose(model.predict(X), y, atol=0.01)
