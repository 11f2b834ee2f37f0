"""Comparisons behind a claim, on made-up rows: which decide, including at their limits,
and which do not.
"""

import math
import statistics
from pathlib import Path

import pytest
from run_folders import stored_experiment

from mtlrun.lab.experiment.claims import Check, Claim
from mtlrun.lab.report import claims
from mtlrun.lab.report.claims import CheckResult, ClaimVerdict, JudgedRun, evaluate
from mtlrun.lab.report.claims import judge as judge_claim
from mtlrun.lab.report.method_results import MethodResult
from mtlrun.lab.report.run import Run
from mtlrun.show.ranking import Ranking

INFO = {
    "datasets": {"alpha": {"id": "alpha"}},
    "paper_datasets": ["alpha"],
    "profile": "quick",
}


def row(
    method,
    *values,
    dataset="alpha",
    quantity="auc",
    status="ok",
    planned=0,
    affected=None,
    tasks=(),
    **fields,
):
    """Return a result with one value per split; jobs without a value failed, unless a
    status is given.
    """
    samples = dict(enumerate(values)) if quantity else {}
    return made(
        dataset,
        method,
        {quantity: samples},
        status,
        planned,
        affected,
        dict(tasks),
        **fields,
    )


def made(
    dataset,
    method,
    samples,
    status="ok",
    planned=0,
    affected=None,
    tasks=None,
    task_names=(),
):
    """Return a result from made-up jobs."""
    trials = sorted({t for values in samples.values() for t in values})
    statuses = ["ok"] * len(trials)
    if not trials:
        trials, statuses = [*range(planned or 1)], [status] * (planned or 1)
    elif status != "ok":
        statuses[: affected or len(trials)] = [status] * (affected or len(trials))
    rest = range(len(trials), planned)
    jobs = [
        {
            "trial": trial,
            "status": status,
            **{name: values.get(trial) for name, values in samples.items()},
            "tasks": {
                name: by[trial] for name, by in (tasks or {}).items() if trial in by
            },
            "counts": {},
        }
        for trial, status in zip(
            [*trials, *rest], [*statuses, *["failed"] * len(rest)], strict=True
        )
    ]
    return MethodResult(dataset, method, jobs, list(task_names), medians=())


def judged_run(*rows, groups=(), **info):
    experiment = stored_experiment(**{**INFO, **info})
    return JudgedRun(Run(Path(), experiment, []), list(rows), list(groups))


def results(check, *rows, groups=(), **info):
    return evaluate(
        Check(**check),
        judged_run(*rows, groups=groups, **info),
    )


def only(check, *rows, **more):
    (result,) = results(check, *rows, **more)
    return result


def check(kind, of="A", over=("B",), quantity="auc", effect=0, **fields):
    over = {} if kind == "value" else {"over": list(over)}
    effect = {} if kind == "paired" else {"effect": effect}
    return {"kind": kind, "quantity": quantity, "of": of, **over, **effect, **fields}


def judge(claim, evidence):
    return judge_claim(Claim(**claim), evidence)


# --- limits


@pytest.mark.cover
@pytest.mark.parametrize(
    ("kind", "rows", "found"),
    [
        ("value", [row("A", 0.5)], 0.5),
        ("difference", [row("A", 0.75), row("B", 0.25)], 0.5),
        ("ratio", [row("A", 2.0), row("B", 4.0)], 0.5),
    ],
)
@pytest.mark.parametrize("bound", ["at_least", "at_most"])
def test_a_number_at_its_bound_is_inside(kind, rows, found, bound):
    here = only(check(kind, **{bound: found}), *rows)
    assert (here.holds, here.found) == (True, found)
    beyond = found + (0.001 if bound == "at_least" else -0.001)
    assert only(check(kind, **{bound: beyond}), *rows).holds is False


def test_both_bounds_must_hold():
    for low, high, holds in ((0.4, 0.6, True), (0.6, 0.7, False), (0.3, 0.4, False)):
        assert (
            only(check("value", at_least=low, at_most=high), row("A", 0.5)).holds
            is holds
        )


@pytest.mark.parametrize("direction", ["increasing", "decreasing", None])
def test_equal_values_have_no_order(direction):
    methods = {"kind": "order", "quantity": "auc", "methods": ["A", "B"], "effect": 0}
    methods |= {"direction": direction} if direction else {}
    assert only(methods, row("A", 0.5), row("B", 0.5)).holds is False
    result = only(methods, row("A", 0.5), row("B", 0.75))
    assert (result.holds, result.found) == (direction != "decreasing", 0.25)


