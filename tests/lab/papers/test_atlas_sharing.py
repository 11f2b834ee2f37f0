"""The second edition of the atlas: paired learners, means over tables, its files."""

import csv
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from mtlrun import reproduce
from mtlrun.comparison.verdict import judge
from mtlrun.data.sets.cards import load_card
from mtlrun.data.sets.simulate import simulate_families
from mtlrun.errors import ConfigError, DataError
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.report.run import results_of
from mtlrun.lab.results import compact_run
from mtlrun.papers.atlas import sharing as analyses
from mtlrun.papers.atlas.mixed import mixed_mean
from mtlrun.papers.atlas.pairs import (
    COLUMNS,
    DECISIONS,
    LEVELS,
    SELECTED,
    error_table,
    evaluate,
    make_setting,
    pairs,
    verdict,
)
from mtlrun.papers.atlas.trees import (
    LEARNING_RATE,
    MAX_LEAVES,
    MAX_ROUNDS,
    MIN_LEAF_ROWS,
    StoppedTreesClassifier,
    StoppedTreesRegressor,
    WithoutTask,
)
from mtlrun.stats import holm
from mtlrun.utils.io import published_path

LINEAR = {
    "IndependentRidge": "none",
    "HierarchicalMTL": "partial",
    "PooledRidge": "full",
}


def families(family, **options):
    return simulate_families(
        family=family, **{"rows": 60, "tasks": 8, "d": 4, **options}
    )


def measure(data, **options):
    settings = {"rows": [6], "folds": 3, "search": 2, "sharing": LINEAR, **options}
    return pairs(data, seed=0, learner="linear", **settings)


def errors(result):
    lines = result.tables["errors"]["rows"]
    rows = [dict(zip(COLUMNS, line, strict=True)) for line in lines]
    return {(row["rows"], row["method"], row["sharing"]): row["error"] for row in rows}


# ---------------------------------------------------------------- paired learners


def test_partial_sharing_helps_tasks_that_differ_slightly():
    values = measure(families("slopes")).values
    assert values["partial"] > 0.05


def test_full_sharing_harms_unrelated_tasks():
    values = measure(families("unrelated"), rows=[40]).values
    assert values["full"] < -0.1 < values["partial"]


def test_every_method_has_a_line_and_every_level_a_selected_one():
    predicted = errors(measure(families("equal")))
    expected = {(6, method, level) for method, level in LINEAR.items()}
    assert set(predicted) == expected | {(6, SELECTED, level) for level in LEVELS}
    assert (
        predicted[6, SELECTED, "partial"] == predicted[6, "HierarchicalMTL", "partial"]
    )


def test_numbers_of_rows_that_most_tasks_lack_are_left_out():
    result = measure(families("equal"), rows=[6, 500])
    assert result.values["settings"] == 1
    assert result.lines


def test_a_table_without_enough_rows_is_rejected():
    with pytest.raises(DataError) as caught:
        measure(families("equal"), rows=[500])
    assert caught.value.remedy


def test_an_unknown_level_of_sharing_is_rejected():
    with pytest.raises(ConfigError) as caught:
        measure(families("equal"), sharing={"PooledRidge": "much"})
    assert "partial" in caught.value.remedy


@pytest.mark.slow
def test_targets_on_the_same_rows_have_forests_but_no_trees_without_the_task():
    data = families("equal")
    first = data.task_id == 0
    data.X = data.X[first]
    data.y = np.column_stack([data.y[first], -data.y[first]])
    data.task_id = None
    data.tasks = ["a", "b"]
    sharing = {
        "ExtraTrees": "none",
        "MultiOutputExtraTrees": "partial",
        "PooledTrees": "full",
    }
    methods = {
        method for _, method, _ in errors(measure(data, folds=2, sharing=sharing))
    }
    assert methods == {"ExtraTrees", "MultiOutputExtraTrees", SELECTED}


def test_tasks_without_training_rows_are_predicted():
    data = families("equal")
    predicted = errors(measure(data, rows=[20], folds=2, new_tasks=True))
    assert predicted[20, "PooledRidge", "full"] < 0.8
    seen = errors(measure(data, rows=[20], folds=2))
    assert seen != predicted


