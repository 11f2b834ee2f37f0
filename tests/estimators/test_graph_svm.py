"""GraphSVC and the multi-task kernel SVM: limits, inputs, equivalences, messages."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from all_cases import all_cases
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC, LinearSVC

from mtlrun.estimators.svm import GraphSVC, MultiTaskKernelSVC
from mtlrun.features import WeightedDegree
from mtlrun.penalties.graph import couple_tasks
from mtlrun.solvers.svm.kernel import (
    augmented_features,
    certify_kernel,
    kernel_matrix,
    polish,
    run_libsvm,
)
from mtlrun.solvers.svm.linear import solve_block_dcd


@pytest.fixture
def tasks():
    """Return three related tasks, rows in random order and string ids."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    ids = np.array(["b", "a", "c"])[rng.choice(3, size=90, p=[0.5, 0.3, 0.2])]
    common = np.array([1.0, -1.0, 0.5, 0.0])
    coefficients = {name: common + 0.5 * rng.normal(size=4) for name in "abc"}
    y = np.array(
        [
            np.sign(x @ coefficients[i] + 0.5 * rng.normal())
            for x, i in zip(X, ids, strict=True)
        ]
    )
    return X, y, ids


# ---------------------------------------------------------------- limits


@pytest.mark.cover(2)
@pytest.mark.parametrize("solver", ["dcd", "newton"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("coupling", [0.0, 1e-9])
def test_without_coupling_the_tasks_are_independent(tasks, loss, solver, coupling):
    X, y, ids = tasks
    model = GraphSVC(C=0.5, coupling=coupling, loss=loss, tol=1e-10, solver=solver).fit(
        X, y, task_id=ids
    )
    for k, name in enumerate("abc"):
        alone = LinearSVC(
            loss=loss, C=0.5, fit_intercept=False, tol=1e-9, max_iter=10**6, dual=True
        )
        alone.fit(X[ids == name], y[ids == name])
        assert_allclose(model.coef_[k], alone.coef_[0], atol=1e-4)


@pytest.mark.cover(2)
@pytest.mark.parametrize("solver", ["dcd", "newton"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("graph", ["all", [[0, 1, 0], [1, 0, 2], [0, 2, 0]]])
def test_a_strong_coupling_gives_one_pooled_svm(tasks, loss, solver, graph):
    X, y, ids = tasks
    model = GraphSVC(
        C=0.9,
        graph=graph,
        coupling=1e6,
        loss=loss,
        tol=1e-8,
        solver=solver,
        fit_intercept=True,
    )
    model.fit(X, y, task_id=ids)
    pooled = LinearSVC(loss=loss, C=0.3, tol=1e-9, max_iter=10**6, dual=True).fit(X, y)
    assert_allclose(model.coef_, np.repeat(pooled.coef_, 3, axis=0), atol=1e-3)
    assert_allclose(model.intercept_, np.repeat(pooled.intercept_, 3), atol=1e-3)


def test_coupling_and_graph_scale_alike(tasks):
    X, y, ids = tasks
    A = np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0.0]])
    first = GraphSVC(graph=A, coupling=0.5, tol=1e-10).fit(X, y, task_id=ids)
    second = GraphSVC(graph=A / 2, coupling=1.0, tol=1e-10).fit(X, y, task_id=ids)
    assert_allclose(first.coef_, second.coef_, atol=1e-6)


def test_rows_of_the_graph_are_the_sorted_tasks(tasks):
    X, y, ids = tasks
    only_ab = np.array([[0, 1, 0], [1, 0, 1e-9], [0, 1e-9, 0]])
    model = GraphSVC(graph=only_ab, coupling=1e4, tol=1e-9).fit(X, y, task_id=ids)
    assert_allclose(model.coef_[0], model.coef_[1], atol=1e-2)
    assert np.abs(model.coef_[2] - model.coef_[1]).max() > 0.1
    frame = pd.DataFrame(only_ab, index=list("abc"), columns=list("abc")).loc[
        list("cab"), list("cab")
    ]
    again = GraphSVC(graph=frame, coupling=1e4, tol=1e-9).fit(X, y, task_id=ids)
    assert_allclose(again.coef_, model.coef_)


# ---------------------------------------------------------------- fits


@pytest.mark.cover
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("variant", ["block", "paper", "corrected", "block-printed"])
def test_variants_and_solvers_agree(tasks, loss, variant):
    X, y, ids = tasks
    best = GraphSVC(C=2.0, loss=loss, solver="newton", tol=1e-10)
    best.fit(X, y, task_id=ids)
    model = GraphSVC(C=2.0, loss=loss, variant=variant, solver="dcd", tol=1e-9).fit(
        X, y, task_id=ids
    )
    assert_allclose(model.coef_, best.coef_, atol=1e-3)
    assert model.objective_[-1] == pytest.approx(best.objective_[-1], rel=1e-8)
    assert model.gap_ <= 1e-9
    assert model.converged_


def test_an_intercept_is_a_constant_feature(tasks):
    X, y, ids = tasks
    model = GraphSVC(fit_intercept=True, tol=1e-9).fit(X, y, task_id=ids)
    explicit = GraphSVC(tol=1e-9).fit(np.column_stack([X, np.ones(90)]), y, task_id=ids)
    assert_allclose(
        np.column_stack([model.coef_, model.intercept_]), explicit.coef_, atol=1e-6
    )
    assert GraphSVC().fit(X, y, task_id=ids).intercept_.tolist() == [0, 0, 0]


def test_dual_coefficients_have_the_order_of_the_rows(tasks):
    X, y, ids = tasks
    model = GraphSVC(C=0.7, tol=1e-9, solver="dcd").fit(X, y, task_id=ids)
    v = np.stack(
        [(model.dual_coef_ * y)[ids == name] @ X[ids == name] for name in "abc"]
    )
    M = couple_tasks(np.ones((3, 3))).matrix
    assert_allclose(M @ v, model.coef_, atol=1e-10)
    assert model.dual_coef_.min() >= 0
    assert model.dual_coef_.max() <= 0.7


@pytest.mark.parametrize("solver", ["dcd", "newton"])
def test_the_graph_fits_tasks_with_a_single_class(tasks, solver):
    X, y, ids = tasks
    y = np.where(ids == "b", 1.0, y)
    y = np.where(ids == "c", -1.0, y)
    model = GraphSVC(coupling=10.0, tol=1e-8, solver=solver).fit(X, y, task_id=ids)
    assert np.abs(model.coef_).min(axis=1).max() > 0
    all_of_one = GraphSVC(solver=solver).fit(X, np.ones(90), task_id=ids)
    assert_array_equal(all_of_one.classes_, [1.0])
    assert (all_of_one.predict(X, task_id=ids) == 1).all()


@pytest.mark.parametrize("solver", ["dcd", "newton"])
def test_shared_designs_may_have_missing_labels(tasks, solver):
    X, y, _ = tasks
    Y = np.column_stack([y, np.sign(X[:, 0])])
    Y[::4, 1] = np.nan
    model = GraphSVC(tol=1e-10, solver=solver).fit(X, Y)
    kept = ~np.isnan(Y[:, 1])
    stacked = GraphSVC(tol=1e-10, solver=solver).fit(
        np.vstack([X, X[kept]]),
        np.concatenate([y, Y[kept, 1]]),
        task_id=np.repeat([0, 1], [90, kept.sum()]),
    )
    assert_allclose(model.coef_, stacked.coef_, atol=1e-5)
    assert model.dual_coef_.shape == (90, 2)
    assert (model.dual_coef_[::4, 1] == 0).all()


def test_sparse_input_gives_the_same_model(tasks):
    X, y, ids = tasks
    X = np.where(np.abs(X) < 0.5, 0, X)
    for solver in ("dcd", "newton"):
        dense = GraphSVC(tol=1e-10, solver=solver).fit(X, y, task_id=ids)
        sparse = GraphSVC(tol=1e-10, solver=solver).fit(
            sp.csr_matrix(X), y, task_id=ids
        )
        assert_allclose(sparse.coef_, dense.coef_, atol=1e-5)
        assert_allclose(
            sparse.decision_function(sp.coo_array(X), task_id=ids),
            dense.decision_function(X, task_id=ids),
            atol=1e-4,
        )


def test_the_logistic_loss_gives_probabilities(tasks):
    X, y, ids = tasks
    model = GraphSVC(loss="logistic").fit(X, y, task_id=ids)
    scores = model.decision_function(X, task_id=ids)
    assert_allclose(
        model.predict_proba(X, task_id=ids)[:, 1], 1 / (1 + np.exp(-scores))
    )
    assert not hasattr(GraphSVC(), "predict_proba")


def test_a_warm_start_continues_along_c(tasks):
    X, y, ids = tasks
    model = GraphSVC(C=1.0, tol=1e-6, solver="dcd", warm_start=True).fit(
        X, y, task_id=ids
    )
    assert model.fit(X, y, task_id=ids).objective_ == [
        pytest.approx(model.objective_[-1])
    ]
    model.set_params(C=1.01).fit(X, y, task_id=ids)
    cold = clone(model).fit(X, y, task_id=ids)
    assert model.objective_[0] < cold.objective_[0] - 0.9 * (
        cold.objective_[0] - cold.objective_[-1]
    )
    assert_allclose(model.coef_, cold.coef_, atol=1e-2)
    with pytest.raises(ValueError, match="warm_start=True"):
        model.fit(X[:50], y[:50], task_id=ids[:50])


def test_a_search_over_coupling_works_with_a_task_column(tasks):
    X, y, ids = tasks
    frame = pd.DataFrame(X).assign(task=ids)
    frame.columns = frame.columns.astype(str)
    search = GridSearchCV(
        GraphSVC(task_column="task"), {"coupling": [0.0, 1.0, 100.0]}, cv=3
    ).fit(frame, y)
    assert search.best_score_ > 0.7


def test_a_fit_stopped_early_reports_it(tasks):
    X, y, ids = tasks
    with pytest.warns(
        ConvergenceWarning,
        match="GraphSVC.*tol=1e-12",
    ):
        model = GraphSVC(C=100, solver="dcd", tol=1e-12, max_iter=1).fit(
            X, y, task_id=ids
        )
    assert not model.converged_


def many_rows(n_rows=12_000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 6))
    ids = np.arange(n_rows) % 8
    y = np.where(X[:, 0] + rng.normal(size=n_rows) > 0, 1, -1)
    return X, y, ids


