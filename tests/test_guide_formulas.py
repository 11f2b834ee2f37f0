"""The objectives printed in the guide are the ones that the estimators minimize.

Each chapter's formula is repeated here as it is printed, next to a function that
evaluates it at the fitted model. If a chapter changes its formula, the test fails until
the function is changed, too.
"""

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from matplotlib.mathtext import MathTextParser
from numpy.testing import assert_allclose

from mtlrun.catalog.registry import METHODS
from mtlrun.estimators import (
    MTFL,
    MTRL,
    ClusteredMTL,
    ConvexASO,
    DirtyMTL,
    FusedMTL,
    GraphMTL,
    GraphSVC,
    HierarchicalMTL,
    IndependentLasso,
    IndependentRidge,
    JointFeatureMTL,
    JointFeatureMTLCV,
    MultiTaskKernelSVC,
    RobustMTL,
    SmoothMTL,
    SparseMTL,
    TemporalGroupLasso,
    TraceNormMTL,
)

GUIDE = Path(__file__).parent.parent / "docs" / "guide"
N_TASKS = 4
N_FEATURES = 5
ROWS_PER_TASK = 15


class Data(NamedTuple):
    """A small regression problem with different coefficients in every task."""

    X: np.ndarray
    y: np.ndarray
    task: np.ndarray

    def squared_errors(self, model) -> float:
        """Return the sum over tasks of ||y_t - X_t w_t - b_t||^2."""
        fitted = (self.X * model.coef_[self.task]).sum(axis=1)
        residuals = self.y - fitted - model.intercept_[self.task]
        return float(residuals @ residuals)

    def loss(self, model) -> float:
        """Return L(W), half the sum of squared errors."""
        return self.squared_errors(model) / 2


@pytest.fixture(scope="module")
def data() -> Data:
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(N_TASKS), ROWS_PER_TASK)
    X = rng.normal(size=(task.size, N_FEATURES))
    W = rng.normal(size=N_FEATURES) + 0.5 * rng.normal(size=(N_TASKS, N_FEATURES))
    y = (X * W[task]).sum(axis=1) + 2 * task + rng.normal(size=task.size)
    return Data(X, y, task)


def chain_differences(W: np.ndarray) -> np.ndarray:
    """Return w_{t+1} - w_t for consecutive tasks, one row per pair."""
    return np.diff(W, axis=0)


def graph(data: Data, model: GraphMTL) -> float:
    coupling = (chain_differences(model.coef_) ** 2).sum()
    ridge = (model.coef_**2).sum()
    return data.loss(model) + model.alpha / 2 * coupling + model.ridge / 2 * ridge


def fused(data: Data, model: FusedMTL) -> float:
    rows = np.linalg.norm(model.coef_, axis=0).sum()
    steps = np.abs(chain_differences(model.coef_)).sum()
    return data.loss(model) + model.alpha * rows + model.fusion * steps


def clustered(data: Data, model: ClusteredMTL) -> float:
    """Evaluate the trace at the best M, whose eigenvectors are those of W'W.

    For singular values sigma_k of W, the trace is sum_k sigma_k^2 / (eta + m_k), where
    the eigenvalues m_k of M lie in [0, 1] and add up to k. At the minimum they are
    clip(c sigma_k - eta, 0, 1) for the constant c that gives this sum.
    """
    sigma = np.linalg.svd(model.coef_, compute_uv=False)
    low = 0.0
    high = (1 + model.eta) / sigma[sigma > 1e-12].min()
    for _ in range(200):
        middle = (low + high) / 2
        if np.clip(middle * sigma - model.eta, 0, 1).sum() < model.n_clusters:
            low = middle
        else:
            high = middle
    eigenvalues = np.clip(high * sigma - model.eta, 0, 1)
    trace = (sigma**2 / (model.eta + eigenvalues)).sum()
    return data.loss(model) + model.alpha * model.eta * (1 + model.eta) * trace


