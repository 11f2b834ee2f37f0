"""Options that the registry and the documentation advertise for each method work."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from mtlrun.catalog.registry import METHODS, load_class

pytestmark = pytest.mark.usefixtures("few_trees")

WITH_EDGE = [name for name, info in METHODS.items() if info.zero_from]
WITH_PATH = [name for name in METHODS if hasattr(load_class(name), "path")]
LAYOUTS = ["shared", "ragged"]


def choices(info):
    """Return the values of each parameter with named choices."""
    for parameter, description in info.parameters.items():
        for kind, *values in description["rule"] or ():
            if kind == "choice":
                yield from ((parameter, value) for value in values)


#: Parameters that choices need according to their documentation, if the method has
#: them.
NEEDED = {
    ("solver", "cd"): {"loss": "squared"},
    ("variant", "accelerated"): {"solver": "ladm"},
    ("variant", "balanced"): {"solver": "ladm"},
    ("variant", "sequential"): {"solver": "ladm"},
    ("variant", "paper-past-zero"): {"solver": "ladm"},
    ("variant", "backtracking"): {"solver": "apg", "form": "paper"},
    ("stop", "paper"): {"solver": "apg"},
    ("form", "paper"): {"solver": "apg"},
}
PAPER = {"RobustMTL": {"solver": "apg"}, "RobustMTLClassifier": {"solver": "apg"}}


def with_choice(model, parameter, value):
    """Return the model with a choice and the parameters that it needs."""
    needed = dict(NEEDED.get((parameter, value), {}))
    if (parameter, value) == ("variant", "paper"):
        needed = PAPER.get(type(model).__name__, {})
    names = set(model.get_params())
    needed = {name: word for name, word in needed.items() if name in names}
    return model.set_params(**needed).set_params(**{parameter: value})


def fit_quietly(model, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(**data)


def data_of(matrix, name, layout="shared"):
    return matrix.arrange(name, layout, *matrix.problem(40, 4, 3))


@pytest.mark.cover(name=WITH_EDGE, layout=LAYOUTS)
def test_coefficients_are_zero_from_the_advertised_strength_on(matrix, name, layout):
    data = data_of(matrix, name, layout)
    model = matrix.make(name)
    parameter = METHODS[name].zero_from.removesuffix("_max")
    edge = getattr(model, METHODS[name].zero_from)(**data)
    assert 0 < edge < np.inf
    assert not hasattr(model, "coef_")
    precise = {"tol": 1e-9, "max_iter": 20_000}
    above = clone(model).set_params(**{parameter: 1.001 * edge}, **precise)
    below = clone(model).set_params(**{parameter: 0.97 * edge}, **precise)
    assert np.abs(fit_quietly(above, data).coef_).max() < 1e-6
    assert np.abs(fit_quietly(below, data).coef_).max() > 1e-6


@pytest.mark.cover(name=WITH_EDGE)
def test_the_advertised_strength_uses_the_weights(matrix, name):
    data = data_of(matrix, name)
    weights = np.random.default_rng(0).integers(1, 4, size=len(data["X"]))
    repeated = {key: np.repeat(value, weights, axis=0) for key, value in data.items()}
    find_edge = getattr(matrix.make(name), METHODS[name].zero_from)
    weighted = find_edge(**data, sample_weight=weights)
    assert weighted == pytest.approx(find_edge(**repeated), rel=1e-6)


def test_the_registry_names_the_method_of_the_class():
    for name, info in METHODS.items():
        cls = load_class(name)
        methods = [
            attribute
            for attribute in dir(cls)
            if attribute.endswith("_max") and callable(getattr(cls, attribute))
        ]
        assert methods == ([info.zero_from] if info.zero_from else []), name


@pytest.mark.cover(name=WITH_PATH, layout=LAYOUTS)
def test_a_path_begins_at_zero_and_its_models_equal_single_fits(matrix, name, layout):
    data = data_of(matrix, name, layout)
    model = matrix.make(name).set_params(tol=1e-8, max_iter=20_000)
    path = model.path(**data, alphas=4, min_ratio=0.1)
    alpha = path.alphas[2]
    # A model with a weight of the loss has the inverse of a strength.
    strength = {"alpha": alpha} if hasattr(model, "alpha") else {"beta": 1 / alpha}
    single = clone(model).set_params(**strength)
    assert path.coef.shape == (4, 3, 4)
    np.testing.assert_allclose(path.coef[2], fit_quietly(single, data).coef_, atol=1e-3)


def scores_of_short_fit(matrix, model, data):
    if "max_iter" in model.get_params():
        model.set_params(max_iter=10)
    return matrix.scores(fit_quietly(model, data), data)


@pytest.mark.cover(name=METHODS)
def test_each_choice_of_a_parameter_can_be_fitted(matrix, name):
    data = data_of(matrix, name)
    for parameter, value in choices(METHODS[name]):
        model = with_choice(matrix.make(name), parameter, value)
        scores = scores_of_short_fit(matrix, model, data)
        assert np.isfinite(scores).all(), f"{parameter}={value}"


@pytest.mark.cover(name=METHODS)
def test_the_ends_of_the_default_grid_can_be_fitted(matrix, name):
    data = data_of(matrix, name)
    for parameter, values in METHODS[name].default_grid.items():
        for value in (values[0], values[-1]):
            model = matrix.make(name).set_params(**{parameter: value})
            scores = scores_of_short_fit(matrix, model, data)
            assert np.isfinite(scores).all(), f"{parameter}={value}"


@pytest.mark.cover(name=METHODS)
def test_the_fast_parameters_solve_the_same_problem(matrix, name):
    data = data_of(matrix, name)
    precise = {}
    model = matrix.make(name)
    if "tol" in model.get_params() and hasattr(model, "max_iter"):
        precise = {"tol": 1e-6, "max_iter": 20_000}
    usual = fit_quietly(clone(model).set_params(**precise), data)
    fast = clone(model).set_params(**METHODS[name].fast).set_params(**precise)
    np.testing.assert_allclose(
        matrix.scores(fit_quietly(fast, data), data),
        matrix.scores(usual, data),
        rtol=0.02,
        atol=0.02,
    )