def test_an_order_is_compared_between_neighbors():
    methods = {
        "kind": "order",
        "quantity": "auc",
        "methods": ["A", "B", "C"],
        "effect": 0,
    }
    comparisons = results(methods, row("A", 0.2), row("B", 0.5), row("C", 0.4))
    assert [item.holds for item in comparisons] == [True, False]


def test_every_pair_task_and_data_set_is_compared():
    tasks = {"auc": {0: [0.1, 0.2], 1: [0.1, 0.2]}}
    rows = [
        row(method, 0.5, 0.5, dataset=dataset, tasks=tasks, task_names=["s", "t"])
        for method in ("A", "B", "C", "D")
        for dataset in ("alpha", "beta")
    ]
    wanted = check(
        "difference", of=["A", "B"], over=["C", "D"], task=["s", "t"], at_least=0
    )
    two = {
        "datasets": {"alpha": {"id": "a"}, "beta": {"id": "b"}},
        "paper_datasets": ["a", "b"],
    }
    assert len(results(wanted, *rows, **two)) == 2 * 2 * 2 * 2
    assert len(results({**wanted, "dataset": "b"}, *rows, **two)) == 2 * 2 * 2
    assert len(results({**wanted, "dataset": "alpha"}, *rows, **two)) == 2 * 2 * 2
    assert {
        item.found
        for item in results(check("value", task=["t"], at_least=0), *rows, **two)
    } == {0.2}


def test_a_ratio_to_zero_is_undefined():
    result = only(check("ratio", at_least=1), row("A", 2.0), row("B", 0.0))
    assert (result.holds, result.undecided, result.answer) == (
        None,
        False,
        "not tested",
    )
    assert "0" in result.why
    assert only(check("ratio", at_most=1), row("A", 0.0), row("B", 2.0)).holds is True


# --- data sets


def test_a_claim_without_data_sets_refers_to_those_of_the_paper():
    rows = [row("A", 0.5), row("A", 0.9, dataset="beta")]
    both = {"datasets": {"alpha": {"id": "a1"}, "beta": {"id": "b1"}}}
    wanted = check("value", at_least=0)
    assert [
        item.found for item in results(wanted, *rows, **both, paper_datasets=["b1"])
    ] == [0.9]
    assert [
        item.found
        for item in results(wanted, *rows, **both, paper_datasets=["b1", "gone"])
    ] == [0.9]
    assert [
        item.found for item in results(wanted, *rows, **both, paper_datasets=[])
    ] == [
        0.5,
        0.9,
    ]
    lacking = only(wanted, *rows, **both, paper_datasets=["gone"])
    assert (lacking.holds, lacking.found) == (None, None)
    assert "quick" in lacking.why
    assert "simulated" not in lacking.why
    named = results({**wanted, "dataset": ["gone", "alpha"]}, *rows, **both)
    assert [item.found for item in named] == [None, 0.5]
    assert "gone" in named[0].why


def test_data_are_called_simulated_if_all_of_them_are():
    for second in (True, False):
        both = {
            "datasets": {"alpha": {"simulated": True}, "beta": {"simulated": second}},
            "paper_datasets": ["gone"],
        }
        assert (
            "simulated" in only(check("value", at_least=0), row("A", 0.5), **both).why
        ) is second


def test_all_sets_with_the_same_id_are_used():
    swept = {
        "datasets": {"alpha (0.1)": {"id": "alpha"}, "alpha (0.2)": {"id": "alpha"}}
    }
    rows = [row("A", 0.1, dataset="alpha (0.1)"), row("A", 0.2, dataset="alpha (0.2)")]
    assert [
        item.found for item in results(check("value", at_least=0), *rows, **swept)
    ] == [0.1, 0.2]


# --- missing results


def test_missing_failed_and_undefined_results_are_distinguished():
    def lacking(*rows):
        result = only(check("difference", at_least=0), row("B", 0.5), *rows)
        assert (result.holds, result.found) == (None, None)
        return result

    absent = lacking()
    failed = lacking(row("A", status="failed", planned=2, affected=2))
    for unfinished in (absent, failed):
        assert unfinished.undecided is False
    assert "failed" in failed.why
    for status in ("ok", "not_converged"):
        assert lacking(row("A", status=status)).undecided is True
    assert len({absent.why, failed.why, lacking(row("A")).why}) == 3
    for result in (absent, failed):
        assert "A" in result.why
        assert "alpha" in result.why


