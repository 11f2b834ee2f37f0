"""Analyses of graph-regularized SVMs."""

import itertools

import cvxpy as cp
import numpy as np
import pytest

from mtlrun.data.sets.load import load_dataset
from mtlrun.estimators.svm import GraphSVC
from mtlrun.lab.experiment.checks import read_curves
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.papers.mtsvm import analyses as mtsvm
from mtlrun.papers.mtsvm import runs as mtsvm_runs
from mtlrun.papers.mtsvm import transfer
from mtlrun.papers.mtsvm.transfer import MODELS, sample_rows, svm_transfer
from mtlrun.penalties.graph import check_similarity, couple_tasks
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.svm.linear import solve_svm_newton


@pytest.fixture(scope="module")
def plane():
    return load_dataset("gauss2d", n=300)


@pytest.fixture(scope="module")
def strings():
    return load_dataset("simulated-splice", n=400, organisms=["fly", "human"], decoys=1)


@pytest.fixture(scope="module")
def short_strings():
    """Return strings with half of the features of `strings`."""
    return load_dataset(
        "simulated-splice", n=80, length=24, organisms=["fly", "human"], decoys=1
    )


def names(measure):
    return set(measure.declaration.quantities)


def test_sizes_count_the_rows_that_the_svm_sees(plane, strings):
    assert mtsvm.svm_statistics(plane, seed=0).values["dimension"] == 2
    result = mtsvm.svm_statistics(strings, seed=0)
    assert result.values["dimension"] == sum((42 - k + 1) * 4**k for k in range(1, 9))
    assert result.per_task["rows"] == [200, 200]
    assert set(result.values) == names(mtsvm.svm_statistics)


def test_subsets_contain_every_task_and_are_nested(plane):
    small, large = (
        mtsvm_runs.part_of(plane, fraction, seed=1) for fraction in (0.1, 0.5)
    )
    assert np.bincount(small.task_id).tolist() == [15, 15]
    assert {x.tobytes() for x in small.X} <= {x.tobytes() for x in large.X}
    assert mtsvm_runs.part_of(plane, 1.0, seed=1) is plane
    with pytest.raises(ValueError, match="fraction"):
        mtsvm_runs.part_of(plane, 0.0, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["block", "paper", "newton"])
def test_dual_ascent_is_followed_to_the_optimum(plane, solver):
    analysis = mtsvm.svm_convergence(plane, seed=0, solver=solver, C=1.0)
    data = plane.taskdata()
    links = couple_tasks(check_similarity("all", data.tasks))
    exact = solve_svm_newton(data, links, C=1.0, tol=1e-12).objective[-1]
    assert analysis.values["optimum"] == pytest.approx(exact, rel=1e-9)
    assert analysis.values["relative_difference"] <= 1e-9
    assert (
        analysis.values["seconds_to_1e-2"]
        <= analysis.values["seconds_to_1e-6"]
        <= analysis.values["seconds_run"]
    )
    assert set(analysis.values) == names(mtsvm.svm_convergence)
    curve = analysis.curves["function difference"]
    assert len(curve.x) == len(curve.y)
    assert min(curve.y) > 0


@pytest.mark.slow
def test_the_kernel_svm_is_followed_to_the_same_optimum_with_both_objectives(plane):
    libsvm, ours = (
        mtsvm.svm_convergence(plane, seed=0, solver=s, C=1.0)
        for s in ("kernel", "paper")
    )
    assert libsvm.values["optimum"] == ours.values["optimum"]
    assert (
        libsvm.values["relative_difference"]
        <= libsvm.values["primal_relative_difference"]
        < 1e-9
    )
    assert libsvm.values["primal_seconds_to_1e-4"] >= libsvm.values["seconds_to_1e-4"]
    assert (
        ours.values["primal_relative_difference"] == ours.values["relative_difference"]
    )
    assert ours.values["difference_at_dcd_time"] <= 1e-12 * ours.values["optimum"]
    assert (
        libsvm.values["difference_at_dcd_time"] >= libsvm.values["function_difference"]
    )
    assert set(ours.curves) == {"function difference"}
    for curve in (
        libsvm.curves[name]
        for name in ("function difference", "function difference, primal")
    ):
        assert curve.x == sorted(curve.x)
        assert curve.y[0] > 1 > curve.y[-1] == min(curve.y)


