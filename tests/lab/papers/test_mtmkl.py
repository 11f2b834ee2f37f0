"""Experiments on multi-task MKL: files, splits, analyses."""

import dataclasses
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from mtlrun.data.sets.load import load_dataset
from mtlrun.data.splits import paper_partition, split_rows, task_partition
from mtlrun.engine.run import run
from mtlrun.errors import DataError
from mtlrun.estimators.mkl import GroupMKLClassifier
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.plan import plan
from mtlrun.lab.report.build import build_report
from mtlrun.papers.mtmkl.algorithms import algorithm, algorithm_2, iteration_cost
from mtlrun.papers.mtmkl.audit import DOMINATED, read_published, table_audit
from mtlrun.papers.mtmkl.common import (
    CLAIMED_GROUP,
    accuracy,
    fit_candidates,
    make_machines,
    split_parts,
)
from mtlrun.papers.mtmkl.protocols import (
    N_OUTER_ITERATIONS,
    protocols,
    repaired,
    solutions_of_task,
)
from mtlrun.papers.mtmkl.sharing import mean_of_named, sharing, tasks_together
from mtlrun.papers.mtmkl.theory import theorem_1
from mtlrun.papers.mtmkl.update import MAX_ITER, repaired_update
from mtlrun.papers.mtmkl.weights import count_groups, kernel_weights
from mtlrun.solvers.mkl.kernels import make_kernels
from mtlrun.solvers.mkl.machines import GramStore
from mtlrun.solvers.mkl.mkl import Coupling

METHODS = ["STL", "MTL", "CMTL", "Whom", "FlexClus", "CoClus", "MeTaG", "Proposed"]
KERNELS = ("linear", "gaussian(1)")
#: Costs of which the validation part prefers another one than the test part.
COSTS = (0.1, 1.0, 100.0)


@pytest.fixture(scope="module")
def plane():
    return load_dataset("gauss2d", n=240, tasks=4, angle=2.0)


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["smoke", "demo", "quick", "full"])
def test_table_2_consists_of_jobs_of_table_1(profile):
    table1, table2 = (
        load_experiment(f"mtmkl/{name}", profile=profile).spec
        for name in ("table1", "table2")
    )
    assert [m.label for m in table1.methods] == METHODS
    for section in (
        "datasets",
        "split",
        "metrics",
        "features",
        "seed",
        "selection",
        "grids",
        "sweep",
        "methods",
    ):
        assert getattr(table1, section) == getattr(table2, section)
    assert [c.id for c in table1.claims][:3] == ["mtmkl-1", "mtmkl-9", "mtmkl-10"]
    assert [c.id for c in table2.claims][:2] == [
        "mtmkl-2",
        "mtmkl-2-clustered",
    ]
    assert table1.statistics.control == table2.statistics.control == "Proposed"


def test_the_quick_profile_has_few_values_per_parameter_and_three_runs():
    spec = load_experiment("mtmkl/table1", profile="quick").spec
    assert {name: len(values) for name, values in spec.grids.items()} == {
        **dict.fromkeys(("one", "two", "three", "clusters"), 5),
        **dict.fromkeys(("four", "few", "mean", "within"), 3),
    }
    assert (spec.split.trials, spec.sweep.values) == (3, [0.1, 0.2, 0.5])
    assert [d.name for d in spec.datasets] == [
        "Robot",
        "Vehicle",
        "Image",
        "Pen",
        "MNIST",
        "Landmine",
        "Letter",
    ]
    metrics_by_dataset = {d.name: d.metrics for d in spec.datasets if d.metrics}
    assert metrics_by_dataset == {"Landmine": ["balanced_accuracy", "auc"]}
    accuracies, other_metrics = (
        [r for r in spec.reference if (r.quantity == "accuracy") == is_accuracy]
        for is_accuracy in (True, False)
    )
    assert not any(r.dataset.startswith("Landmine") for r in accuracies)
    assert {r.dataset for r in other_metrics} <= {
        f"Landmine (training part {part})" for part in (0.1, 0.2, 0.5)
    }


def test_the_published_cells_are_those_of_the_tables():
    spec = load_experiment("mtmkl/table1").spec
    reference = {(r.dataset, r.method): r.value for r in spec.reference}
    for size in DOMINATED:
        for (dataset, method), value in read_published(size).accuracy.stack().items():
            assert reference[
                f"{dataset} (training part {size / 100:g})", method
            ] == pytest.approx(value / 100)