def test_a_task_must_exist_in_every_row():
    tasks = {"auc": {0: [0.1, 0.2]}}
    with_tasks = row("A", 0.5, tasks=tasks, task_names=["s", "t"])
    wanted = check("difference", task="t", at_most=0)
    assert only(
        wanted, with_tasks, row("B", 0.5, tasks=tasks, task_names=["t", "s"])
    ).found == pytest.approx(0.1)
    other = only(wanted, with_tasks, row("B", 0.5, tasks=tasks, task_names=["s"]))
    assert (other.holds, other.undecided) == (None, False)
    assert "'t'" in other.why
    absent = only(wanted, with_tasks)
    assert (absent.holds, "B" in absent.why) == (None, True)


def test_the_number_of_splits_is_reported_if_some_are_missing():
    few, all_ = row("A", 0.5, 0.6, planned=5), row("B", 0.1, 0.2)
    for rows in ((few, all_), (all_, few)):
        assert (
            "2 of 5 splits"
            in only(
                check(
                    "difference", of=rows[0].method, over=[rows[1].method], at_least=-9
                ),
                *rows,
            ).text
        )
    assert (
        "splits"
        not in only(check("difference", at_least=0), row("A", 0.5, 0.6), all_).text
    )


# --- close results


def student_error(values):
    """Return the half width of a 95% interval of the mean."""
    values = list(values)
    quantile = {2: 12.7062047, 3: 4.30265273}[len(values)]
    return quantile * statistics.stdev(values) / math.sqrt(len(values))


@pytest.mark.parametrize(
    ("kind", "rows", "expected"),
    [
        ("value", [[0.1, 0.2, 0.4]], student_error([0.1, 0.2, 0.4])),
        (
            "difference",
            [[0.1, 0.2, 0.4], [0.2, 0.2, 0.2]],
            student_error([0.1, 0.2, 0.4]),
        ),
        (
            "ratio",
            [[1.0, 2.0, 8.0], [1.0, 1.0, 1.0]],
            student_error(map(math.log, [1, 2, 8])),
        ),
    ],
)
def test_the_smallest_effect_is_two_standard_errors_over_the_splits(
    kind, rows, expected
):
    rows = [row(name, *values) for name, values in zip("AB", rows, strict=False)]
    of = math.log if kind == "ratio" else float
    assert claims.smallest_effect("auc", rows, of) == pytest.approx(expected)
    value = only(check(kind, effect=None, at_least=-99), *rows).found
    if kind == "ratio":
        near, far = (value * math.exp(-factor * expected) for factor in (0.99, 1.01))
    else:
        near, far = (value - factor * expected for factor in (0.99, 1.01))
    assert only(check(kind, effect=None, at_least=near), *rows).undecided is True
    assert only(check(kind, effect=None, at_least=far), *rows).holds is True


def effect(*rows, of=float):
    return claims.smallest_effect("auc", rows, of)


def test_only_splits_of_both_rows_count_for_the_smallest_effect():
    a = row("A", 0.1, 0.5, 0.2, 0.9)
    b = made("alpha", "B", {"auc": {0: 0.0, 2: 0.0, 7: 5.0}})
    assert effect(a, b) == pytest.approx(student_error([0.1, 0.2]))


def test_logarithms_need_positive_values():
    a, b = row("A", 1.0, 0.0, 4.0, -1.0), row("B", 1.0, 1.0, 1.0, 1.0)
    assert effect(a, b, of=math.log) == pytest.approx(student_error([0.0, math.log(4)]))


def test_a_single_split_counts_by_its_tasks_if_both_are_defined():
    a, b = (
        row("A", 0.5, tasks={"auc": {0: [0.1, 0.4, None, 0.8]}}),
        row("B", 0.5, tasks={"auc": {0: [0.0, 0.0, 0.0]}}),
    )
    assert effect(a, b) == pytest.approx(student_error([0.1, 0.4]))
    assert effect(row("A", 0.5)) == 0
    assert effect(row("A", 0.5, tasks={"auc": {0: [0.1]}})) == 0