def test_the_kernel_svm_with_intercept_is_compared_with_its_exact_optimum(plane):
    cvxpy = pytest.importorskip("cvxpy")
    analysis = mtsvm.svm_convergence(
        plane, seed=0, solver="mtk-intercept", C=1.0, tolerances=[1.0, 1e-1, 1e-4]
    )
    W, b = cvxpy.Variable((2, 2)), cvxpy.Variable()
    scores = cvxpy.hstack([plane.X[plane.task_id == t] @ W[t] for t in range(2)])
    pull = 0.5 * cvxpy.sum_squares(W) + 0.5 * cvxpy.sum_squares(W[0] - W[1])
    loss = cvxpy.sum(cvxpy.pos(1 - cvxpy.multiply(plane.y, scores + b)))
    exact = cvxpy.Problem(cvxpy.Minimize(pull + loss)).solve(
        solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10
    )
    assert analysis.values["optimum"] == pytest.approx(exact, rel=1e-9)
    assert analysis.values["accuracy"] < 1e-9
    assert analysis.values["function_difference"] > 1e-9
    assert "with LIBSVM's intercept" in analysis.lines[0]
    assert len(analysis.curves["function difference"].y) >= 9


def test_a_difference_below_the_accuracy_of_the_optimum_has_no_value():
    differences = np.array([1.0, 1e-5, 1e-9])
    well, badly = (
        mtsvm_runs.ReferenceOptimum(10.0, accuracy, "") for accuracy in (2e-9, 1e-4)
    )
    assert well.resolved(differences).tolist() == [1.0, 1e-5, 4e-9]
    assert np.isnan(badly.resolved(differences)).tolist() == [False, True, True]


def test_an_unknown_optimum_gives_no_difference(plane, monkeypatch):
    monkeypatch.setattr(mtsvm_runs, "polish", lambda *args: None)
    analysis = mtsvm.svm_convergence(
        plane, seed=0, solver="mtk-intercept", C=1.0, tolerances=[1.0, 0.3]
    )
    assert analysis.values["accuracy"] > 1e-8
    assert np.isnan(analysis.values["function_difference"])


def test_the_similarity_of_tasks_comes_with_the_data(plane):
    theirs = load_dataset("gauss2d", n=100, means="authors")
    assert np.allclose(mtsvm_runs.couple(theirs).inverse, [[1.5, -0.5], [-0.5, 1.5]])
    assert np.allclose(mtsvm_runs.couple(plane).inverse, [[2, -1], [-1, 2]])
    assert mtsvm_runs.part_of(theirs, 0.5, 0).truth


def test_a_precision_is_a_gap_or_a_distance_of_the_dual_or_primal_value():
    numbers = [(1.0, 12.0, 9.0), (2.0, 11.0, 9.95), (3.0, 10.001, 10.0)]
    points = [mtsvm_runs.TimedCertificate(*number) for number in numbers]
    assert mtsvm_runs.time_to(points, 0.1, "gap") == 2.0
    assert mtsvm_runs.time_to(points, 1e-2, "gap") == 3.0
    assert mtsvm_runs.time_to(points, 1e-2, "dual") == 2.0
    assert np.isnan(
        mtsvm_runs.time_to(points[:2], 1e-2, "dual")
    )  # The best dual value is not certified.
    assert mtsvm_runs.time_to(points, 1e-2, "primal") == 3.0
    assert mtsvm_runs.time_to(points, 0.1, "primal") == 2.0
    with pytest.raises(ValueError, match="precision"):
        mtsvm_runs.time_to(points, 1e-2, "objective")


@pytest.mark.slow
def test_seconds_to_a_precision_are_measured(plane, short_strings):
    for solver, data in (
        ("kernel", plane),
        ("mtk-intercept", short_strings),
        ("block", short_strings),
    ):
        analysis = mtsvm.svm_seconds(
            data, seed=0, solver=solver, C=1.0, tol=1e-2, trace=True
        )
        assert analysis.values["relative_gap"] <= 1e-2
        assert analysis.solver["converged"]
        assert analysis.values["n"] == len(data.y)
        assert (
            0
            < analysis.values["seconds_to_precision"]
            <= analysis.values["seconds_run"]
        )
        assert set(analysis.values) == names(mtsvm.svm_seconds)
        curve = analysis.curves["relative gap"]
        assert curve.y[-1] <= 1e-2 < curve.y[0]