def test_the_balanced_split_keeps_an_example_on_one_side_in_all_tasks():
    digits = load_dataset(
        "digits",
        tasks={"make": "one-vs-one", "classes": ["1", "3", "8"], "per_class": 30},
    )
    train, validation, test = split_rows(digits, "balanced", train=0.2, trial=0, seed=5)
    assert sorted([*train, *test, *validation]) == list(range(digits.n_samples))
    rows = digits.source["row"]
    for a, b in ((train, test), (train, validation), (test, validation)):
        assert not set(rows[a]) & set(rows[b])
    assert np.bincount(digits.source["label"][train]).tolist() == [
        12,
        12,
        12,
    ]  # 6 rows, each in two tasks


def test_the_weights_of_tasks_that_gain_from_it_are_the_same(plane):
    strong = kernel_weights(plane, seed=0, train=0.3, kernels=KERNELS, lam=(100.0,))
    assert strong.values["groups"] == 1
    assert strong.values["off_line"] <= 1e-6
    assert np.isnan(
        [strong.values["claimed_distance"], strong.values["others_distance"]]
    ).all()
    assert strong.matrices["kernel weights"].columns == list(KERNELS)
    assert strong.lines[0].startswith("tasks with the same kernel weights")
    assert set(strong.values) == set(kernel_weights.declaration.quantities)


def test_groups_are_chains_of_close_weights():
    theta = np.array([[0.5, 0.5], [0.0, 1.0], [0.51, 0.49], [0.52, 0.48]])
    assert count_groups(theta) == 2
    assert count_groups(theta[[0, 3]]) == 2


def test_the_printed_algorithm_cycles_and_the_corrected_one_ends(plane):
    printed, corrected = (
        algorithm(plane, seed=0, variant=variant, train=0.3, lam=0.1)
        for variant in ("paper", "corrected")
    )
    assert printed.values["cycle_length"] >= 2
    assert printed.values["gap"] > 0.01
    curve = printed.curves["objective"]
    (start,) = curve.marks.values()
    cycle = [y for x, y in zip(curve.x, curve.y, strict=True) if x >= start]
    assert len(cycle) == printed.values["cycle_length"]
    spread = (max(cycle) - min(cycle)) / min(cycle)
    assert printed.values["cycle_spread"] == pytest.approx(spread)
    assert printed.values["best_objective"] == min(curve.y)
    assert "cycles with period" in printed.lines[0]
    assert corrected.values["gap"] <= 1e-3
    assert corrected.values["cycle_length"] == 0
    assert corrected.values["objective"] <= printed.values["best_objective"]
    assert set(printed.values) == set(algorithm.declaration.quantities)


def test_the_audit_finds_inconsistencies(tmp_path):
    summary = run(
        plan(load_experiment("mtmkl/audit", profile="smoke"), output=tmp_path)
    )
    assert (summary.n_ok, summary.failures) == (3, [])
    report = build_report(tmp_path / "mtmkl" / "audit" / "smoke")
    assert {c.id: c.verdict for c in report.claims} == {
        "mtmkl-5": "not confirmed",
        "mtmkl-2-published": "partly",
    }
    values = {
        size: table_audit(None, seed=0, size=size).values for size in (10, 20, 50)
    }
    assert [v["reproduced"] for v in values.values()] == [0, 6, 6]
    assert [v["rejections"] for v in values.values()] == [3, 6, 5]
    assert values[10]["printed_rejections"] == 2
    assert set(values[10]) == set(table_audit.declaration.quantities)


def test_the_authors_protocol_reports_its_best_test_accuracy(plane):
    analysis = protocols(
        plane,
        seed=1,
        train=0.2,
        C=(1.0,),
        lam=(0.0, 0.1),
        task_C=(0.1, 1.0),
        kernels=KERNELS,
    )
    curve = analysis.curves["test accuracy"].y
    assert len(curve) == N_OUTER_ITERATIONS
    assert (
        analysis.values["authors"]
        == max(curve)
        >= analysis.values["authors_last"]
        == curve[-1]
    )
    assert analysis.values["excess"] == pytest.approx(
        analysis.values["authors"] - analysis.values["clean"]
    )
    assert analysis.values["clean"] <= analysis.values["clean_best_on_test"]
    assert set(analysis.values) == set(protocols.declaration.quantities)