def test_newton_stops_at_the_tolerance(tasks):
    X, y, ids = tasks
    for loss in ("hinge", "squared_hinge", "logistic"):
        loose = GraphSVC(loss=loss, solver="newton", tol=1e-2).fit(X, y, task_id=ids)
        tight = GraphSVC(loss=loss, solver="newton", tol=1e-8).fit(X, y, task_id=ids)
        assert loose.gap_ <= 1e-2
        assert loose.n_iter_ < tight.n_iter_


def test_many_rows_are_fitted_by_coordinate_ascent():
    X, y, ids = many_rows()
    model = GraphSVC(C=0.1).fit(X, y, task_id=ids)
    ascent = GraphSVC(C=0.1, solver="dcd").fit(X, y, task_id=ids)
    assert np.array_equal(model.coef_, ascent.coef_)
    assert model.gap_ <= 1e-4
    assert model.n_iter_ <= 20


def test_few_rows_need_no_compiled_code(tasks):
    X, y, ids = tasks
    model = GraphSVC().fit(X, y, task_id=ids)
    newton = GraphSVC(solver="newton").fit(X, y, task_id=ids)
    assert np.array_equal(model.coef_, newton.coef_)


def test_newton_follows_where_coordinate_ascent_is_slow(watch_calls):
    X, y, ids = many_rows()
    limits = []
    watch_calls(solve_block_dcd, lambda arguments: limits.append(arguments["max_iter"]))
    model = GraphSVC(C=1000.0).fit(X, y, task_id=ids)
    assert limits == [100]
    assert model.converged_
    newton = GraphSVC(C=1000.0, solver="newton").fit(X, y, task_id=ids)
    assert np.array_equal(model.coef_, newton.coef_)