@pytest.mark.slow
def test_a_solver_that_runs_out_of_time_has_no_seconds(plane, short_strings):
    for solver, data, options in (
        ("block", plane, {}),
        ("mtk-intercept", short_strings, {"tolerances": [1.0]}),
    ):
        analysis = mtsvm.svm_seconds(
            data, seed=0, solver=solver, tol=1e-9, seconds=0.0, **options
        )
        assert np.isnan(analysis.values["seconds_to_precision"])
        assert not analysis.solver["converged"]
        assert "not at 1e-09" in analysis.lines[0]


def test_seconds_are_reported_by_number_of_rows(plane):
    analysis = mtsvm.svm_scaling(plane, seed=0, fractions=[1.0, 0.5], C=1.0)
    assert set(analysis.values) == names(mtsvm.svm_scaling) - {
        "times_block",
        "times_paper",
    }
    assert analysis.curves["seconds to precision"].x == [150, 300]
    assert analysis.values["largest_n"] == 300
    assert analysis.solver["converged"]


def test_seconds_are_compared_on_the_same_rows(plane):
    analysis = mtsvm.svm_scaling(
        plane,
        seed=0,
        solver="kernel",
        against=["block", "paper"],
        fractions=[0.5, 1.0],
        C=1.0,
    )
    assert set(analysis.values) == names(mtsvm.svm_scaling)
    assert analysis.values["times_block"] > 0
    assert analysis.values["times_paper"] > 0
    assert [line.split(":")[0] for line in analysis.lines] == [
        "kernel, 150 rows"
    ] * 2 + ["kernel, 300 rows"] * 2


def test_the_kernel_svm_skips_sizes_that_take_too_long(plane):
    analysis = mtsvm.svm_scaling(
        plane, seed=0, solver="kernel", fractions=[0.2, 1.0], C=1.0, seconds=1e-9
    )
    assert analysis.values["largest_n"] in (0, 60)
    assert analysis.solver["converged"] == (analysis.values["largest_n"] > 0)
    assert analysis.lines


def test_every_certificate_is_timed_by_the_given_clock(plane, set_clock):
    set_clock(float)
    data = plane.taskdata()
    links = couple_tasks(check_similarity("all", data.tasks))
    for solver in ("paper", "kernel"):
        result = mtsvm_runs.run_solver(
            solver, data, links, 1.0, 1e-6, 0, 1e6, clock="processor"
        )
        points = mtsvm_runs.certificates(result)
        seconds = [point.seconds for point in points]
        assert seconds == list(range(1, len(points) + 1))
        stopped = mtsvm_runs.run_solver(
            solver, data, links, 1.0, 1e-6, 0, 1.5, clock="processor"
        )
        assert [p.seconds for p in mtsvm_runs.certificates(stopped)] == [1, 2]


@pytest.fixture
def set_clock(monkeypatch):
    """Return a function that sets the seconds of the n-th look at the clock."""

    def change(seconds_of, name="processor"):
        looks = itertools.count()
        clock = mtsvm_runs.CLOCKS
        monkeypatch.setitem(clock, name, lambda: seconds_of(next(looks)))

    return change


SHORT = {"seed": 0, "C": 1.0, "clock": "processor"}


def test_short_runs_count_with_the_median_and_their_sum(plane, set_clock):
    # Each of the three runs takes longer than the one before.
    set_clock(lambda look: 1e-5 * look**2)
    analysis = mtsvm.svm_seconds(plane, solver="paper", trace=True, **SHORT)
    first = analysis.curves["relative gap"].x[-1]
    values = analysis.values
    assert first < values["seconds_to_precision"]
    assert values["seconds_run"] > first + 2 * values["seconds_to_precision"]


def test_seconds_are_divided_by_the_rows_of_the_part(plane):
    values = mtsvm.svm_seconds(plane, seed=0, C=1.0, fraction=0.5).values
    seconds = values["seconds_to_precision"]
    assert values["n"] == 150
    assert values["microseconds_per_row"] == pytest.approx(1e6 * seconds / 150)