@pytest.mark.parametrize(
    ("analysis", "options"),
    [(protocols, {"C": (1.0,), "lam": (0.1,)}), (repaired, {"mu": (0.1,)})],
)
def test_labels_of_test_rows_decide_nothing(plane, analysis, options):
    _, _, test = paper_partition(plane, 0.2, 1)
    opposite = plane.y.copy()
    opposite[test] *= -1
    curves = []
    for y in (plane.y, opposite):
        data = dataclasses.replace(plane, y=y)
        result = analysis(
            data, seed=1, train=0.2, task_C=(0.1, 1.0), kernels=KERNELS, **options
        )
        curves.append(np.array(result.curves["test accuracy"].y))
    np.testing.assert_allclose(curves[1], 1 - curves[0])


def test_the_repaired_authors_code_reports_its_best_iterate_including_the_first(
    plane,
):
    options = {
        "train": 0.2,
        "features": "none",
        "mu": (0.1, 1000.0),
        "task_C": (0.1, 1.0),
        "kernels": KERNELS,
    }
    result = repaired(plane, seed=1, **options)
    accuracies = result.curves["test accuracy"].y
    assert len(accuracies) == N_OUTER_ITERATIONS
    assert (
        result.values["reported"]
        == max(accuracies)
        >= result.values["first"]
        == accuracies[0]
    )
    assert result.values["gain"] == pytest.approx(
        result.values["reported"] - accuracies[0]
    )
    assert result.values["off_equal_large"] < result.values["off_equal_small"]
    assert set(result.values) == set(repaired.declaration.quantities)
    # The first iterate: one machine per task on the mean kernel, C = 1.
    train, _, test = paper_partition(plane, 0.2, 1)
    ids = plane.task_id
    right = []
    for t in range(plane.n_tasks):
        rows, others = train[ids[train] == t], test[ids[test] == t]
        grams = [
            np.mean(
                [k(plane.X[a], plane.X[rows]) for k in make_kernels(KERNELS)], axis=0
            )
            for a in (rows, others)
        ]
        machine = SVC(C=1.0, kernel="precomputed").fit(grams[0], plane.y[rows])
        right.append(np.mean(machine.predict(grams[1]) == plane.y[others]))
    assert result.values["first"] == pytest.approx(np.mean(right), abs=0.005)


def test_algorithm_2_runs_on_the_slopes_at_equal_weights(plane):
    printed, corrected = (
        algorithm_2(plane, seed=0, variant=v, kernels=KERNELS)
        for v in ("paper", "corrected")
    )
    assert printed.values["residual"] > 0.01
    assert printed.values["largest"] > 1e9
    assert corrected.values["residual"] < 0.05
    assert corrected.values["iterations"] < 200
    sizes = corrected.curves["largest weight"]
    assert (sizes.x[0], sizes.x[-1]) == (1.0, corrected.values["iterations"])
    assert sizes.y[-1] == corrected.values["largest"]
    assert abs(corrected.values["over_best"]) < 0.1
    assert set(corrected.values) == set(algorithm_2.declaration.quantities)
    with pytest.raises(ValueError, match="variant"):
        algorithm_2(plane, seed=0, variant="other", kernels=KERNELS)


def test_the_end_of_algorithm_2_is_relative_to_the_best_objective(plane):
    # With tiny costs all multipliers are at their bound C: objectives grow with C^2.
    small, large = (
        algorithm_2(plane, seed=0, variant="corrected", kernels=KERNELS, C=C).values
        for C in (1e-5, 2e-5)
    )
    assert small["over_best"] != 0
    assert small["over_best"] == pytest.approx(large["over_best"], rel=1e-3)


def test_the_repaired_update_moves_weights_to_equal_ones_and_does_not_minimize():
    slopes = -np.random.default_rng(0).uniform(size=(5, 4))
    start = np.full((5, 4), 0.25)
    strong, n_iter = repaired_update(start, slopes, 1000.0)
    assert n_iter < MAX_ITER
    assert np.abs(strong - 0.25).max() < 0.02
    best, _ = Coupling(1000.0, 5, 4).step(start, slopes, np.zeros((5, 1)), 1e-6)
    assert (
        np.abs(best - np.eye(4)[slopes.sum(axis=0).argmin()]).max() < 1e-3
    )  # One kernel for all tasks
    weak, _ = repaired_update(start, slopes, 0.1)
    assert weak.min() >= 0
    assert weak.sum(axis=1) == pytest.approx(1, abs=0.05)
    assert (weak.argmax(axis=1) == slopes.argmin(axis=1)).all()