def robust(data: Data, model: RobustMTL) -> float:
    low_rank = np.linalg.svd(model.low_rank_, compute_uv=False).sum()
    outliers = np.linalg.norm(model.outlier_, axis=1).sum()
    return low_rank + model.lam * outliers + model.beta * data.squared_errors(model)


def joint(data: Data, model: JointFeatureMTL) -> float:
    return data.loss(model) + model.alpha * np.linalg.norm(model.coef_, axis=0).sum()


def dirty(data: Data, model: DirtyMTL) -> float:
    shared = np.abs(model.shared_).max(axis=0).sum()
    private = np.abs(model.own_).sum()
    return data.loss(model) + model.alpha * (shared + model.lam * private)


def trace_norm(data: Data, model: TraceNormMTL) -> float:
    singular_values = np.linalg.svd(model.coef_, compute_uv=False)
    return data.loss(model) + model.alpha * singular_values.sum()


def relations(data: Data, model: MTRL) -> float:
    W = model.coef_.T
    ridge = model.lam1 / 2 * (W**2).sum()
    # Omega is singular if W does not have full rank: the formula then refers to its
    # generalized inverse, since the columns of W' are in the range of Omega.
    inverse = np.linalg.pinv(model.task_covariance_, rcond=1e-10, hermitian=True)
    return data.loss(model) + ridge + model.lam2 / 2 * np.trace(W @ inverse @ W.T)


def coupled_svm(data: Data, model: GraphSVC) -> float:
    W = model.coef_
    pairs = W[:, None, :] - W[None, :, :]
    labels = np.where(data.y > np.median(data.y), 1, -1)
    margins = labels * (data.X * W[data.task]).sum(axis=1)
    hinge = np.maximum(0, 1 - margins).sum()
    coupling = model.coupling / 4 * (pairs**2).sum()
    return (W**2).sum() / 2 + coupling + model.C * hinge


#: Chapter, its printed formula, a model, and a function that evaluates the formula
FORMULAS: list[tuple[str, str, object, Callable]] = [
    (
        "graphs-time",
        r"L(W) + \tfrac{\alpha}{2} \sum_{s<t} A_{st} \lVert w_s - w_t \rVert_2^2"
        r" + \tfrac{\rho}{2} \sum_t \lVert w_t \rVert_2^2",
        GraphMTL(alpha=3.0, graph="chain", ridge=0.5, tol=1e-10),
        graph,
    ),
    (
        "graphs-time",
        r"L(W) + \alpha \sum_j \lVert w^j \rVert_2"
        r" + \gamma \sum_t \lVert w_{t+1} - w_t \rVert_1",
        FusedMTL(alpha=0.7, fusion=2.0, tol=1e-9, max_iter=50_000),
        fused,
    ),
    (
        "clusters",
        r"\min_{W, M} L(W) + \alpha\eta(1+\eta)\, \mathrm{tr}\big(W(\eta I + M)^{-1}W^\top\big),"
        r" \quad 0 \preceq M \preceq I, \; \mathrm{tr}\, M = k",
        ClusteredMTL(alpha=2.0, eta=0.5, n_clusters=2, tol=1e-9, max_iter=50_000),
        clustered,
    ),
    (
        "clusters",
        r"\min_{L, E} \lVert L \rVert_* + \lambda \sum_t \lVert e_t \rVert_2"
        r" + \beta \sum_t \lVert y_t - X_t(l_t + e_t) \rVert_2^2",
        RobustMTL(lam=0.7, beta=0.2, tol=1e-9),
        robust,
    ),
    (
        "shared-features",
        r"\min_W \tfrac12 \sum_t \lVert y_t - X_t w_t \rVert_2^2"
        r" + \alpha \sum_j \lVert w^j \rVert_2",
        JointFeatureMTL(alpha=5.0, tol=1e-10),
        joint,
    ),
    (
        "shared-features",
        r"\min_{P, Q} \tfrac12 \sum_t \lVert y_t - X_t (p_t + q_t) \rVert_2^2"
        r" + \alpha \Big( \sum_j \max_t \lvert p_{tj} \rvert"
        r" + \lambda \sum_{t,j} \lvert q_{tj} \rvert \Big)",
        DirtyMTL(alpha=5.0, lam=0.5, tol=1e-10),
        dirty,
    ),
    (
        "low-rank",
        r"\min_W \tfrac12 \sum_t \lVert y_t - X_t w_t \rVert_2^2 + \alpha \lVert W \rVert_*",
        TraceNormMTL(alpha=5.0, tol=1e-10),
        trace_norm,
    ),
    (
        "relations",
        r"\min_{W, \Omega \succeq 0,\, \mathrm{tr}\,\Omega = 1} L(W)"
        r" + \tfrac{\lambda_1}{2} \lVert W \rVert_F^2"
        r" + \tfrac{\lambda_2}{2} \mathrm{tr}(W \Omega^{-1} W^\top)",
        MTRL(lam1=0.3, lam2=2.0, tol=1e-10),
        relations,
    ),
    (
        "svm",
        r"\min_W \tfrac12 \sum_t \lVert w_t \rVert_2^2"
        r" + \tfrac{c}{4} \sum_{s,t} A_{st} \lVert w_s - w_t \rVert_2^2"
        r" + C \sum_i \max(0, 1 - y_i\, w_{t(i)}^\top x_i)",
        GraphSVC(C=0.3, coupling=0.7, tol=1e-10),
        coupled_svm,
    ),
]
IDS = [f"{chapter}-{type(model).__name__}" for chapter, _, model, _ in FORMULAS]