def test_a_difference_equal_to_the_smallest_effect_decides():
    rows = row("A", 0.75), row("B", 0.25)
    assert only(check("difference", at_least=0.25, effect=0.25), *rows).holds is True
    assert only(check("difference", at_least=0.75, effect=0.25), *rows).holds is False
    within = only(check("difference", at_least=0.25, effect=0.251), *rows)
    assert (within.holds, within.undecided, within.found, within.answer) == (
        None,
        True,
        0.5,
        "undecided",
    )


def test_fits_that_stopped_early_decide_only_about_stopping():
    stopped = row("A", 0.5, 0.5, status="not_converged", affected=1)
    result = only(check("value", at_least=0), stopped)
    assert (result.holds, result.undecided) == (None, True)
    assert "1 of 2 fits" in result.why
    gap = row("A", 0.5, quantity="gap", status="not_converged")
    assert only(check("value", quantity="gap", at_least=0), gap).holds is True
    assert (
        only(
            check("difference", at_least=0),
            row("A", 0.5),
            row("B", 0.1, status="not_converged"),
        ).undecided
        is True
    )


@pytest.mark.parametrize(
    ("slow", "fast", "limits", "holds"),
    [
        ("not_converged", "ok", {"at_least": 2}, True),
        ("not_converged", "ok", {"at_least": 5}, None),
        ("not_converged", "ok", {"at_most": 10}, None),
        ("not_converged", "ok", {"at_most": 3}, False),
        ("ok", "not_converged", {"at_least": 5}, False),
        ("ok", "not_converged", {"at_least": 2}, None),
        ("not_converged", "not_converged", {"at_least": 2}, None),
    ],
)
def test_seconds_of_a_fit_that_did_not_converge_bound_a_speedup(
    slow, fast, limits, holds
):
    """The measured speedup is 4; the true one is larger, smaller, or unknown."""
    rows = (
        row("A", 4.0, 4.0, quantity="seconds", status=slow),
        row("B", 1.0, 1.0, quantity="seconds", status=fast),
    )
    result = only(check("ratio", quantity="seconds", effect=0.1, **limits), *rows)
    assert result.holds is holds
    assert result.undecided is (holds is None)


# --- p-values


@pytest.mark.parametrize(
    ("quantity", "facts", "lower_is_better"),
    [("auc", {}, False), ("mse", {}, True), ("own", {"own": False}, True)],
)
def test_a_p_value_supports_only_the_better_method(quantity, facts, lower_is_better):
    small, large = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], [2.01, 2.12, 2.23, 2.34, 2.45, 2.56]
    good, bad = (small, large) if lower_is_better else (large, small)
    rows = row("A", *good, quantity=quantity), row("B", *bad, quantity=quantity)
    info = {
        "quantities": {
            name: {"text": "", "greater_is_better": value}
            for name, value in facts.items()
        }
    }
    wanted = {"kind": "paired", "quantity": quantity, "of": "A", "over": "B"}
    turned = {**wanted, "of": "B", "over": "A"}
    assert only({**wanted, "at_most": 0.05}, *rows, **info).holds is True
    assert only({**turned, "at_most": 0.05}, *rows, **info).holds is False
    # A claim of no difference is false in both directions.
    for check_ in (wanted, turned):
        assert only({**check_, "at_least": 0.05}, *rows, **info).holds is False


def test_equal_rows_do_not_differ_in_either_direction():
    rows = [row(name, *[0.5 + 0.1 * k for k in range(6)]) for name in "AB"]
    wanted = {"kind": "paired", "quantity": "auc", "of": "A", "over": "B"}
    assert only({**wanted, "at_least": 0.05}, *rows).holds is True
    assert only({**wanted, "at_most": 1.0}, *rows).holds is True


@pytest.mark.parametrize("test", ["wilcoxon", "t"])
def test_too_few_pairs_cannot_decide_in_a_signed_rank_test(test):
    rows = [row("A", 0.7, 0.8, 0.91), row("B", 0.1, 0.21, 0.3)]
    wanted = {"kind": "paired", "quantity": "auc", "of": "A", "over": "B", "test": test}
    rank = test == "wilcoxon"  # Three pairs: the smallest p-value is 0.25.
    assert only({**wanted, "at_most": 0.25}, *rows).undecided is rank
    assert only({**wanted, "at_most": 0.26}, *rows).undecided is False
    assert only({**wanted, "at_least": 0.25}, *rows).undecided is rank
    assert only({**wanted, "at_least": 0.26}, *rows).undecided is False