def test_a_machine_without_bound_variables_is_reused_for_larger_costs():
    rng = np.random.default_rng(0)
    X, costs = rng.normal(size=(30, 2)), (0.01, 1.0, 1e3, 1e5)
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    grams = GramStore(make_kernels(KERNELS), [X], 1e9)

    def machines():
        return {C: make_machines(grams, [y], C, 1e-8) for C in costs}

    shared, theta = machines(), np.full(2, 0.5)
    solutions = solutions_of_task(shared, 0, theta, costs)
    assert [shared[C].n_fits > 0 for C in costs] == [True, True, True, False]
    for C, machine, point in zip(costs, machines().values(), solutions, strict=True):
        assert point.low == pytest.approx(machine.solve(0, theta).low, rel=1e-6), C


def test_random_splits_are_drawn_task_by_task():
    digits = load_dataset(
        "digits",
        tasks={"make": "one-vs-one", "classes": ["1", "3", "8"], "per_class": 30},
    )
    parts = task_partition(digits, 0.2, 5)
    assert sorted(np.concatenate(parts)) == list(range(digits.n_samples))
    assert [np.bincount(digits.task_id[part]).tolist() for part in parts] == [
        [12] * 3,
        [24] * 3,
        [24] * 3,
    ]
    rows = [set(digits.source["row"][part]) for part in parts]
    assert rows[0] & rows[2], "an example is in different parts of two tasks"
    analysis = protocols(
        digits,
        seed=5,
        train=0.2,
        C=(1.0,),
        lam=(0.1,),
        task_C=(1.0,),
        kernels=KERNELS,
        split="random",
    )
    assert analysis.values["clean"] > 0.9
    with pytest.raises(ValueError, match="split must be"):
        protocols(digits, seed=5, split="rows")


def test_sharing_matches_models_fitted_one_by_one(plane):
    analysis = sharing(
        plane,
        seed=20,
        train=0.2,
        features="standardize",
        C=COSTS,
        lam=(0.1,),
        kernels=KERNELS,
    )
    train, validation, test = paper_partition(plane, 0.2, 20)
    X = StandardScaler().fit(plane.X[train]).transform(plane.X)

    def accuracy(model, rows):
        right = model.predict(X[rows], task_id=plane.task_id[rows]) == plane.y[rows]
        return np.mean([right[plane.task_id[rows] == t].mean() for t in range(4)])

    def chosen(lams, kernels):
        models = [
            GroupMKLClassifier(C=C, lam=lam, kernels=k)
            for k in kernels
            for C in COSTS
            for lam in lams
        ]
        scores = []
        for model in models:
            model.fit(X[train], plane.y[train], task_id=plane.task_id[train])
            scores.append((accuracy(model, validation), accuracy(model, test)))
        return max(scores, key=lambda score: score[0])[1], max(
            score[1] for score in scores
        )

    values = analysis.values
    assert values["stl"] == pytest.approx(chosen([0.0], [KERNELS])[0], abs=0.5 / 96)
    assert values["mtl"] == pytest.approx(chosen([np.inf], [KERNELS])[0], abs=0.5 / 96)
    assert values["one_kernel"] == pytest.approx(
        chosen([0.0], [[k] for k in KERNELS])[0], abs=0.5 / 96
    )
    assert values["best_on_test"] == pytest.approx(
        chosen([0.0, 0.1, np.inf], [KERNELS])[1], abs=0.5 / 96
    )
    # The candidate chosen among separate and common weights, of equal ones the common.
    limit = chosen([np.inf, 0.0], [KERNELS])[0]
    assert values["gain"] == pytest.approx(values["proposed"] - limit)
    assert values["largest_gain"] == pytest.approx(values["best_on_test"] - limit)
    assert np.isnan(values["gain_named"]), "no task has a name of the paper"
    assert values["rows_per_task"] == 12
    assert set(values) == set(sharing.declaration.quantities)