def test_a_distance_of_the_dual_value_needs_a_tenth_of_the_gap(plane):
    options = {"seed": 0, "C": 1.0, "tol": 1e-2}
    dual = mtsvm.svm_seconds(plane, precision="dual", **options)
    assert dual.values["relative_gap"] <= 1e-3


@pytest.mark.slow
def test_the_precision_of_the_text_is_primal_for_ascent_and_dual_for_kernels(
    plane, set_clock
):
    options = {"seed": 0, "C": 100.0, "tol": 1e-3, "clock": "processor"}
    for solver, same in (("paper", "primal"), ("kernel", "dual")):
        seconds = {}
        for precision in ("text", "primal", "dual"):
            set_clock(lambda look: 1e-3 * look)
            analysis = mtsvm.svm_seconds(
                plane, solver=solver, precision=precision, **options
            )
            seconds[precision] = analysis.values["seconds_to_precision"]
        assert seconds["primal"] != seconds["dual"]
        assert seconds["text"] == seconds[same]


def test_the_exponent_is_the_slope_of_log_seconds_over_log_rows(plane, set_clock):
    set_clock(lambda look: 1e-3 * look)
    options = {**SHORT, "solver": "paper", "fractions": [0.1, 0.4, 1.0]}
    analysis = mtsvm.svm_scaling(plane, **options)
    curve = analysis.curves["seconds to precision"]
    slope = np.polyfit(np.log(curve.x), np.log(curve.y), 1)[0]
    assert analysis.values["exponent"] == pytest.approx(slope)


def test_a_kernel_svm_is_expected_to_take_four_times_as_long_for_twice_the_rows(
    plane, set_clock
):
    set_clock(lambda look: float(look))
    half = mtsvm.svm_seconds(plane, solver="kernel", fraction=0.5, **SHORT)
    seconds = 3 * half.values["seconds_run"]
    options = {**SHORT, "solver": "kernel", "fractions": [0.5, 1.0]}
    analysis = mtsvm.svm_scaling(plane, seconds=seconds, **options)
    assert analysis.values["largest_n"] == 150
    assert "were not tried" in analysis.lines[-1]


def test_differences_are_relative_to_the_optimum_and_those_until_the_printed_algorithm(
    plane,
):
    analysis = mtsvm.svm_convergence(plane, seed=0, solver="paper", C=1.0)
    values = analysis.values
    relative = values["function_difference"] / abs(values["optimum"])
    assert values["relative_difference"] == pytest.approx(relative)
    curve = analysis.curves["function difference"]
    until = np.array(curve.x) <= values["dcd_seconds"]
    expected = np.array(curve.y)[until].min()
    assert values["difference_at_dcd_time"] == pytest.approx(expected)


def test_no_run_comes_nearer_than_the_accuracy_of_the_optimum(plane, monkeypatch):
    exact = mtsvm.svm_convergence(plane, seed=0, solver="paper", C=1.0).values
    optimum = exact["optimum"]
    reference = mtsvm_runs.ReferenceOptimum(optimum, 1e-3 * optimum, "")
    monkeypatch.setattr(mtsvm, "optimum_of", lambda *args: reference)
    values = mtsvm.svm_convergence(plane, seed=0, solver="paper", C=1.0).values
    assert values["seconds_to_1e-2"] > 0
    assert np.isnan(values["seconds_to_1e-4"])


def test_before_the_first_certificate_the_model_is_zero(plane, set_clock):
    # LIBSVM needs a second for each run, the printed algorithm milliseconds for all.
    set_clock(float, "wall")
    values = mtsvm.svm_convergence(
        plane,
        seed=0,
        solver="mtk-intercept",
        C=1.0,
        tolerances=[1.0, 0.1],
        seconds=1e9,
        reference_seconds=1e9,
    ).values
    optimum = values["optimum"]
    assert values["dcd_seconds"] < 1
    # The zero model has the dual objective 0 and the primal one C n.
    assert values["difference_at_dcd_time"] == pytest.approx(optimum)
    primal = values["primal_difference_at_dcd_time"]
    assert primal == pytest.approx(plane.n_samples - optimum)