def test_new_tasks_need_ragged_rows():
    data = families("equal")
    data.task_id = None
    with pytest.raises(DataError, match="no new tasks"):
        measure(data, new_tasks=True)


LABEL_METHODS = {
    "TaskMean": "none",
    "HierarchicalMTL": "partial",
    "PooledLogistic": "full",
}


@pytest.fixture(scope="module")
def labels():
    """Return a table of labels, its folds and the methods that were tested on them."""
    data = families("slopes")
    data = replace(data, y=np.where(data.y > 0, 1.0, -1.0), task_type="binary")
    setting = make_setting(data, 12, folds=3, search=2, seed=0, new_tasks=False)
    return data, setting, evaluate(setting, LABEL_METHODS)


def test_a_line_has_one_minus_the_auc_and_the_mean_inner_score_of_the_folds(labels):
    _, setting, methods = labels
    lines = {(line[0], line[1]): line for line in error_table(setting, methods)}
    assert lines["TaskMean", "none"][2] == pytest.approx(0.5, abs=0.05)
    for method, level in methods:
        line = lines[method.label, level]
        assert line[3] == pytest.approx(np.mean(list(method.inner.values())), rel=1e-4)
        # It is the only method of its level.
        assert lines[SELECTED, level][2:] == line[2:]
    assert lines["PooledLogistic", "full"][2] < 0.3


def test_the_verdict_on_labels_is_relative_to_the_error_of_the_alternative(labels):
    data, setting, methods = labels
    judged = judge([method for method, _ in methods], setting.evaluation)
    values = verdict(
        data, seed=0, rows=12, sharing=LABEL_METHODS, folds=3, search=2
    ).values
    error = 1 - judged.gain.second
    assert values["gain"] == pytest.approx(judged.gain.value / error)
    assert values["low"] == pytest.approx(judged.gain.low / error)
    assert values["high"] == pytest.approx(judged.gain.high / error)
    assert DECISIONS[int(values["decision"])] == judged.decision


# ---------------------------------------------------------------- boosted trees


def test_trees_stop_before_they_fit_noise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    noise = StoppedTreesRegressor().fit(X, rng.normal(size=400))
    signal = StoppedTreesRegressor().fit(X, 5 * X[:, 0])
    assert noise.n_rounds_ < signal.n_rounds_ / 2
    assert signal.n_rounds_ < MAX_ROUNDS


@pytest.mark.parametrize("seed", [0, 3])
def test_trees_have_the_rounds_with_the_smallest_loss_on_a_fifth_of_the_rows(seed):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + rng.normal(size=60)
    order = np.random.default_rng(seed).permutation(60)
    validation, train = order[:12], order[12:]
    trees = HistGradientBoostingRegressor(
        learning_rate=LEARNING_RATE,
        max_iter=40,
        max_leaf_nodes=MAX_LEAVES,
        min_samples_leaf=MIN_LEAF_ROWS,
        max_bins=63,
        early_stopping=False,
    ).fit(X[train], y[train])
    losses = [
        np.mean((predicted - y[validation]) ** 2)
        for predicted in trees.staged_predict(X[validation])
    ]
    model = StoppedTreesRegressor(random_state=seed).fit(X, y)
    assert model.n_rounds_ == 1 + np.argmin(losses)


def test_trees_with_few_rows_predict_their_mean():
    y = np.arange(8.0)
    model = StoppedTreesRegressor().fit(y[:, np.newaxis], y)
    assert model.predict(y[:, np.newaxis]) == pytest.approx(y.mean())


def test_trees_of_labels_rank_them():
    X = np.linspace(-1, 1, 80)[:, np.newaxis]
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    model = StoppedTreesClassifier().fit(X, y)
    assert (np.sign(model.decision_function(X)) == y).mean() > 0.9
    assert set(model.predict(X)) == {-1.0, 1.0}


