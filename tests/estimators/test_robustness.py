"""Every registered method on degenerate data, extreme scales and invalid input."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

from mtlrun.catalog.registry import METHODS

pytestmark = pytest.mark.usefixtures("few_trees")

every_method = pytest.mark.cover(name=METHODS)
REGRESSORS = [name for name, info in METHODS.items() if info.kind == "regressor"]
LAYOUTS = ["shared", "ragged"]

# --------------------------------------------------- degenerate data and extreme scales


def with_column(value):
    def change(X, Y):
        return np.column_stack([X, np.full(len(X), value)]), Y

    return change


CORNERS = {
    "one row per task": ((4, 3, 4), None),
    "a single row": ((1, 3, 1), None),
    "one feature": ((30, 1, 3), None),
    "many features": ((8, 100, 2), None),
    "many rows": ((400, 2, 2), None),
    "a constant column": ((30, 4, 3), with_column(3.0)),
    "a column of zeros": ((30, 4, 3), with_column(0.0)),
    "nothing but zeros": ((30, 4, 3), lambda X, Y: (0 * X, Y)),
    "equal rows": ((30, 4, 3), lambda X, Y: (np.repeat(X[:1], 30, axis=0), Y)),
    "rows twice": ((30, 4, 3), lambda X, Y: (np.vstack([X, X]), np.vstack([Y, Y]))),
    "columns twice": ((30, 4, 3), lambda X, Y: (np.hstack([X, X]), Y)),
    "constant targets": ((30, 4, 3), lambda X, Y: (X, np.ones_like(Y))),
    "one constant task": (
        (30, 4, 3),
        lambda X, Y: (X, np.where([True, False, False], 1.0, Y)),
    ),
}


@pytest.mark.cover(name=METHODS, layout=LAYOUTS, corner=CORNERS)
def test_degenerate_data_give_finite_models_and_valid_certificates(
    matrix, name, layout, corner
):
    shape, change = CORNERS[corner]
    X, Y = matrix.problem(*shape)
    X, Y = (X, Y) if change is None else change(X, Y)
    assert not defects(matrix, name, matrix.arrange(name, layout, X, Y))


@pytest.mark.cover(name=METHODS, layout=LAYOUTS, factor=[1e8, 1e-8, 1e14, 1e-70])
def test_features_may_have_any_scale(matrix, name, layout, factor):
    X, Y = matrix.problem(30, 4, 3)
    data = matrix.arrange(name, layout, X + 0.1 * np.arange(4), Y)
    assert not defects(matrix, name, data | {"X": factor * data["X"]})


@pytest.mark.cover(name=REGRESSORS, layout=LAYOUTS, factor=[1e8, 1e-8, 1e55, 1e-70])
def test_targets_may_have_any_scale(matrix, name, layout, factor):
    data = matrix.arrange(name, layout, *matrix.problem(30, 4, 3))
    assert not defects(matrix, name, data | {"y": factor * data["y"]})


def defects(matrix, name, data):
    """Return problems of a fitted model: non-finite numbers, too large a gap."""
    model = matrix.make(name)
    if "max_iter" in model.get_params():  # These scales need more iterations.
        model.set_params(max_iter=300)
    matrix.fit(model, data)
    scores, gap = matrix.scores(model, data), getattr(model, "gap_", None)
    # The tolerance of LIBSVM is not a gap.
    certified = gap is not None and model.converged_ and name != "MultiTaskKernelSVC"
    problems = {
        "shape of scores": scores.shape != data["y"].shape,
        "scores": not np.isfinite(scores).all(),
        "coef_": not np.isfinite(getattr(model, "coef_", 0.0)).all(),
        "gap_": certified and gap > model.get_params().get("tol", 1e-4),
    }
    return [problem for problem, wrong in problems.items() if wrong]


@every_method
def test_a_single_task_may_be_given_in_three_ways(matrix, name):
    X, Y = matrix.problem(T=1)
    y = matrix.targets(name, Y)
    forms = (
        {"X": X, "y": y[:, 0]},
        {"X": X, "y": y},
        {"X": X, "y": y[:, 0], "task_id": ["t"] * 30},
    )
    single, column, ids = (
        matrix.scores(matrix.fit(matrix.make(name), data), data) for data in forms
    )
    assert_allclose(column[:, 0], single, rtol=1e-6, atol=1e-6)
    assert_allclose(
        ids, single, rtol=0.01, atol=0.01
    )  # Solvers for another layout, on the way to the same optimum


# For networks only learning can be checked.
@pytest.mark.cover(
    name=[name for name in REGRESSORS if METHODS[name].extra != "nn"], layout=LAYOUTS
)
def test_a_constant_target_is_predicted(matrix, name, layout):
    X, Y = matrix.problem()
    data = matrix.arrange(name, layout, X, Y)
    data["y"] = np.full(data["y"].shape, 3.0)
    assert_allclose(
        matrix.scores(matrix.fit(matrix.make(name), data), data), data["y"], rtol=1e-6
    )


# ---------------------------------------------------------------- invalid input


def spoiled(key, value, at=(0,)):
    """Insert a value into an argument."""

    def change(data):
        array = np.array(data[key], dtype=object if isinstance(value, str) else float)
        array[at] = value
        return {key: array}

    return change


REFUSED = {
    "NaN in X": (spoiled("X", np.nan, (0, 1)), "Input X contains NaN"),
    "infinity in X": (spoiled("X", np.inf, (0, 1)), "Input X contains infinity"),
    "NaN in sparse X": (
        lambda data: {"X": sp.csr_array(spoiled("X", np.nan, (0, 1))(data)["X"])},
        "contains NaN",
    ),
    "a huge number in X": (
        spoiled("X", -2e15, (0, 1)),
        r"X holds a number of absolute value 2e\+15; .* Scale it",
    ),
    "a huge number in sparse X": (
        lambda data: {"X": sp.csr_array(spoiled("X", 1e200, (0, 1))(data)["X"])},
        r"X holds a number of absolute value 1e\+200",
    ),
    "X of tiny numbers": (
        lambda data: {"X": 1e-160 * data["X"]},
        "the largest absolute value in X is 1e-160; .* vanish",
    ),
    "words in X": (spoiled("X", "word", (0, 1)), "could not convert string to float"),
    "complex X": (lambda data: {"X": data["X"] * 1j}, "Complex data not supported"),
    "X of one dimension": (lambda data: {"X": data["X"][:, 0]}, "Expected 2D array"),
    "X of three dimensions": (lambda data: {"X": data["X"][None]}, "dim"),
    "no rows": (
        lambda data: {key: value[:0] for key, value in data.items()},
        r"0 sample\(s\)",
    ),
    "no features": (lambda data: {"X": data["X"][:, :0]}, r"0 feature\(s\)"),
    "NaN in y": (spoiled("y", np.nan), "Input y contains NaN"),
    "infinity in y": (spoiled("y", np.inf), "Input y contains infinity"),
    "no y": (lambda data: {"y": None}, "requires y to be passed"),
    "y too short": (
        lambda data: {"y": data["y"][:-1]},
        "inconsistent numbers of samples",
    ),
    "y of three dimensions": (lambda data: {"y": np.ones((30, 2, 2))}, "y has|dim"),
    "columns of y and task ids": (
        lambda data: {"y": np.column_stack([data["y"]] * 2)},
        "one column per task",
    ),
    "too few ids": (
        lambda data: {"task_id": data["task_id"][:-1]},
        "task_id must have one entry per row",
    ),
    "an id is missing": (
        spoiled("task_id", np.nan),
        "task_id is missing for 1 rows, the first is row 0",
    ),
    "a task without targets": (
        lambda data: {
            "y": np.column_stack([data["y"], np.full(30, np.nan)]),
            "task_id": None,
        },
        "task 1 has no",
    ),
    "an unknown parameter value": (
        lambda data: {},
        "unseen must be one of 'error', 'mean', got 'sometimes'",
    ),
}


@pytest.mark.cover(name=METHODS, case=REFUSED)
def test_invalid_input_is_rejected_by_name(matrix, name, case):
    change, message = REFUSED[case]
    data = matrix.arrange(name, "ragged", *matrix.problem())
    model = matrix.make(name)
    if not change(data):
        model.set_params(unseen="sometimes")
    with pytest.raises(ValueError, match=message):
        matrix.fit(model, data | change(data))


@pytest.mark.cover(name=REGRESSORS)
def test_targets_whose_squares_overflow_are_rejected(matrix, name):
    for layout in ("shared", "ragged"):
        data = matrix.arrange(name, layout, *matrix.problem())
        y = np.abs(data["y"]) + 1
        for factor, message in (
            (1e160, "y holds a number of absolute value .* Change its unit"),
            (1e-160, "vanish"),
        ):
            with pytest.raises(ValueError, match=message):
                matrix.fit(matrix.make(name), data | {"y": factor * y})


@pytest.mark.cover(
    name=[name for name, info in METHODS.items() if info.kind == "classifier"]
)
def test_labels_that_are_not_two_classes_are_rejected(matrix, name):
    data = matrix.arrange(name, "ragged", *matrix.problem())
    with pytest.raises(
        ValueError, match=r"Only binary classification is supported.*3 classes"
    ):
        matrix.fit(matrix.make(name), data | {"y": np.arange(30) % 3})
    with pytest.raises(ValueError, match="Unknown label type"):
        matrix.fit(matrix.make(name), data | {"y": np.linspace(0, 1, 30)})


@every_method
def test_prediction_needs_a_fit_known_tasks_and_the_same_features(matrix, name):
    model, data = matrix.make(name), matrix.arrange(name, "ragged", *matrix.problem())
    X, ids = data["X"], data["task_id"]
    with pytest.raises(NotFittedError):
        model.predict(X)
    matrix.fit(model, data)
    for args, message in (
        ({"X": X}, "task_id is required: the model was fitted on 3 tasks"),
        ({"X": X, "task_id": ids + 1}, r"1 task\(s\) that the model has not seen: 3"),
        ({"X": X[:, :4], "task_id": ids}, "X has 4 features"),
        ({"X": np.where(X == 0, np.nan, X), "task_id": ids}, "Input X contains NaN"),
        (
            {"X": 1e200 * X, "task_id": ids},
            r"X holds a number of absolute value 1e\+200",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            matrix.scores(model, args)
    model.set_params(unseen="mean")
    assert np.isfinite(matrix.scores(model, {"X": X, "task_id": ids + 1})).all()


@every_method
def test_weights_are_used_as_documented_or_rejected(matrix, name):
    model, data = matrix.make(name), matrix.arrange(name, "ragged", *matrix.problem())
    if name == "MTNetwork":
        with pytest.raises(TypeError, match="sample_weight"):
            matrix.fit(model, data | {"sample_weight": np.ones(30)})
        return
    ones = matrix.scores(
        matrix.fit(model, data | {"sample_weight": np.ones(30, dtype=np.float32)}), data
    )
    assert_allclose(ones, matrix.plain(name, "ragged"), rtol=1e-3, atol=1e-3)
    for weights, message in (
        (np.ones(29), r"sample_weight must have shape \(30,\), got \(29,\)"),
        (np.full(30, -1.0), "sample_weight"),
        (np.full(30, np.nan), "sample_weight"),
        ((data["task_id"] > 0).astype(float), "task 0 has no"),
    ):
        with pytest.raises(ValueError, match=message):
            matrix.fit(model, data | {"sample_weight": weights})