@pytest.mark.parametrize("solver", ["block", "paper", "kernel"])
def test_runs_are_precise_if_the_objective_is_near_zero(solver):
    # Two distant classes in large units: the smallest objective is 1e-6 of that of the
    # zero model, so a gap can be small only relative to the latter.
    rng = np.random.default_rng(0)
    y = np.tile([-1.0, 1.0], 30)
    X = 1000 * (y[:, None] + 0.1 * rng.normal(size=(60, 2)))
    data = TaskData.from_list([X[:30], X[30:]], [y[:30], y[30:]])
    links = couple_tasks(check_similarity("all", data.tasks))
    result = mtsvm_runs.run_solver(solver, data, links, 1e6, 1e-5, 0, 60.0)
    assert mtsvm_runs.certificates(result)[-1].gap <= 1e-5


def test_libsvm_is_timed_by_the_given_clock(plane, set_clock):
    # A processor clock that never advances
    set_clock(lambda look: 5.0)
    data = plane.taskdata()
    links = couple_tasks(check_similarity("all", data.tasks))
    sweep = mtsvm_runs.ToleranceSweep(data, links, 1.0, 60.0, "processor")
    sweep.run_tolerances([0.1])
    assert sweep.remaining_seconds == 60.0
    assert {run.seconds for run in sweep.runs} == {0.0}


def test_unknown_solvers_are_rejected(plane):
    with pytest.raises(ValueError, match="solver"):
        mtsvm.svm_seconds(plane, seed=0, solver="smo")


SMALL = {
    "target": "human",
    "target_rows": 30,
    "other_rows": 80,
    "test_rows": 60,
    "degree": 3,
}


def test_transfer_compares_three_models_on_the_same_rows(strings):
    results = {
        m: svm_transfer(strings, seed=3, model=m, folds=2, **SMALL) for m in MODELS
    }
    for measurement in results.values():
        assert set(measurement.values) == names(svm_transfer)
        assert measurement.values["auc_target"] == measurement.per_task["auc"][1]
        assert 0.4 < measurement.values["auc"] <= 1
    assert results["independent"].values["coupling"] == 0
    assert results["pooled"].values["coupling"] == 1e6
    assert results["multi-task"].values["coupling"] in (0.1, 1.0, 10.0)


@pytest.fixture
def use_model(monkeypatch):
    """Return a function that puts another model in place of `GraphSVC`."""
    return lambda model: monkeypatch.setattr(transfer, "GraphSVC", model)


def test_transfer_selects_parameters_on_rows_that_no_inner_fit_has_seen(
    strings, use_model
):
    steps = []

    class Recording(GraphSVC):
        def fit(self, X, y, **more):
            steps.append(("fit", set(X.tolist())))
            return super().fit(X, y, **more)

        def decision_function(self, X, **more):
            steps.append(("test", set(X.tolist())))
            return super().decision_function(X, **more)

    use_model(Recording)
    options = {**SMALL, "costs": (0.1, 1.0), "model": "pooled"}
    svm_transfer(strings, seed=3, folds=2, **options)
    # Two candidates in two folds each, then the selected one on all training rows.
    assert [kind for kind, _ in steps] == ["fit", "test"] * 5
    *inner_steps, (_, train), (_, test) = steps
    assert not train & test
    for step in range(0, len(inner_steps), 2):
        fitted = inner_steps[step][1]
        held_out = inner_steps[step + 1][1]
        assert not fitted & held_out
        assert fitted | held_out == train


def test_transfer_selects_by_the_auc_of_the_target_task(strings, use_model):
    labels = dict(zip(strings.X.tolist(), strings.y, strict=True))

    class Oracle(GraphSVC):
        """Ranks the target task rightly if C is small, and the other one otherwise."""

        def fit(self, X, y, **more):
            return self

        def decision_function(self, X, *, task_id):
            y = np.array([labels[text] for text in X.tolist()])
            is_right = (task_id == 1) == (self.C < 1)
            return np.where(is_right, y, -y)

    use_model(Oracle)
    options = {**SMALL, "costs": (1.0, 0.1), "model": "pooled"}
    values = svm_transfer(strings, seed=3, folds=2, **options).values
    assert (values["C"], values["auc_target"], values["auc"]) == (0.1, 1.0, 0.5)