# ---------------------------------------------------------------- strings


@pytest.fixture
def words():
    rng = np.random.default_rng(3)
    X = np.array(["".join(rng.choice(list("ACGT"), 8)) for _ in range(60)])
    ids = rng.choice(["fly", "worm"], 60)
    y = np.array(
        [
            1 if (x[3] == "A") != (i == "fly" and x[4] == "C") else -1
            for x, i in zip(X, ids, strict=True)
        ]
    )
    return X.astype("S8"), y, ids


@pytest.mark.parametrize(
    "options",
    [{}, {"fit_intercept": True}, {"loss": "squared_hinge"}, {"variant": "paper"}],
)
def test_strings_equal_their_features(words, options):
    X, y, ids = words
    features = WeightedDegree(degree=3)
    model = GraphSVC(features=features, tol=1e-10, **options).fit(X, y, task_id=ids)
    matrix = features.fit_transform(X)
    explicit = GraphSVC(solver="dcd", tol=1e-10, **options).fit(matrix, y, task_id=ids)
    assert_allclose(model.coef_, explicit.coef_, atol=1e-4)
    assert model.n_features_in_ == matrix.shape[1]
    expected = explicit.decision_function(matrix, task_id=ids)
    assert_allclose(model.decision_function(X, task_id=ids), expected, atol=1e-3)
    assert model.score(X, y, task_id=ids) > 0.9