def test_a_test_compares_splits_unless_it_compares_tasks():
    tasks = {"auc": {t: [0.1 * k + 0.01 * k * k for k in range(7)] for t in range(2)}}
    other = {"auc": {t: [0.0] * 7 for t in range(2)}}
    rows = [row("A", 0.5, 0.6, tasks=tasks), row("B", 0.1, 0.3, tasks=other)]
    wanted = {
        "kind": "paired",
        "quantity": "auc",
        "of": "A",
        "over": "B",
        "at_most": 0.9,
    }
    assert only(wanted, *rows).found == 0.5  # Two splits
    assert only({**wanted, "unit": "task"}, *rows).found < 0.05


# --- ranks


def ranking(*methods, label="all data sets"):
    values = [[1.0 - 0.1 * k for k in range(len(methods))] for _ in range(5)]
    return Ranking(
        label, "auc", [f"d{k}" for k in range(5)], list(methods), values, True
    )


def test_rejections_are_counted_against_the_control():
    wanted = {"kind": "rejections", "control": "A"}
    group = ranking("A", "B", "C")
    result = only({**wanted, "at_least": 1}, groups=[group])
    assert (result.holds, result.found) == (True, 1.0)  # B is too close to A.
    assert only({**wanted, "at_least": 2}, groups=[group]).holds is False
    assert only({**wanted, "at_most": 1}, groups=[group]).holds is True
    near, far = (
        only({**wanted, "over": over, "at_most": 0}, groups=[group])
        for over in ("B", "C")
    )
    assert (near.holds, near.found, far.holds, far.found) == (True, 0.0, False, 1.0)
    assert "among C " in far.text
    absent = only({"kind": "rejections", "control": "Z", "at_least": 1}, groups=[group])
    assert (absent.holds, absent.undecided, absent.found) == (None, False, None)
    assert "Z" in absent.why
    assert "Z" in absent.text


def test_groups_are_found_by_name():
    groups = [ranking("A", "B", label="n 1"), ranking("B", "A", label="n 2")]
    wanted = {
        "kind": "value",
        "quantity": "average_rank",
        "of": "A",
        "at_most": 1,
        "effect": 0,
    }
    assert [item.found for item in results(wanted, groups=groups)] == [1.0, 2.0]
    assert [
        item.found for item in results({**wanted, "dataset": "n 2"}, groups=groups)
    ] == [2.0]
    named = results({**wanted, "dataset": ["n 3", "n 1"]}, groups=groups)
    assert [item.holds for item in named] == [None, True]
    assert "n 3" in named[0].why
    assert [item.holds for item in results(wanted, groups=[])] == [None]
    elsewhere = results(wanted, groups=groups, paper_datasets=["gone"])
    assert [item.holds for item in elsewhere] == [None]
    assert elsewhere[0].undecided is False


# --- stopped runs


def stopped(seconds, of="A", other=None, limit=20, **stopped):
    """Return whether A is a bound (True), a number (False) or undecided (None)."""
    rows = [
        made(
            "alpha",
            "A",
            {"auc": {0: 0.5}, "seconds_run": {} if seconds is None else {0: seconds}},
        )
    ]
    if other is not None:
        rows.append(row("B", other, quantity="seconds_run"))
    config = {"methods": [{"label": "A", "params": {"seconds": limit}}, {"label": "B"}]}
    wanted = check(
        "value",
        at_most=1,
        bound="upper",
        stopped={"quantity": "seconds_run", **stopped},
    )
    inside = only(wanted, *rows, config=config)
    outside = only({**wanted, "at_most": 0.1}, *rows, config=config)
    assert inside.holds is True  # An upper bound below the limit
    return outside.holds is None


def test_a_run_that_used_all_its_seconds_was_stopped():
    assert stopped(20.0, at_least="seconds")
    assert stopped(21.0, at_least="seconds")
    assert not stopped(19.9, at_least="seconds")
    assert not stopped(None, at_least="seconds")


def test_a_run_that_ended_before_another_was_stopped():
    assert stopped(3.0, other=4.0, below="B")
    assert not stopped(4.0, other=4.0, below="B")
    assert not stopped(5.0, other=4.0, below="B")
    assert not stopped(3.0, below="B")
    assert not stopped(None, other=4.0, below="B")