def test_the_gain_of_the_named_tasks_leaves_the_others_out():
    names = ["c/e", *CLAIMED_GROUP]
    dataset = SimpleNamespace(tasks=names)
    gains = np.array([5.0, 1.0, 2.0, 3.0])
    assert mean_of_named(gains, dataset) == 2.0


def test_groups_of_tasks_need_their_kernel():
    data = load_dataset("simulated-kernel-groups", rows=400, noise=0.0)
    for kernel, good in (("linear", slice(0, 4)), ("polynomial(2)", slice(4, 8))):
        model = GroupMKLClassifier(C=10.0, kernels=[kernel]).fit(
            data.X, data.y, task_id=data.task_id
        )
        right = model.predict(data.X, task_id=data.task_id) == data.y
        accuracy = np.array([right[data.task_id == t].mean() for t in range(8)])
        assert accuracy[good].min() > 0.95
        assert np.delete(accuracy, np.r_[good]).max() < 0.8


def test_tasks_learned_together_match_models_of_a_few_tasks(plane):
    options = {
        "seed": 20,
        "train": 0.2,
        "C": COSTS,
        "lam": (0.1, 10.0),
        "kernels": KERNELS,
    }
    values = tasks_together(plane, together=2, **options).values
    train, validation, test = paper_partition(plane, 0.2, 20)
    halves = np.array_split(np.random.default_rng(20).permutation(4), 2)
    scores = {}
    for C, lam in [(c, s) for c in options["C"] for s in options["lam"]]:
        right = {}
        for half in halves:
            rows = train[np.isin(plane.task_id[train], half)]
            ids = np.unique(plane.task_id[rows], return_inverse=True)[1]
            model = GroupMKLClassifier(C=C, lam=lam, kernels=KERNELS).fit(
                plane.X[rows], plane.y[rows], task_id=ids
            )
            for t in half:
                for name, part in (("validation", validation), ("test", test)):
                    task_part = part[plane.task_id[part] == t]
                    predicted = model.predict(
                        plane.X[task_part],
                        task_id=np.full(
                            len(task_part), np.sort(half).tolist().index(t)
                        ),
                    )
                    right[name, t] = np.mean(predicted == plane.y[task_part])
        scores[C, lam] = [
            np.mean([right[name, t] for t in range(4)])
            for name in ("validation", "test")
        ]
    assert values["accuracy"] == pytest.approx(
        scores[values["chosen_C"], values["chosen_lam"]][1], abs=0.5 / 96
    )
    assert (
        scores[values["chosen_C"], values["chosen_lam"]][0]
        >= max(s[0] for s in scores.values()) - 0.5 / 96
    )
    assert values["together"] == 2
    first = {**options, "C": COSTS[:1], "lam": (0.1,)}
    assert (
        tasks_together(plane, together=3, **first).values["together"] == 2
    )  # Two groups of at most three tasks
    assert tasks_together(plane, together=99, **first).values["together"] == 4


def test_the_bound_of_theorem_1_is_below_its_target(plane):
    result = theorem_1(
        plane, seed=0, train=0.2, features="standardize", kernels=KERNELS, draws=4000
    )
    train, _, _ = paper_partition(plane, 0.2, 0)
    X = StandardScaler().fit(plane.X[train]).transform(plane.X)
    rng, total = np.random.default_rng(8), 0.0
    for t in range(4):
        rows = X[train][plane.task_id[train] == t]
        units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        apart = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
        gram = (units @ units.T + np.exp(-apart / 2)) / 2
        signs = rng.choice([-1, 1], size=(4000, len(rows)))
        # The supremum over ||w|| <= 1 is the norm of the signed sum of the rows'
        # images.
        total += np.sqrt(((signs @ gram) * signs).sum(axis=1)).mean()
    assert result.values["complexity"] == pytest.approx(total / len(train), rel=0.02)
    gamma = result.values["fails_below"]
    assert gamma > 0.1, "at gamma = 0 the bound is 0"
    assert np.sqrt(np.sqrt(3) * gamma * 2 / len(train)) == pytest.approx(
        result.values["complexity"]
    )
    assert result.values["gamma_most"] == pytest.approx(
        np.sqrt(8)
    )  # Two tasks at one corner, two at the other
    ratio = result.curves["bound over complexity"]
    assert (ratio.y[0], ratio.marks["equal"]) == (0.0, gamma)
    assert ratio.y[-1] == pytest.approx(
        result.values["bound_at_most"] / result.values["complexity"]
    )