def test_strings_work_in_all_layouts(words):
    X, y, ids = words
    features = WeightedDegree(degree=2, normalize=True)
    shared = GraphSVC(features=features).fit(X, np.column_stack([y, -y]))
    assert shared.predict(X).shape == (60, 2)
    assert GraphSVC(features=features).fit(X, y).predict(X).shape == (60,)
    frame = pd.DataFrame({"organism": ids, "site": X.astype(str)})
    by_column = GraphSVC(features=features, task_column="organism").fit(frame, y)
    by_id = GraphSVC(features=features).fit(X, y, task_id=ids)
    assert_allclose(by_column.coef_, by_id.coef_)
    assert_allclose(
        by_column.decision_function(frame), by_id.decision_function(X, task_id=ids)
    )
    assert cross_val_score(
        GraphSVC(features=features, task_column="organism"), frame, y, cv=3
    ).shape == (3,)


@pytest.mark.parametrize("estimator", [GraphSVC, MultiTaskKernelSVC])
def test_strings_without_features_are_rejected_with_the_remedy(words, estimator):
    X, y, ids = words
    for strings in (X, X.astype(str), X.astype(str).tolist()):
        with pytest.raises(ValueError, match="features=WeightedDegree"):
            estimator().fit(strings, y, task_id=ids)


@pytest.mark.parametrize("estimator", [GraphSVC, MultiTaskKernelSVC])
def test_invalid_strings_are_rejected(words, estimator):
    X, y, ids = words
    model = estimator(features=WeightedDegree(degree=2))
    with pytest.raises(ValueError, match="unequal length"):
        model.fit([*X[:-1], b"ACG"], y, task_id=ids)
    with pytest.raises(ValueError, match=r"59.*2.*'J'.*IUPAC"):
        model.fit([*X[:-1], b"AJGTACGT"], y, task_id=ids)
    model.fit(X, y, task_id=ids)
    with pytest.raises(ValueError, match="strings of 8"):
        model.predict(["ACGT"], task_id=["fly"])
    with pytest.raises(ValueError, match="task_id"):
        model.fit(X, y, task_id=ids[:-1])


# ---------------------------------------------------------------- the kernel machine


@pytest.mark.parametrize("graph", ["all", [[0, 1, 0.2], [1, 0, 2], [0.2, 2, 0]]])
@pytest.mark.parametrize("gram", ["precomputed", "on_the_fly"])
def test_the_kernel_svm_is_libsvm_with_the_multi_task_kernel(tasks, gram, graph):
    X, y, ids = tasks
    model = MultiTaskKernelSVC(C=2.0, graph=graph, gram=gram, tol=1e-6).fit(
        X, y, task_id=ids
    )
    A = np.ones((3, 3)) if isinstance(graph, str) else np.array(graph)
    codes = np.searchsorted(list("abc"), ids)
    K = couple_tasks(A).matrix[np.ix_(codes, codes)] * (X @ X.T)
    oracle = SVC(kernel="precomputed", C=2.0, tol=1e-6).fit(K, y)
    assert_allclose(
        model.decision_function(X, task_id=ids), oracle.decision_function(K), atol=1e-3
    )
    assert_allclose(model.intercept_, np.repeat(oracle.intercept_, 3), atol=1e-4)
    assert 0 <= model.gap_ <= 1e-4
    assert_allclose(
        np.sort(model.dual_coef_[model.dual_coef_ > 0]),
        np.sort(np.abs(oracle.dual_coef_[0])),
        atol=1e-3,
    )
    assert model.objective_[0] <= GraphSVC(C=2.0, graph=graph).fit(
        X, y, task_id=ids
    ).objective_[-1] * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("gram", ["precomputed", "on_the_fly"])