@pytest.mark.parametrize("estimator", [StoppedTreesRegressor, StoppedTreesClassifier])
def test_trees_without_the_task_never_see_it(estimator):
    X = np.zeros((40, 1))
    task_id = np.repeat([0, 1], 20)
    y = np.where(task_id == 0, 1.0, -1.0)
    model = WithoutTask(estimator()).fit(X, y, task_id=task_id)
    assert model.predict(X, task_id=task_id) == pytest.approx(0.0, abs=1e-6)


# ---------------------------------------------------------------- means over tables


def simulated_effects(truth, n_sources=30, n_tables=2, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for source in range(n_sources):
        of_source = rng.normal(0, 0.04)
        for table in range(n_tables):
            of_table = rng.normal(0, 0.04)
            for _ in range(3):
                value = truth + of_source + of_table + rng.normal(0, 0.02)
                rows.append((f"s{source}", f"s{source}t{table}", value))
    return pd.DataFrame(rows, columns=["source", "table", "value"])


def mean_of(frame):
    return mixed_mean(frame["value"], frame["table"], frame["source"])


@pytest.mark.filterwarnings("ignore:The MLE may be")
def test_the_mean_and_its_error_match_statsmodels():
    from statsmodels.formula.api import mixedlm

    # Sources of unequal size: their mean is not the mean of the values.
    frame = simulated_effects(0.1, n_sources=12, seed=3).drop(range(0, 36, 2))
    model = mixedlm(
        "value ~ 1",
        frame,
        groups="source",
        re_formula="1",
        vc_formula={"t": "0 + C(table)"},
    )
    theirs = model.fit()
    ours = mean_of(frame)
    assert ours.mean == pytest.approx(theirs.params["Intercept"], rel=1e-4)
    assert ours.error == pytest.approx(theirs.bse["Intercept"], rel=1e-3)
    assert ours.residual_std**2 == pytest.approx(theirs.scale, rel=1e-3)
    assert ours.source_std**2 == pytest.approx(theirs.cov_re.iloc[0, 0], rel=1e-2)
    assert ours.table_std**2 == pytest.approx(theirs.vcomp[0], rel=1e-2)
    assert ours.high - ours.mean == pytest.approx(2.201 * ours.error, rel=1e-3)


@pytest.mark.slow
def test_intervals_of_the_mean_cover_the_truth():
    covered = []
    for seed in range(10):
        mean = mean_of(simulated_effects(0.05, n_sources=10, seed=seed))
        covered.append(mean.low < 0.05 < mean.high)
    assert np.mean(covered) >= 0.8


def test_rows_and_tables_of_one_source_do_not_count_as_independent():
    frame = simulated_effects(0.05, n_sources=8)
    pooled = frame["value"].std() / math.sqrt(len(frame))
    assert mean_of(frame).error > 2 * pooled
    assert mean_of(frame).df == 7


def test_a_single_source_has_no_interval():
    mean = mean_of(simulated_effects(0.05, n_sources=1))
    assert math.isnan(mean.low)
    assert mean.mean == pytest.approx(0.05, abs=0.2)


def test_values_that_are_not_finite_are_rejected():
    with pytest.raises(ValueError, match="finite"):
        mixed_mean([1.0, math.nan], ["a", "b"], ["a", "b"])


# ---------------------------------------------------------------- analyses


HEAD = "table,kind,family,source,fresh,seed,test,learner,rows,method,sharing,error,inner,seconds"


def lines_of(effect, n_tables=8, kind="groups", prefix="t", method="MTL"):
    """Return lines of two methods whose log error ratio is about `effect`."""
    rng = np.random.default_rng(len(prefix))
    lines = []
    for table in range(n_tables):
        noise = rng.normal(0, 0.002)
        for seed in (0, 1):
            for rows in (5, 50, 500):
                start = f"{prefix}{table},{kind},f,{prefix}{table},1,{seed},rows,linear,{rows}"
                shared = math.exp(-effect - noise - rng.normal(0, 0.001))
                for name in ("Ridge", SELECTED):
                    lines.append(f"{start},{name},none,1.0,1.0,1.0")
                for name in (method, SELECTED):
                    lines.append(f"{start},{name},partial,{shared},{shared},2.0")
    return lines


@pytest.fixture
def write(tmp_path):
    """Return a function that writes lines to a file and returns its path."""

    def written(lines, head=HEAD):
        path = tmp_path / "lines.csv"
        path.write_text("\n".join(["# made by a test", head, *lines, ""]), "utf-8")
        return str(path)

    return written


def test_a_true_effect_is_detected_and_a_corrupted_one_flips(write):
    file = write(lines_of(0.1))
    values = analyses.sharing(None, seed=0, published=file, learner="linear").values
    assert 0.095 < values["low"] < 0.1 < values["high"] < 0.105
    assert (values["better"], values["same"], values["worse"]) == (8, 0, 0)
    assert values["cost"] == pytest.approx(2.0)
    file = write(lines_of(-0.1))
    spoiled = analyses.sharing(None, seed=0, published=file, learner="linear").values
    assert spoiled["high"] < -0.09
    assert (spoiled["better"], spoiled["worse"]) == (0, 8)


def test_effects_within_one_percent_count_as_equal(write):
    file = write(lines_of(0.004))
    values = analyses.sharing(None, seed=0, published=file, learner="linear").values
    assert (values["better"], values["same"], values["worse"]) == (0, 8, 0)
    assert values["low"] > 0


def test_the_agreement_of_seeds_needs_three_tables(write):
    file = write(lines_of(0.1))
    assert (
        analyses.sharing(None, seed=0, published=file, learner="linear").values[
            "same_sign"
        ]
        == 1.0
    )
    first = [line for line in lines_of(0.1) if ",0,rows" in line]
    second = [line for line in lines_of(0.1, n_tables=2) if ",1,rows" in line]
    file = write(first + second)
    values = analyses.sharing(None, seed=0, published=file, learner="linear").values
    assert math.isnan(values["same_sign"])


def test_a_learner_that_was_not_computed_has_no_numbers(write):
    file = write(lines_of(0.1))
    analysis = analyses.sharing(None, seed=0, published=file, learner="smooth")
    assert all(map(math.isnan, analysis.values.values()))
    assert analysis.lines


def test_a_file_without_lines_is_rejected_with_the_remedy(write):
    for run in (analyses.best, analyses.cost):
        file = write([])
        result = run(None, seed=0, published=file)
        assert all(map(math.isnan, result.values.values()))
        assert "atlas/pairs" in result.lines[0]
    file = write([], VERDICT_HEAD)
    assert analyses.calibration(None, seed=0, published=file).lines


def test_p_values_are_adjusted_within_a_table(write):
    few = {"n_tables": 3}
    file = write(lines_of(0.1, **few) + lines_of(0, **few, kind="targets", prefix="uu"))
    result = analyses.sharing(None, seed=0, published=file, learner="linear")
    table = result.tables["By kind of table"]
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert [row["kind"] for row in rows] == ["groups", "targets"]
    adjusted = holm([row["pvalue"] for row in rows])
    assert [row["Holm"] for row in rows] == pytest.approx(adjusted, rel=1e-3)


def test_an_effect_that_fades_with_rows_has_a_negative_slope(write):
    fading = []
    for line in lines_of(0.0):
        cells = line.split(",")
        rows = int(cells[8])
        if cells[10] == "partial":
            cells[11] = str(math.exp(-0.3 / math.log10(10 * rows)))
        fading.append(",".join(cells))
    file = write(fading)
    values = analyses.sharing(None, seed=0, published=file, learner="linear").values
    assert values["slope_high"] < 0
    assert values["effect_few"] > values["effect_many"]


def test_the_best_methods_are_selected_by_inner_scores_and_not_by_errors(write):
    lines = lines_of(0.1)
    # A method with a bad inner score but by far the smallest error
    lucky = [
        line.replace("Ridge,none,1.0,1.0", "Lucky,none,0.01,9.0") for line in lines
    ]
    file = write(lines + [line for line in lucky if "Lucky" in line])
    values = analyses.best(None, seed=0, published=file).values
    assert values["effect"] == pytest.approx(0.1, abs=0.01)


def test_the_rule_of_kinds_is_right_if_groups_gain_and_targets_lose(write):
    targets = {"kind": "targets", "prefix": "uu", "n_tables": 4}
    good = lines_of(0.1, n_tables=4) + lines_of(-0.1, **targets)
    file = write(good)
    values = analyses.best(None, seed=0, published=file).values
    assert values["right"] == 1.0
    assert values["over_no_low"] > 0
    file = write(lines_of(-0.1, n_tables=4) + lines_of(0.1, **targets))
    assert analyses.best(None, seed=0, published=file).values["right"] == 0.0


@pytest.mark.slow
def test_only_new_tables_are_used_on_request(write):
    stale = [line.replace(",1,0,rows", ",0,0,rows") for line in lines_of(0.1)]
    file = write(
        [line for line in stale if ",0,0,rows" in line] + lines_of(0.1, prefix="vv")
    )
    assert analyses.best(None, seed=0, published=file, fresh=True).values["tables"] == 8
    assert analyses.best(None, seed=0, published=file).values["tables"] == 16


def test_seeds_without_one_of_the_learners_do_not_count_for_the_best(write):
    first = [line for line in lines_of(0.1) if ",0,rows" in line]
    both = lines_of(-0.3)
    smooth = [line.replace(",linear,", ",smooth,") for line in first]
    second = [line for line in both if ",1,rows" in line]
    file = write(first + smooth)
    complete = analyses.best(None, seed=0, published=file).values
    file = write(first + smooth + second)
    assert (
        analyses.best(None, seed=0, published=file).values["effect"]
        == complete["effect"]
        > 0.09
    )


def test_gains_for_similar_tables_are_those_of_the_families_of_compare():
    errors = {
        ("Ridge", "none"): 1.0,
        ("MTL", "partial"): 0.8,
        ("Pooled", "full"): 0.9,
        # The best inner score of all, but one model for all tasks in compare.
        ("Trees+Task", "partial"): 0.5,
        # Belongs to no family there.
        ("MultiOutputExtraTrees", "partial"): 0.4,
    }
    rows = []
    for (method, sharing), error in errors.items():
        for test in ("rows", "new tasks"):
            # New tasks have other errors, which do not count.
            shift = 0.0 if test == "rows" else -0.3
            rows.append(["t", "groups", 5, 0, test, method, sharing, error + shift])
    names = ["table", "kind", "rows", "seed", "test", "method", "sharing", "error"]
    lines = pd.DataFrame(rows, columns=names)
    lines["inner"] = lines["error"]
    lines["learner"] = "linear"
    (gains,) = analyses.gains_as_in_compare(lines).to_dict("records")
    assert gains["over_independent"] == pytest.approx(0.2)
    assert gains["over_pooled"] == pytest.approx(1 - 0.8 / 0.5)
    # Beyond a factor of 2, a ratio of errors counts as 2.
    lines.loc[lines["method"] == "Trees+Task", "error"] = 0.01
    (gains,) = analyses.gains_as_in_compare(lines).to_dict("records")
    assert gains["over_pooled"] == pytest.approx(-1.0)
    without_pooled = lines[~lines["method"].isin(["Pooled", "Trees+Task"])]
    (gains,) = analyses.gains_as_in_compare(without_pooled).to_dict("records")
    assert gains["over_independent"] == pytest.approx(0.2)
    assert math.isnan(gains["over_pooled"])


def test_dominated_points_are_not_on_the_front():
    points = [(1.0, 5.0), (2.0, 3.0), (3.0, 4.0), (4.0, 1.0), (math.nan, 0.0)]
    assert analyses.pareto_front(points) == {0, 1, 3}


def test_methods_of_all_learners_are_plotted_against_their_cost(write):
    file = write(lines_of(0.1))
    result = analyses.cost(None, seed=0, published=file, reference="Ridge")
    reference, row = result.tables["Cost and gain"]["rows"]
    assert reference[:5] == ["linear", "Ridge", "none", 1.0, 0.0]
    assert row[:3] == ["linear", "MTL", "partial"]
    assert row[3] == pytest.approx(2.0)
    assert row[-1] == "yes"


VERDICT_HEAD = "table,kind,family,source,fresh,seed,rows,decision,gain,low,high,seconds"


def verdict_lines(gains, decision="helps"):
    return [
        f"t{table},groups,f,t{table},1,{seed},10,{decision},{gain},{gain - 0.1},{gain + 0.1},1"
        for table in range(4)
        for seed, gain in enumerate(gains)
    ]


def test_verdicts_are_compared_with_the_other_seeds(write):
    file = write(verdict_lines([0.1, 0.12, 0.08]), VERDICT_HEAD)
    values = analyses.calibration(None, seed=0, published=file).values
    assert (values["hold"], values["useful"], values["verdicts"]) == (1.0, 1.0, 12)
    # All hold, on four tables: .025 ** (1 / 4).
    assert (values["hold_low"], values["hold_high"]) == pytest.approx(
        (0.39764, 1), abs=1e-5
    )
    # The first seed gains by luck; the others lose.
    file = write(verdict_lines([0.1, -0.12, -0.1]), VERDICT_HEAD)
    spoiled = analyses.calibration(None, seed=0, published=file).values
    assert spoiled["hold"] == pytest.approx(0.0)


def test_verdicts_of_few_tables_have_no_interval(write):
    lines = verdict_lines([0.1, 0.12, 0.08])
    file = write(
        [line for line in lines if line.startswith(("t0", "t1"))], VERDICT_HEAD
    )
    shares = analyses.calibration(None, seed=0, published=file).values
    assert (shares["hold"], shares["tables"]) == (1.0, 2)
    assert math.isnan(shares["hold_low"])


def test_tables_without_a_positive_verdict_have_no_share(write):
    file = write(verdict_lines([0.0, 0.01], "cannot tell"), VERDICT_HEAD)
    values = analyses.calibration(None, seed=0, published=file).values
    assert math.isnan(values["hold"])
    assert values["covered"] == 1.0


# ---------------------------------------------------------------- registered files


def registered_tables():
    with published_path("atlas/tables.csv").open(encoding="utf-8") as file:
        return {line["table"]: line for line in csv.DictReader(file)}


def test_every_table_of_the_atlas_is_described():
    spec = load_experiment("atlas/pairs").spec
    tables = registered_tables()
    assert [dataset.name for dataset in spec.datasets] == list(tables)
    computed = {name for method in spec.methods for name in method.datasets}
    assert computed == set(tables)


def test_the_kind_of_a_table_matches_its_card():
    for name, line in registered_tables().items():
        card = load_card(name)
        kind = "groups"
        if card.design == "shared" or name == "segment":
            kind = "targets" if card.task_type == "regression" else "labels"
        if name == "vehicle":
            kind = "labels"
        assert line["kind"] == kind, name


def test_new_tables_are_those_missing_from_the_first_edition():
    text = published_path("atlas/gains.csv").read_text("utf-8")
    first = set(re.findall(r"^([^,#]+),", text, re.MULTILINE))
    for name, line in registered_tables().items():
        assert (line["fresh"] == "1") == (name not in first), name


def test_every_claim_has_an_analysis_and_no_learner_is_left_out():
    sharing_spec = load_experiment("atlas/sharing").spec
    pairs_spec = load_experiment("atlas/pairs").spec
    learners = {method.params["learner"] for method in pairs_spec.methods}
    analysed = {method.params.get("learner") for method in sharing_spec.methods}
    assert learners <= analysed
    assert len(sharing_spec.claims) >= 10


@pytest.mark.slow
def test_a_compact_run_is_resumed_where_it_stopped(tmp_path):
    options = {"profile": "smoke", "output": tmp_path, "jobs": 1}
    only = ["method=linear*few rows"]
    first = reproduce("atlas/pairs", only=[*only, "dataset=equal tasks"], **options)
    folder = first.run.folder
    compact_run(folder)
    for path in (tmp_path / "cells").glob("*.json"):
        path.unlink()
    (before,) = results_of(first.run, "equal tasks", "linear, few rows")
    complete = reproduce("atlas/pairs", only=only, **options)
    (after,) = results_of(complete.run, "equal tasks", "linear, few rows")
    # Seconds of repeated computations would differ.
    assert after.seconds == before.seconds
    assert len(results_of(complete.run, "unrelated tasks", "linear, few rows")) == 1