def test_without_a_penalty_weights_match_separate_tasks_and_groups_lie_between(
    plane,
):
    result = kernel_weights(
        plane, seed=1, train=0.3, kernels=KERNELS, C=(1.0,), lam=(1e-6, 0.3, 1e4)
    )
    assert result.values["off_alone"] < 1e-3
    assert result.values["groups_strong"] == 1
    counts = result.curves["groups"].y
    assert result.values["groups_between"] == sum(1 < n < 4 for n in counts)


# Two other candidates are as good with the first seed, none with the second one.
@pytest.mark.parametrize(("seed", "n_ties"), [(3, 2), (22, 0)])
def test_weights_are_those_of_the_best_candidate_on_the_validation_part(
    plane, seed, n_ties
):
    C = (0.01, 1.0)
    lam = (1e-6, 1e-5, 1e4)
    on_validation, on_test = split_parts(plane, 0.2, seed)
    scores = {}
    n_groups = {}
    for candidate, model in fit_candidates(
        on_validation, C, lam[::-1], KERNELS, tol=1e-4
    ):
        scores[candidate] = accuracy(on_validation, model)
        n_groups[candidate] = count_groups(model.theta_)
    best = max(product(C, lam), key=scores.__getitem__)
    tied = [n_groups[c] for c, score in scores.items() if score == scores[best]]
    values = kernel_weights(
        plane, seed=seed, train=0.2, kernels=KERNELS, C=C, lam=lam
    ).values
    assert (values["chosen_C"], values["chosen_lam"]) == best
    model = on_test.fit(GroupMKLClassifier(*best, kernels=list(KERNELS), tol=1e-4))
    assert values["accuracy"] == accuracy(on_test, model) != scores[best]
    assert values["ties"] == len(tied) - 1 == n_ties
    assert (values["groups_fewest"], values["groups_most"]) == (min(tied), max(tied))


@pytest.mark.parametrize(
    "measure",
    [
        kernel_weights,
        algorithm,
        protocols,
        sharing,
        tasks_together,
        theorem_1,
    ],
)
def test_analyses_need_ragged_tasks(measure):
    with pytest.raises(DataError, match="share their rows"):
        measure(load_dataset("digits"), seed=0)


def test_shared_weights_of_three_tasks_need_other_tasks_for_comparison(plane):
    named = dataclasses.replace(plane, tasks=["a/g", "a/o", "g/y", "c/e"])
    same = kernel_weights(
        named, seed=0, train=0.3, kernels=KERNELS, lam=(100.0,)
    ).values
    assert same["claimed_distance"] <= 0.02
    assert same["others_distance"] <= 0.02, "all tasks are equal: no group of three"
    theta = kernel_weights(named, seed=0, train=0.3, kernels=KERNELS, lam=(0.001,))
    weights = np.array(theta.matrices["kernel weights"].values)
    nearest = min(np.linalg.norm(weights[3] - weights[t]) for t in range(3))
    assert theta.values["others_distance"] == pytest.approx(nearest)


def test_lemma_1_holds_for_symmetric_matrices_and_not_for_others():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, 6, 6))
    signs = np.array(list(product([-1.0, 1.0], repeat=6)))

    def sides(A, B):
        forms = [np.einsum("si,ij,sj->s", signs, K, signs) for K in (A, B)]
        printed = np.trace(A) * np.trace(B) + 2 * (np.trace(A @ B) - np.trace(A * B))
        return np.mean(forms[0] * forms[1]), printed

    mean, printed = sides(A + A.T, B)
    assert mean == pytest.approx(printed, rel=1e-12)
    mean, printed = sides(A, B)
    assert mean != pytest.approx(printed, rel=1e-3)


def test_the_cost_of_an_iteration_has_an_exponent_per_part(plane):
    result = iteration_cost(plane, seed=0, tasks=(2, 4), rows=(10, 20), kernels=KERNELS)
    assert set(result.values) == set(iteration_cost.declaration.quantities)
    assert np.all(np.isfinite(list(result.values.values())))
    assert all(len(curve.x) == 2 for curve in result.curves.values())