def test_transfer_holds_rows_out_and_balances_classes(strings):
    train, test = sample_rows(strings, 1, 30, 80, 60, seed=3)
    assert not set(train) & set(test)
    assert np.bincount(strings.task_id[train]).tolist() == [80, 30]
    assert np.bincount(strings.task_id[test]).tolist() == [60, 60]
    assert (strings.y[train][-30:] > 0).sum() == 15
    other, _ = sample_rows(strings, 1, 30, 80, 60, seed=4)
    assert set(other) != set(train)
    larger, _ = sample_rows(strings, 1, 60, 80, 60, seed=3)
    assert set(train) <= set(larger)


@pytest.mark.parametrize(
    "change", [{"model": "none"}, {"target": "yeast"}, {"other_rows": 10**4}]
)
def test_transfer_rejects_invalid_data(strings, change):
    with pytest.raises(ValueError, match=r"unknown model|too few to train"):
        svm_transfer(strings, seed=0, **{**SMALL, **change})


@pytest.mark.parametrize(("name", "n_curves"), [("fig1", 8), ("fig2", 8), ("fig3", 1)])
def test_published_curves_are_read(name, n_curves):
    curves = read_curves(f"mtsvm/published/{name}.yaml")["curves"]
    assert len(curves) == n_curves
    assert all(min(curve["x"]) > 0 for curve in curves)


#: Loss of margins, and minus C times its conjugate at -a / C (with its domain in a).
LOSSES = {
    "hinge": (lambda t: cp.pos(1 - t), lambda a, C: cp.sum(a), 1.0),
    "squared hinge": (
        lambda t: cp.square(cp.pos(1 - t)),
        lambda a, C: cp.sum(a) - cp.sum_squares(a) / (4 * C),
        np.inf,
    ),
    "logistic": (
        lambda t: cp.logistic(-t),
        lambda a, C: C * cp.sum(cp.entr(a / C) + cp.entr(1 - a / C)),
        1.0,
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_the_dual_10_has_the_optimum_of_the_primal_5(loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((24, 3))
    y = rng.choice([-1.0, 1.0], 24)
    tasks = np.repeat(np.arange(3), 8)
    laplacian = np.array([[2.0, -1, -1], [-1, 2, -1], [-1, -1, 2]])
    C = 0.7
    value, conjugate, upper = LOSSES[loss]
    metric = np.kron(np.eye(3) + laplacian, np.eye(3))
    psi = np.zeros((24, 9))
    for row, task in enumerate(tasks):
        psi[row, 3 * task : 3 * task + 3] = X[row]
    w = cp.Variable(9)
    margins = cp.multiply(y, psi @ w)
    primal = cp.quad_form(w, metric) / 2 + C * cp.sum(value(margins))
    lowest = cp.Problem(cp.Minimize(primal)).solve()
    alpha = cp.Variable(24, nonneg=True)
    inverse = np.linalg.inv(metric)
    square = cp.quad_form(psi.T @ cp.multiply(y, alpha), (inverse + inverse.T) / 2)
    limits = [alpha <= C * upper] if np.isfinite(upper) else []
    highest = cp.Problem(cp.Maximize(conjugate(alpha, C) - square / 2), limits).solve()
    assert highest == pytest.approx(lowest, rel=1e-4)


def test_the_conjugates_of_table_1_are_the_suprema_that_define_them():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(4)
    w = cp.Variable(4)
    factor = rng.standard_normal((4, 4))
    B = factor @ factor.T + np.eye(4)
    suprema = {
        "form": (cp.quad_form(w, B) / 2, x @ np.linalg.solve(B, x) / 2),
        "norm": (cp.square(cp.norm(w, 3)) / 2, np.linalg.norm(x, 1.5) ** 2 / 2),
    }
    for value, printed in suprema.values():
        supremum = cp.Problem(cp.Maximize(x @ w - value)).solve()
        assert supremum == pytest.approx(printed, rel=1e-4)
    margins = np.linspace(-50, 50, 10_001)
    hinge = np.maximum(0, 1 - margins)
    for u in (-1.0, -0.4, 0.0):
        assert np.max(u * margins - hinge) == pytest.approx(u, abs=1e-9)
    for u in (-1.2, 0.2):
        assert np.max(u * margins - hinge) > 5


@pytest.mark.parametrize("item", ["fig1", "fig2", "orders"])
def test_our_faster_kernel_solver_decides_no_claim_about_that_of_the_paper(item):
    readings = load_experiment(f"mtsvm/{item}").spec.readings
    reading = readings["our kernel solver without an intercept"]
    assert not reading.plausible