def test_the_kernel_svm_without_intercept_solves_the_problem_of_the_linear_one(
    tasks, words, gram
):
    X, y, ids = tasks
    weights = np.linspace(0, 2, len(y))
    linear = GraphSVC(C=2.0, tol=1e-10).fit(X, y, task_id=ids, sample_weight=weights)
    kernel = MultiTaskKernelSVC(C=2.0, tol=1e-8, fit_intercept=False, gram=gram)
    kernel.fit(X, y, task_id=ids, sample_weight=weights)
    assert kernel.objective_[-1] == pytest.approx(linear.objective_[-1], rel=1e-7)
    assert_allclose(kernel.coef_, linear.coef_, atol=1e-6)
    assert not kernel.intercept_.any()
    assert kernel.dual_coef_.min() >= 0
    assert (kernel.dual_coef_ <= 2.0 * weights + 1e-12).all()
    strings, labels, owner = words
    options = {
        "features": WeightedDegree(degree=3),
        "fit_intercept": False,
        "tol": 1e-8,
    }
    fitted = MultiTaskKernelSVC(**options, gram=gram).fit(
        strings, labels, task_id=owner
    )
    best = GraphSVC(features=WeightedDegree(degree=3), tol=1e-10).fit(
        strings, labels, task_id=owner
    )
    assert fitted.objective_[-1] == pytest.approx(best.objective_[-1], rel=1e-6)


def test_features_and_matrix_of_the_kernel_agree():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(5, 2))
    codes = np.repeat([0, 1], [3, 2])
    for A in (np.ones((2, 2)), np.array([[0, 0.3], [0.3, 0]])):
        coupling = couple_tasks(A, 2.0)
        expected = coupling.matrix[np.ix_(codes, codes)] * (dense @ dense.T)
        for designs in (
            [dense[:3], dense[3:]],
            [sp.csr_array(dense[:3]), sp.csr_array(dense[3:])],
        ):
            Z = augmented_features(designs, coupling)
            assert_allclose((Z @ Z.T).toarray(), expected, atol=1e-12)
            assert_allclose(kernel_matrix(designs, coupling), expected, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"normalize": True}, {"hash_bits": 8}])
def test_the_kernel_of_strings_is_the_product_of_their_features(words, options):
    features = WeightedDegree(degree=3, **options).fit_design(words[0])
    coupling = couple_tasks(np.ones((2, 2)))
    designs = [features[:7], features[7:]]
    codes = np.repeat([0, 1], [7, len(features) - 7])
    X = features.tocsr()
    expected = coupling.matrix[np.ix_(codes, codes)] * (X @ X.T).toarray()
    assert_allclose(kernel_matrix(designs, coupling), expected, atol=1e-12)


def test_polishing_gives_the_optimum_with_intercept(tasks):
    cvxpy = pytest.importorskip("cvxpy")
    X, y, ids = tasks
    order = np.argsort(ids, kind="stable")
    designs = [X[ids == name] for name in "abc"]
    y, C, coupling = y[order], 2.0, couple_tasks(np.ones((3, 3)))
    cost = np.full(len(y), C)
    K = kernel_matrix(designs, coupling)
    rough = run_libsvm(K, y, cost, tol=1e-2)
    start = certify_kernel(designs, coupling, y, cost, *rough[:2])
    point = polish(designs, coupling, y, cost, start.alpha)
    W, b = cvxpy.Variable((3, X.shape[1])), cvxpy.Variable()
    margins = cvxpy.hstack(
        [
            cvxpy.multiply(y[ids[order] == name], X[ids == name] @ W[t] + b)
            for t, name in enumerate("abc")
        ]
    )
    half = np.linalg.cholesky(coupling.inverse).T
    loss = 0.5 * cvxpy.sum_squares(half @ W) + C * cvxpy.sum(cvxpy.pos(1 - margins))
    exact = cvxpy.Problem(cvxpy.Minimize(loss)).solve(
        solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10
    )
    assert abs(start.gap) > 1e-6
    assert abs(point.gap) <= 1e-11 * exact
    assert point.primal == pytest.approx(exact, rel=1e-8)