@pytest.mark.parametrize(("chapter", "formula", "model", "evaluate"), FORMULAS, ids=IDS)
def test_a_formula_of_the_guide_is_the_objective(
    data, chapter, formula, model, evaluate
):
    printed = re.sub(r"\s+", " ", (GUIDE / f"{chapter}.md").read_text("utf-8"))
    assert formula in printed
    is_classifier = isinstance(model, GraphSVC)
    labels = np.where(data.y > np.median(data.y), 1, -1)
    target = labels if is_classifier else data.y
    model.fit(data.X, target, task_id=data.task)
    objective = np.atleast_1d(model.objective_)[-1]
    assert_allclose(evaluate(data, model), objective, rtol=1e-6)


def test_every_chapter_with_an_objective_has_its_formula_tested():
    objective = re.compile(r"\\min_(W|\{[A-Z])")
    with_minimum = {
        page.stem
        for page in GUIDE.glob("*.md")
        if objective.search(page.read_text("utf-8"))
    }
    assert with_minimum == {chapter for chapter, *_ in FORMULAS}


#: Chapters whose formulas are not objectives to minimize, and the tests that check them
OTHER_FORMULAS = {
    "pooling": "tests/estimators/test_printed_objectives.py",
    "smooth": "test_the_formulas_of_smooth_curves_are_the_model",
    "paths": "test_a_path_starts_where_all_coefficients_are_zero",
    "evaluation": "tests/comparison/test_gain.py",
    "layouts": "test_the_loss_is_the_weighted_sum_over_observed_targets",
    "large-data": "test_sums_of_products_give_the_squared_errors",
}


def test_every_displayed_formula_of_the_guide_is_checked():
    displayed = {
        page.stem
        for page in GUIDE.glob("*.md")
        if "$$" in page.read_text("utf-8").splitlines()
    }
    assert displayed == {chapter for chapter, *_ in FORMULAS} | set(OTHER_FORMULAS)
    root = GUIDE.parent.parent
    for check in OTHER_FORMULAS.values():
        assert check in globals() or (root / check).is_file()