# --- claims


def test_a_claim_is_accepted_unless_a_comparison_contradicts_it():
    def claim(verdict, *holds, expect="confirmed"):
        comparisons = [CheckResult("it", outcome) for outcome in holds]
        return ClaimVerdict("c", "so", None, verdict, "", expect, comparisons).accepted

    assert claim("confirmed", True)
    assert claim("partly", True, None)
    assert not claim("partly", True, False)
    assert not claim("not confirmed", False)
    assert claim("not confirmed", False, expect="not confirmed")
    assert not claim("partly", True, False, expect="not confirmed")


def test_available_comparisons_are_counted():
    comparisons = [
        CheckResult("it", True),
        CheckResult("it", False),
        CheckResult("it", None),
    ]
    comparisons.append(CheckResult("it", None, undecided=True))
    assert ClaimVerdict("c", "so", None, "partly", "", results=comparisons).tested == 3
    assert [item.answer for item in comparisons] == [
        "yes",
        "no",
        "not tested",
        "undecided",
    ]


def test_undecided_interpretations_do_not_count():
    def holding(*verdicts):
        return ClaimVerdict(
            "c", "so", None, "", "", readings=dict(enumerate(verdicts))
        ).holding

    assert (
        holding("confirmed", "mostly", "partly")
        == "holds in part under 2, holds under 1 of 3 interpretations"
    )
    assert "holds under 1, is undecided under 1 of 2" in holding(
        "confirmed", "not testable here", "undecided"
    )
    assert holding(*["not confirmed"] * 2, "undecided") == (
        "does not hold under 2, is undecided under 1 of 3 interpretations"
    )
    assert (
        holding("confirmed", "not testable here")
        == holding("confirmed")
        == holding()
        == ""
    )


def test_the_place_of_a_claim_names_its_source():
    def place(where, source="paper"):
        return ClaimVerdict("c", "so", where, "", "", source=source).place

    assert place("Table 2") == "Table 2"
    assert place(None) == ""
    assert place("Table 2", "ours") != place("Table 2", "other data") != "Table 2"
    assert place("Table 2", "ours").startswith("Table 2")
    assert place(None, "ours")


def test_a_claim_keeps_its_fields_from_the_experiment():
    evidence = judged_run(row("A", 0.5))
    claim = {"id": "4", "text": "so", "checks": [check("value", at_least=0)]}
    plain = judge(claim, evidence)
    assert (plain.id, plain.where, plain.source, plain.expect) == (
        "4",
        None,
        "paper",
        "confirmed",
    )
    full = judge(
        {
            **claim,
            "where": "Table 2",
            "source": "ours",
            "expect": {"verdict": "partly", "set": "2026-11-25", "from": "quick"},
        },
        evidence,
    )
    assert (full.where, full.source, full.expect) == ("Table 2", "ours", "partly")
    assert [item.found for item in full.results] == [0.5]
    untested = judge({**claim, "not_testable": "lost"}, evidence)
    assert (untested.results, untested.why, untested.verdict) == (
        [],
        "lost",
        "not testable here",
    )
    skipped = judge({"id": "e", "text": "so", "not_run": "no time"}, evidence)
    assert (skipped.results, skipped.why) == ([], "no time")
    both = [check("value", at_least=0), check("value", at_least=1)]
    assert (
        judge({**claim, "checks": both, "all": True}, evidence).verdict
        == "not confirmed"
    )


def test_a_one_line_reason_names_the_first_comparisons_and_counts_the_others():
    evidence = judged_run(*(row(name, 0.5) for name in "ABCDEFGH"))
    fails = [check("value", of=name, at_least=1) for name in "ABCDE"]
    open_ = [check("value", of=name, at_least=0.4, effect=0.2) for name in "FG"]
    why = judge(
        {
            "id": "c",
            "text": "so",
            "checks": [*fails, *open_, check("value", of="H", at_least=0)],
        },
        evidence,
    ).why
    assert "1 of 8 comparisons" in why
    for name, message in zip(
        "ABCDEFGH", (True, True, True, False, False, True, True, False), strict=True
    ):
        assert (f"of {name} on" in why) is message
    assert "2 more" in why
    few = judge({"id": "c", "text": "so", "checks": fails[:3]}, evidence).why
    assert "more" not in few