def test_the_kernel_svm_handles_shared_designs_weights_strings_and_a_single_class(
    tasks, words
):
    X, y, _ = tasks
    Y = np.column_stack([y, -y])
    Y[0, 1] = np.nan
    weights = np.ones((90, 2))
    weights[5, 0] = 0
    model = MultiTaskKernelSVC().fit(X, Y, sample_weight=weights)
    assert model.dual_coef_.shape == (90, 2)
    assert model.dual_coef_[0, 1] == model.dual_coef_[5, 0] == 0
    strings, labels, ids = words
    assert (
        MultiTaskKernelSVC(features=WeightedDegree(degree=3))
        .fit(strings, labels, task_id=ids)
        .gap_
        < 0.01
    )
    single_class = MultiTaskKernelSVC().fit(X, np.ones(90))
    assert (single_class.predict(X) == 1).all()
    assert (
        MultiTaskKernelSVC(fit_intercept=False)
        .fit(np.abs(X), np.ones(90))
        .predict(np.abs(X))
        == 1
    ).all()
    with pytest.warns(
        ConvergenceWarning, match=r"after 2 iterations \(LIBSVM was stopped"
    ):
        MultiTaskKernelSVC(max_iter=2).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="after 2 iterations"):
        MultiTaskKernelSVC(max_iter=2, fit_intercept=False).fit(X, y)
    for fit_intercept in (True, False):
        assert (
            MultiTaskKernelSVC(max_iter=-1, fit_intercept=fit_intercept)
            .fit(X, Y, sample_weight=weights)
            .gap_
            < 0.01
        )


# ---------------------------------------------------------------- messages


@all_cases(
    ("estimator", "change", "message"),
    [
        (GraphSVC, {"C": 0}, r"C must be a float in \(0, inf\), got 0"),
        (GraphSVC, {"C": -1.0}, "C must be"),
        (GraphSVC, {"coupling": -0.1}, r"coupling must be a float in \[0, inf\)"),
        (
            GraphSVC,
            {"loss": "squared"},
            "loss must be one of .*did you mean 'squared_hinge'",
        ),
        (GraphSVC, {"variant": "printed"}, "variant must be one of"),
        (GraphSVC, {"solver": "liblinear"}, "solver must be one of"),
        (
            GraphSVC,
            {"solver": "newton", "variant": "paper"},
            "solver='newton' works neither on strings nor",
        ),
        (GraphSVC, {"tol": -1}, "tol must be"),
        (GraphSVC, {"max_iter": 0}, "max_iter must be"),
        (GraphSVC, {"features": "wd"}, "features must be a WeightedDegree or None"),
        (GraphSVC, {"graph": "ring"}, "graph must be 'all' or"),
        (GraphSVC, {"graph": np.ones((2, 2))}, "one row and one column per task"),
        (GraphSVC, {"graph": np.triu(np.ones((3, 3)))}, "must be symmetric"),
        (
            GraphSVC,
            {"graph": np.ones((3, 3)) - 3 * np.eye(3, k=1) - 3 * np.eye(3, k=-1)},
            "must not be negative",
        ),
        (GraphSVC, {"graph": np.diag([1.0, 1, 1])}, "isolated tasks"),
        (MultiTaskKernelSVC, {"graph": np.diag([1.0, 1, 1])}, "isolated tasks"),
        (MultiTaskKernelSVC, {"max_iter": 0}, "max_iter must be -1 or"),
        (MultiTaskKernelSVC, {"gram": "callable"}, "gram must be one of"),
        (MultiTaskKernelSVC, {"C": 0.0}, "C must be"),
    ],
)
def test_invalid_parameters_are_rejected(tasks, estimator, change, message):
    X, y, ids = tasks
    with pytest.raises(ValueError, match=message):
        estimator(**change).fit(X, y, task_id=ids)


@pytest.mark.parametrize("estimator", [GraphSVC(), MultiTaskKernelSVC()])
def test_invalid_data_are_rejected(tasks, estimator):
    X, y, ids = tasks
    third = y.copy()
    third[0] = 0
    with pytest.raises(
        ValueError, match=r"Only binary classification is supported.*3 classes"
    ):
        estimator.fit(X, third, task_id=ids)
    Y = np.column_stack([y, np.full(90, np.nan)])
    with pytest.raises(ValueError, match="has no rows"):
        estimator.fit(X, Y)
    with pytest.raises(ValueError, match="'c'"):
        estimator.fit(X, y, task_id=ids, sample_weight=(ids != "c").astype(float))
    broken = X.copy()
    broken[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        estimator.fit(broken, y, task_id=ids)
    with pytest.raises(ValueError, match="'d'"):
        estimator.fit(X, y, task_id=ids).predict(X[:1], task_id=["d"])