def test_a_path_starts_where_all_coefficients_are_zero(data):
    Y = np.column_stack([data.y, data.y + 3 * data.X[:, 0]])
    model = JointFeatureMTLCV(cv=3).fit(data.X, Y)
    at_most = JointFeatureMTL(model.alphas_[0]).fit(data.X, Y)
    below = JointFeatureMTL(0.99 * model.alphas_[0]).fit(data.X, Y)
    assert np.abs(at_most.coef_).max() == 0
    assert np.abs(below.coef_).max() > 0
    assert len(model.alphas_) == 50
    assert (np.diff(model.alphas_) < 0).all()
    assert model.alpha_ == model.alphas_[model.scores_path_.mean(axis=1).argmin()]


def test_the_loss_is_the_weighted_sum_over_observed_targets(data):
    Y = np.column_stack([data.y, data.y + 3 * data.X[:, 0], -data.y])
    Y[::3, 1] = np.nan
    weights = 1.0 + np.arange(len(Y)) % 2
    model = TraceNormMTL(alpha=5.0, tol=1e-10).fit(data.X, Y, sample_weight=weights)
    residuals = Y - data.X @ model.coef_.T - model.intercept_
    loss = np.nansum(weights[:, np.newaxis] * residuals**2) / 2
    singular_values = np.linalg.svd(model.coef_, compute_uv=False)
    objective = loss + model.alpha * singular_values.sum()
    assert_allclose(objective, model.objective_[-1], rtol=1e-6)


def test_the_gap_bounds_the_distance_from_the_optimum(data):
    best = TraceNormMTL(alpha=5.0, tol=1e-12, max_iter=100_000)
    best.fit(data.X, data.y, task_id=data.task)
    rough = TraceNormMTL(alpha=5.0, tol=0.1, solver="fista")
    rough.fit(data.X, data.y, task_id=data.task)
    distance = 1 - best.objective_[-1] / rough.objective_[-1]
    assert 1e-8 < distance <= rough.gap_ < 0.1


def test_sums_of_products_give_the_squared_errors(data):
    model = HierarchicalMTL("intercept")
    first = np.arange(len(data.y)) % 3 == 0
    for part in (first, ~first):
        model.partial_fit(data.X[part], data.y[part], task_id=data.task[part])
    sums = model.statistics_
    w = np.arange(1.0, N_FEATURES + 1)
    for t in range(N_TASKS):
        rows = data.task == t
        X = data.X[rows] - sums.x_shift
        y = data.y[rows] - sums.y_shift[t]
        by_sums = w @ sums.xx[t] @ w - 2 * w @ sums.xy[:, t] + sums.yy[t]
        assert_allclose(by_sums, ((y - X @ w) ** 2).sum())


def test_the_mixture_finds_clusters_better_than_the_relaxation():
    """The chapter on clusters says to try it first."""
    truth = np.random.default_rng(6).normal(size=(3, 10))[np.tile([0, 1, 2], 4)]
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(12), 25)
    X = rng.normal(size=(300, 10))
    y = (X * truth[task]).sum(axis=1) + 1.5 * rng.normal(size=300)

    def error(model) -> float:
        return float(np.linalg.norm(model.fit(X, y, task_id=task).coef_ - truth))

    strengths = (1, 2, 5, 10, 20, 40)
    relaxed = [
        ClusteredMTL(alpha, eta, n_clusters=3)
        for alpha in strengths
        for eta in (0.03, 0.1, 0.3)
    ]
    assert_allclose(error(HierarchicalMTL(prior="clusters")), 1.6, atol=0.05)
    assert_allclose(min(map(error, relaxed)), 2.8, atol=0.05)
    assert_allclose(min(error(TraceNormMTL(a)) for a in strengths), 2.6, atol=0.06)


def trace_norm_of(data: Data, model: MTFL) -> float:
    """Return the strength at which TraceNormMTL has the solution of MTFL."""
    model.fit(data.X, data.y, task_id=data.task)
    return float(2 * model.gamma * np.linalg.norm(model.coef_, "nuc"))


TIGHT = {"tol": 1e-9, "max_iter": 100_000}
#: Rows of the first table of docs/guide/same-models.md: left side and right side
SAME = [
    (ConvexASO(2.0, 0.3, 2, **TIGHT), ClusteredMTL(2.0, 0.3, 2, **TIGHT)),
    (MTFL(0.7, **TIGHT), MTRL(0.0, 1.4, **TIGHT)),
    (MTFL(0.7, **TIGHT), TraceNormMTL(**TIGHT)),
    (ClusteredMTL(2.0, 0.3, 4, **TIGHT), IndependentRidge(1.2)),
    (
        TemporalGroupLasso(0.0, smoothness=3.0, ridge=0.5, **TIGHT),
        GraphMTL(3.0, "chain", ridge=0.5, **TIGHT),
    ),
    (TemporalGroupLasso(4.0, smoothness=0.0, **TIGHT), JointFeatureMTL(4.0, **TIGHT)),
    (FusedMTL(4.0, fusion=0.0, **TIGHT), JointFeatureMTL(4.0, **TIGHT)),
    (FusedMTL(0.0, fusion=0.0, sparsity=2.0, **TIGHT), SparseMTL(2.0, **TIGHT)),
    (SparseMTL(2.0, **TIGHT), IndependentLasso(2.0, **TIGHT)),
    (
        MultiTaskKernelSVC(C=0.5, coupling=0.7, fit_intercept=False, tol=1e-9),
        GraphSVC(C=0.5, coupling=0.7, tol=1e-10),
    ),
]


@pytest.mark.filterwarnings("ignore::mtlrun.estimators.DegenerateModelWarning")
@pytest.mark.parametrize(("first", "second"), SAME, ids=str)
def test_two_names_are_one_model(data, first, second):
    labels = np.where(data.y > np.median(data.y), 1, -1)
    target = labels if isinstance(second, GraphSVC) else data.y
    if isinstance(second, TraceNormMTL):
        second.set_params(alpha=trace_norm_of(data, first))
    for model in (first, second):
        model.fit(data.X, target, task_id=data.task)
    assert np.abs(second.coef_).max() > 0.1
    assert_allclose(first.coef_, second.coef_, atol=2e-5)


#: Values of the names in the first table of docs/guide/same-models.md
VALUES = {
    "alpha": 2.0,
    "eta": 0.3,
    "n_components": 2,
    "n_clusters": 2,
    "gamma": 0.7,
    "smoothness": 3.0,
    "ridge": 0.5,
    "s": 2.0,
}


def test_the_code_of_same_models_gives_equal_coefficients(data):
    page = (GUIDE / "same-models.md").read_text("utf-8")
    (table,) = re.findall(r"^\| this \|.*?\n\n", page, re.DOTALL | re.MULTILINE)
    n_pairs = 0
    for line in table.strip().splitlines()[2:]:
        this, other = (
            re.findall(r"`(\w+\([^`]+\))`", cell) for cell in line.split("|")[1:3]
        )
        if not (this and other) or "TraceNormMTL" in other[0]:
            continue  # Their numbers are written in words.
        for code in this:
            first, second = (
                eval(text, globals(), VALUES).set_params(**TIGHT)
                for text in (code, other[0])
            )
            for model in (first, second):
                model.fit(data.X, data.y, task_id=data.task)
            assert_allclose(first.coef_, second.coef_, atol=2e-5, err_msg=line)
            n_pairs += 1
    assert n_pairs >= 7


def test_every_line_of_same_models_is_tested():
    page = (GUIDE / "same-models.md").read_text("utf-8")
    (table,) = re.findall(r"^\| this \|.*?\n\n", page, re.DOTALL | re.MULTILINE)
    lines = table.strip().splitlines()[2:]
    # One row has two models on its left side.
    assert len(lines) + 1 == len(SAME)
    for model in {type(model).__name__ for pair in SAME for model in pair}:
        assert f"`{model}" in table


def test_the_formulas_of_smooth_curves_are_the_model(data):
    """Kernels, predictions and objective of the chapter, with dense matrices."""
    printed = re.sub(r"\s+", " ", (GUIDE / "smooth.md").read_text("utf-8"))
    for formula in (
        r"y_{ti} &= \mu + \sum_k f_k(x_{ti}) + \sum_k h_{tk}(x_{ti}) + e_{ti}",
        r"-2 \log p(y \mid v, u, \sigma)"
        r" + 2 \rho \sum_{k \text{ curved}} \big( \sqrt{v_k} + \sqrt{u_k} \big) / \sigma",
        r"$z_a^\top z_b / p$",
        r"$\exp(-(z_a - z_b)^2 / (2 \cdot 0.8^2))$",
        r"$\exp(-\lVert z_a - z_b \rVert^2 / (2 \ell^2 p))$",
        '1.5 for "smooth"',
    ):
        assert formula in printed
    # Common curves are approximated at knots and centers; those of tasks are exact.
    X = data.X
    rows = len(X)
    y = data.y + 3 * np.sin(2 * X[:, 0] + data.task) + np.prod(X[:, 1:3], axis=1)
    model = SmoothMTL(
        common_parts=("linear",),
        task_parts=("level", "slopes", "smooth", "additive"),
        prior_rate=0.1,
    )
    model.fit(X, y, task_id=data.task)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    clipped = np.clip(z, -3, 3)
    squares = (clipped[:, np.newaxis] - clipped) ** 2
    same_task = data.task[:, np.newaxis] == data.task
    linear = z @ z.T / N_FEATURES
    kernels = {
        "linear": linear,
        "task level": same_task,
        "task slopes": same_task * linear,
        "task smooth": same_task * np.exp(-squares.sum(-1) / (2 * 1.5**2 * N_FEATURES)),
        "task additive": same_task * np.exp(-squares / (2 * 0.8**2)).mean(-1),
    }
    variances = model.variances_
    assert list(variances) == list(kernels)
    curved = [variances["task smooth"], variances["task additive"]]
    assert max(curved) > 0
    noise = model.noise_variance_
    signal = sum(variances[part] * kernel for part, kernel in kernels.items())
    inverse = np.linalg.inv(signal + noise * np.eye(rows))
    information = inverse.sum()
    mu = (inverse @ y).sum() / information
    predicted = mu + signal @ inverse @ (y - mu)
    assert_allclose(model.predict(X, task_id=data.task), predicted, atol=1e-8)
    # The constant belongs to targets of variance 1; the quadratic form is constant,
    # since the noise is at its optimum.
    relative = signal / noise + np.eye(rows)
    deviance = (
        (rows - 1) * np.log(noise / y.var())
        + np.linalg.slogdet(relative)[1]
        + np.log(information * noise)
    )
    prior = 2 * model.prior_rate * np.sqrt(np.array(curved) / noise).sum()
    assert_allclose(model.objective_[-1], deviance + prior, rtol=1e-8)


def test_objectives_are_written_in_tex():
    script = Path(__file__).parents[1] / "scripts" / "docs_formulas.py"
    tex_of = runpy.run_path(str(script))["tex_of"]
    assert tex_of("sum_t 1/2 ||y_t - X_t w_t||^2 + lam/2 ||W||_*") == (
        r"\sum_{t} \frac{1}{2} \| y_{t} - X_{t} w_{t} \| ^ 2"
        r" + \lambda / 2 \| W \| _*"
    )
    assert tex_of("ridge x_ti'w where sum <= 10") == (
        r"\text{ridge} x_{ti} ^\top w \\ \;\text{where sum}\; \leq 10"
    )
    parser = MathTextParser("path")
    # Methods share most terms, and parsing a term takes long.
    texts = [tex_of(method.objective) for method in METHODS.values()]
    terms = {term for text in texts for term in re.split(r" [+=,] |\\\\", text)}
    for term in terms - {"", " "}:
        parser.parse(f"${term}$")
