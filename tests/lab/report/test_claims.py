"""Verdicts on claims."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from mtlrun.engine.record import Seconds
from mtlrun.lab.experiment.claims import Claim, Expectation
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.claims import CheckResult, ClaimVerdict
from mtlrun.lab.report.claims import verdict_of as verdict_of_results

DC = "LADM-DC-RMTL-10%"


def verdict_of(maker, *checks: dict[str, Any], **fields: Any) -> ClaimVerdict:
    maker.config["claims"] = [
        {"id": "c", "text": "it is so", "checks": list(checks), **fields}
    ]
    return build_report(maker.write()).claims[0]


def ratio(at_least: float, **fields: Any) -> dict[str, Any]:
    return {
        "kind": "ratio",
        "quantity": "seconds",
        "of": "APG-RMTL",
        "over": DC,
        "at_least": at_least,
        **fields,
    }


@pytest.mark.parametrize(
    ("bound", "verdict"), [(2.9, "confirmed"), (5.5, "not confirmed")]
)
def test_a_ratio_is_checked(maker, bound, verdict):
    claim = verdict_of(maker.fill(), ratio(bound))
    assert claim.verdict == verdict
    assert (
        claim.why
        == f"seconds of APG-RMTL / {DC} on alpha: 4.000 times (claimed: at least {bound:g} times)"
    )


@pytest.mark.parametrize(
    ("size", "verdict"),
    [
        (4.0, "confirmed"),
        (7.9, "confirmed"),
        (8.1, "not confirmed"),
        (1.9, "not confirmed"),
    ],
)
def test_a_size_is_met_within_a_factor_of_two(maker, size, verdict):
    check = {
        "kind": "ratio",
        "quantity": "seconds",
        "of": "APG-RMTL",
        "over": DC,
        "about": size,
    }
    claim = verdict_of(maker.fill(), check)  # 4.00
    assert claim.verdict == verdict
    assert f"about {size:g}" in claim.why


@pytest.mark.parametrize(
    ("size", "bound", "verdict"),
    [
        (1.9, "lower", "not confirmed"),
        (4.0, "lower", "undecided"),
        (8.1, "lower", "undecided"),
        (1.9, "upper", "undecided"),
        (4.0, "upper", "undecided"),
        (8.1, "upper", "not confirmed"),
    ],
)
def test_a_bound_can_only_lie_beyond_a_size(maker, size, bound, verdict):
    check = {
        "kind": "ratio",
        "quantity": "seconds",
        "of": "APG-RMTL",
        "over": DC,
        "about": size,
        "bound": bound,
    }
    assert verdict_of(maker.fill(), check).verdict == verdict


def test_differences_within_the_ties_do_not_count(maker):
    maker.trials = 6
    maker.fill()
    check = {
        "kind": "paired",
        "quantity": "auc",
        "of": DC,
        "over": "One Norm",
        "at_least": 0.05,
    }
    assert verdict_of(maker, check).verdict == "not confirmed"
    assert verdict_of(maker, {**check, "ties": 1e-6}).verdict == "not confirmed"
    tied = verdict_of(maker, {**check, "ties": 0.5})
    assert tied.verdict == "confirmed"
    assert tied.results[0].found == 1.0


def test_a_difference_of_lists_tests_every_pair(maker):
    check = {
        "kind": "difference",
        "quantity": "auc",
        "of": ["APG-RMTL", DC],
        "over": ["One Norm"],
        "at_least": 0.015,
    }
    claim = verdict_of(maker.fill(), check)
    assert claim.verdict == "not confirmed"  # Not more than half of them
    assert [f.holds for f in claim.results] == [False, True]
    assert claim.why.startswith(
        "1 of 2 comparisons hold; contradicted by auc of APG-RMTL minus One Norm on alpha: 1.00 points"
        " (claimed: at least 1.5 points higher)"
    )


@pytest.mark.parametrize(
    ("methods", "direction", "verdict"),
    [
        ([DC, "APG-RMTL", "One Norm"], "increasing", "confirmed"),
        (["One Norm", "APG-RMTL", DC], "decreasing", "confirmed"),
        (["One Norm", "APG-RMTL", DC], None, "not confirmed"),
        (["APG-RMTL", DC, "One Norm"], "increasing", "not confirmed"),
    ],
)
def test_an_order_is_checked(maker, methods, direction, verdict):
    check = {"kind": "order", "quantity": "seconds", "methods": methods}
    check |= {"direction": direction} if direction else {}
    assert verdict_of(maker.fill(), check).verdict == verdict


def test_a_value_between_bounds_is_confirmed(maker):
    check = {
        "kind": "value",
        "quantity": "auc",
        "of": DC,
        "at_least": 0.7,
        "at_most": 0.72,
        "effect": 0,
    }
    assert verdict_of(maker.fill(), check).verdict == "not confirmed"  # 0.7205
    assert verdict_of(maker, {**check, "at_most": 0.73}).verdict == "confirmed"


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [
        ({"at_least": 0.69}, "confirmed"),
        ({"at_least": 0.71}, "undecided"),
        ({"at_least": 0.75}, "not confirmed"),
        ({"at_most": 0.75}, "confirmed"),
        ({"at_most": 0.69}, "not confirmed"),
        ({"at_least": 0.69, "at_most": 0.75}, "confirmed"),
        ({"at_least": 0.71, "at_most": 0.73}, "undecided"),
        ({"at_least": 0.75, "at_most": 0.8}, "not confirmed"),
    ],
)
def test_an_interval_that_contains_the_bound_decides_nothing(maker, bounds, verdict):
    maker.fill()
    for trial in range(2):
        metrics = maker.records["alpha", DC, trial].metrics
        metrics["auc_low"] = 0.7
        metrics["auc_high"] = 0.74
    maker.config["metrics"] = [*maker.config["metrics"], "auc_low", "auc_high"]
    check = {
        "kind": "value",
        "quantity": "auc",
        "interval": ["auc_low", "auc_high"],
        "of": DC,
        **bounds,
    }
    claim = verdict_of(maker, check)
    assert claim.verdict == verdict
    assert "interval 0.7 to 0.74" in claim.why


def test_an_interval_without_ends_decides_nothing(maker):
    check = {"kind": "value", "quantity": "auc", "of": DC, "at_least": 0}
    claim = verdict_of(maker.fill(), {**check, "interval": ["auc_low", "auc_high"]})
    assert claim.verdict == "undecided"


def test_an_interval_has_two_ends():
    with pytest.raises(ValidationError, match="two ends"):
        Claim(
            id="c",
            text="it is so",
            checks=[
                {
                    "kind": "value",
                    "quantity": "auc",
                    "of": DC,
                    "interval": ["auc_low"],
                    "at_least": 0,
                }
            ],
        )


def test_a_paired_test_uses_trials(maker):
    maker.trials = 6
    maker.fill()
    check = {
        "kind": "paired",
        "quantity": "auc",
        "of": DC,
        "over": "One Norm",
        "at_most": 0.05,
    }
    claim = verdict_of(maker, check)
    assert claim.verdict == "confirmed"
    assert claim.results[0].found == pytest.approx(
        2 / 64
    )  # Six differences with the same sign


@pytest.mark.parametrize("quantity", ["auc", "seconds"])
def test_a_significant_difference_against_the_claim_fails(maker, quantity):
    maker.trials = 6
    for trial in range(6):
        maker.cell(
            "alpha",
            "One Norm",
            trial,
            auc=0.60 + 0.001 * trial,
            fit=2.0 + 0.001 * trial,
        )
        maker.cell(
            "alpha", DC, trial, auc=0.70 + 0.002 * trial, fit=1.0 + 0.002 * trial
        )
    check = {"kind": "paired", "quantity": quantity, "at_most": 0.05}
    better = verdict_of(maker, {**check, "of": DC, "over": "One Norm"})
    worse = verdict_of(maker, {**check, "of": "One Norm", "over": DC})
    assert (better.verdict, worse.verdict) == ("confirmed", "not confirmed")
    assert better.results[0].found == worse.results[0].found  # The same p-value
    assert worse.why.endswith("but One Norm is the worse one")


def test_a_paired_test_by_task_averages_the_splits_first(maker):
    for trial in range(2):
        values = [0.5 + 0.01 * t for t in range(8)]
        # The splits cancel: no difference per task.
        shift = 0.1 if trial == 0 else -0.1
        maker.cell("alpha", "One Norm", trial, per_task={"auc": values})
        maker.cell("alpha", DC, trial, per_task={"auc": [v + shift for v in values]})
    check = {
        "kind": "paired",
        "quantity": "auc",
        "of": DC,
        "over": "One Norm",
        "at_least": 0.9,
        "unit": "task",
    }
    assert verdict_of(maker, check).verdict == "confirmed"


@pytest.mark.parametrize(
    ("task", "verdict"),
    [("t0", "confirmed"), ("t0 + t1", "confirmed"), ("t0 + t1 + t2", "not confirmed")],
)
def test_a_mean_of_tasks_is_judged_as_one_number(maker, task, verdict):
    maker.info["datasets"]["alpha"]["tasks"] = ["t0", "t1", "t2"]
    for trial in range(2):
        for method, values in {"One Norm": [0.5] * 3, DC: [0.9, 0.7, 0.2]}.items():
            maker.cell("alpha", method, trial, per_task={"auc": values})
    difference = {"kind": "difference", "quantity": "auc", "of": DC, "over": "One Norm"}
    claim = verdict_of(maker, {**difference, "task": task, "at_least": 0.2})
    assert claim.verdict == verdict
    unknown = verdict_of(maker, {**difference, "task": f"{task} + x", "at_least": 0.2})
    assert unknown.results[0].holds is None


def test_the_corrected_t_test_takes_the_overlap_from_the_counts(maker):
    maker.trials = 5
    maker.fill()
    for trial in range(5):
        maker.records["alpha", DC, trial].metrics["auc"] += 0.004 * trial
    checks = {
        test: {
            "kind": "paired",
            "quantity": "auc",
            "of": DC,
            "over": "One Norm",
            "at_most": 1,
            "test": test,
        }
        for test in ("t", "corrected_t")
    }
    p_values = {
        test: verdict_of(maker, check).results[0].found
        for test, check in checks.items()
    }
    assert p_values["corrected_t"] > p_values["t"]


def test_a_single_split_gives_no_p_value(maker):
    maker.trials = 1
    check = {
        "kind": "paired",
        "quantity": "auc",
        "of": DC,
        "over": "One Norm",
        "at_least": 0.05,
    }
    claim = verdict_of(maker.fill(), check)
    assert (claim.verdict, claim.why) == (
        "not tested",
        "a single split gives no p-value",
    )


@pytest.mark.parametrize(("bound", "value"), [("at_least", 0.2), ("at_most", 0.05)])
def test_a_signed_rank_test_with_too_few_pairs_decides_nothing(maker, bound, value):
    maker.trials = 3
    check = {
        "kind": "paired",
        "quantity": "auc",
        "of": DC,
        "over": "One Norm",
        bound: value,
    }
    # Three differences with the same sign: p = 2 / 8.
    claim = verdict_of(maker.fill(), check)
    assert claim.verdict == "undecided"
    assert claim.results[0].found == pytest.approx(0.25)
    assert "no p-value below 0.25" in claim.why


def test_a_data_set_that_was_not_run_is_reported(maker):
    claim = verdict_of(maker.fill(), ratio(2.0, dataset="delicious"))
    assert claim.verdict == "not tested"
    assert claim.why == "data set delicious is not in this run (profile quick: alpha)"
    assert claim.accepted


def test_a_claim_without_data_sets_needs_data_of_the_paper(maker):
    maker.info["paper_datasets"] = ["delicious"]
    maker.info["datasets"]["alpha"]["simulated"] = True
    claim = verdict_of(maker.fill(), ratio(2.0))
    assert claim.verdict == "not tested"
    assert (
        claim.why
        == "none of the paper's data sets is in this run (profile quick: alpha (simulated))"
    )


def test_a_partly_tested_claim_is_partly_confirmed_and_accepted(maker):
    claim = verdict_of(maker.fill(), ratio(2.0, dataset=["alpha", "delicious"]))
    assert claim.verdict == "partly"
    assert "data set delicious" in claim.why
    assert claim.accepted


def test_a_failed_method_is_named(maker):
    maker.fill()
    for trial in range(2):
        maker.fail("alpha", DC, trial)
    assert verdict_of(maker, ratio(2.0)).why == f"no seconds of {DC} on alpha (failed)"


def test_a_finished_run_without_the_number_is_undecided(maker):
    maker.fill()
    for trial in range(2):
        del maker.records["alpha", DC, trial].metrics["auc"]
    claim = verdict_of(
        maker,
        {
            "kind": "difference",
            "quantity": "auc",
            "of": DC,
            "over": "One Norm",
            "at_least": 0,
        },
    )
    assert claim.verdict == "undecided"
    assert f"{DC} on alpha has no auc" in claim.why


def test_the_number_of_splits_is_reported(maker):
    maker.fill()
    maker.fail("alpha", DC, 1)
    assert verdict_of(maker, ratio(2.0)).why.endswith(", from 1 of 2 splits")


def test_an_expected_verdict_is_accepted(maker):
    assert not verdict_of(maker.fill(), ratio(99.0)).accepted
    expected = {"verdict": "not confirmed", "set": "2026-11-20", "from": "quick"}
    assert verdict_of(maker, ratio(99.0), expect=expected).accepted


@pytest.mark.parametrize(
    ("bound", "verdict"),
    [
        (2.9, "confirmed"),
        (3.1, "undecided"),
        (5.3, "undecided"),
        (5.5, "not confirmed"),
    ],
)
def test_seconds_of_two_splits_have_a_margin_of_a_third(maker, bound, verdict):
    """The ratio is 4; 4 exp(-0.3) = 2.96 and 4 exp(0.3) = 5.4."""
    assert verdict_of(maker.fill(), ratio(bound)).verdict == verdict


@pytest.mark.parametrize(
    ("orders", "seconds", "verdict"),
    [
        (3, 317.0, "confirmed"),
        (3, 315.0, "not confirmed"),
        (3, 3161.0, "confirmed"),
        (3, 3163.0, "not confirmed"),
        (2.5, 178.0, "confirmed"),
        (2.5, 177.0, "not confirmed"),
    ],
)
def test_orders_of_magnitude_are_rounded_as_printed(maker, orders, seconds, verdict):
    maker.fill()
    for trial in range(maker.trials):
        maker.records["alpha", DC, trial].seconds = Seconds(fit=1.0)
        maker.records["alpha", "APG-RMTL", trial].seconds = Seconds(fit=seconds)
    check = {"kind": "ratio", "quantity": "seconds", "of": "APG-RMTL", "over": DC}
    assert verdict_of(maker, {**check, "orders": orders}).verdict == verdict


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [("not_run", "not tested"), ("not_public", "not public")],
)
def test_a_claim_without_its_data_has_the_word_of_the_experiment(
    maker, reason, verdict
):
    claim = verdict_of(
        maker.fill(), ratio(2.0, dataset="delicious"), **{reason: "it is too large"}
    )
    assert (claim.verdict, claim.why) == (verdict, "it is too large")
    # Where a run has the data, the comparison counts.
    tested = verdict_of(maker, ratio(2.0), **{reason: "it is too large"})
    assert tested.verdict == "confirmed"


def test_a_claim_may_hold_by_arithmetic(maker):
    claim = verdict_of(maker.fill(), ratio(99.0), arithmetic="2 + 2 = 4")
    assert (claim.verdict, claim.why) == ("arithmetic", "2 + 2 = 4")


def test_training_parts_that_overlap_widen_the_smallest_effect(maker):
    maker.trials = 4
    maker.fill()
    for trial, noise in enumerate((0.02, -0.02, 0.01, -0.01)):
        maker.records["alpha", "One Norm", trial].metrics["auc"] = 0.7
        maker.records["alpha", DC, trial].metrics["auc"] = 0.735 + noise
    fields = {"quantity": "auc", "of": DC, "over": "One Norm", "at_least": 0}
    check = {"kind": "difference", "dataset": "alpha", **fields}
    # 3.18 standard errors of four splits are 2.9 points without overlap.
    for n_test, verdict in (
        (0, "confirmed"),
        (10, "confirmed"),
        (100, "undecided"),
        (2000, "confirmed"),
    ):
        for record in maker.records.values():
            record.counts = {**record.counts, "n_train": 100, "n_test": n_test}
        assert verdict_of(maker, check).verdict == verdict, n_test


def test_a_claim_may_be_declared_not_testable(maker):
    claim = verdict_of(maker.fill(), ratio(2.0), not_testable="the figures are lost")
    assert (claim.verdict, claim.why) == ("not testable here", "the figures are lost")


# --- counting comparisons


def result(word: str) -> CheckResult:
    return CheckResult(
        "it", {"good": True, "bad": False}.get(word), undecided=word == "open"
    )


def test_counted_comparisons_give_a_verdict():
    for words, verdict, of_a_conjunction in [
        ("good good", "confirmed", "confirmed"),
        ("good good good good bad", "mostly", "not confirmed"),
        ("good good bad", "partly", "not confirmed"),
        ("good bad", "not confirmed", "not confirmed"),
        ("good good good good open", "mostly", "undecided"),
        ("good open bad open", "undecided", "not confirmed"),
        ("open", "undecided", "undecided"),
        ("bad bad open", "not confirmed", "not confirmed"),
        ("good none", "partly", "undecided"),
        ("good bad none", "not confirmed", "not confirmed"),
        ("none", "not tested", "not tested"),
    ]:
        results = [result(word) for word in words.split()]
        assert verdict_of_results(results) == verdict
        assert verdict_of_results(results, conjunction=True) == of_a_conjunction


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        ("good good bad", "confirmed"),
        ("good good open", "confirmed"),
        ("good bad", "not confirmed"),
        ("good open bad open", "undecided"),
        ("bad bad open", "not confirmed"),
    ],
)
def test_a_usual_result_needs_more_than_half(words, verdict):
    results = [result(word) for word in words.split()]
    assert verdict_of_results(results, usually=True) == verdict


def test_a_claim_uses_all_or_usually_but_not_both():
    with pytest.raises(ValidationError):
        Claim(id="c", text="so", all=True, usually=True)


def test_an_expectation_uses_the_words_of_the_pages():
    for word in ("does not hold", "not confirmed"):
        stated = {"verdict": word, "set": "2026-11-20", "from": "quick"}
        assert Expectation.model_validate(stated).verdict == "not confirmed"


@pytest.mark.parametrize(
    ("drift", "verdict"), [(0.009, "confirmed"), (0.011, "undecided")]
)
def test_a_fit_that_did_not_converge_decides_only_beyond_its_remaining_change(
    maker, drift, verdict
):
    maker.fill()
    for trial in range(maker.trials):
        maker.records["alpha", "One Norm", trial].metrics["auc"] = 0.6
        maker.records["alpha", DC, trial].metrics["auc"] = 0.7
        maker.records["alpha", "One Norm", trial].status = "not_converged"
    fields = {"quantity": "auc", "of": DC, "over": "One Norm", "at_least": 0}
    check = {"kind": "difference", "dataset": "alpha", **fields}
    assert verdict_of(maker, {**check, "drift": drift}).verdict == verdict
    assert verdict_of(maker, check).verdict == "undecided"


# --- undecided comparisons


@pytest.mark.parametrize(
    ("shift", "verdict"),
    [(0.0, "undecided"), (0.07, "confirmed"), (-0.07, "not confirmed")],
)
def test_differences_below_two_standard_errors_are_undecided(maker, shift, verdict):
    maker.trials = 4
    maker.fill()
    for trial, noise in enumerate((0.02, -0.02, 0.01, -0.01)):
        maker.records["alpha", "One Norm", trial].metrics["auc"] = 0.7
        maker.records["alpha", DC, trial].metrics["auc"] = 0.7005 + shift + noise
    check = {"kind": "order", "quantity": "auc", "methods": ["One Norm", DC]}
    assert verdict_of(maker, check).verdict == verdict
    assert verdict_of(maker, {**check, "effect": 0}).verdict == (
        "not confirmed" if shift < 0 else "confirmed"
    )
    assert verdict_of(maker, {**check, "effect": 0.1}).verdict == "undecided"


@pytest.mark.parametrize("drop", [0.001, 0.002, 0.004, 0.01, 0.02])
def test_a_difference_on_a_single_split_decides_nothing(maker, drop):
    """The mean equals the standard error, up to rounding."""
    maker.trials = 5
    maker.fill()
    for trial in range(5):
        maker.records["alpha", "One Norm", trial].metrics["auc"] = 0.7
        maker.records["alpha", DC, trial].metrics["auc"] = 0.7
    maker.records["alpha", DC, 3].metrics["auc"] = 0.7 - drop
    check = {"kind": "difference", "quantity": "auc", "of": DC, "over": "One Norm"}
    assert verdict_of(maker, {**check, "at_least": 0}).verdict == "undecided"
    assert verdict_of(maker, {**check, "at_most": 0}).verdict == "undecided"


def test_a_single_split_is_judged_by_its_tasks(maker):
    maker.trials = 1
    for method, values in {"One Norm": [0.6, 0.7, 0.8], DC: [0.7, 0.6, 0.81]}.items():
        maker.cell("alpha", method, 0, auc=sum(values) / 3, per_task={"auc": values})
    check = {
        "kind": "difference",
        "quantity": "auc",
        "of": DC,
        "over": "One Norm",
        "at_least": 0,
    }
    claim = verdict_of(maker, check)
    assert claim.verdict == "undecided"
    assert (
        "the 25 points" in claim.why
    )  # Standard error of .1, -.1, .01: 5.8 points; Student's factor for three: 4.3


def test_the_smallest_effect_of_a_ratio_is_relative(maker):
    maker.fill()
    assert verdict_of(maker, ratio(3.9, effect=0.05)).verdict == "undecided"  # 4.0
    assert verdict_of(maker, ratio(3.7, effect=0.05)).verdict == "confirmed"


def test_a_speedup_over_fits_that_did_not_converge_is_not_confirmed(maker):
    """The faster method was stopped early: its true speedup is below the measured 4."""
    maker.fill()
    maker.records["alpha", DC, 1].status = "not_converged"
    assert verdict_of(maker, ratio(2.0)).verdict == "undecided"
    assert verdict_of(maker, ratio(6.0)).verdict == "not confirmed"


@pytest.mark.parametrize(
    ("bound", "limit", "verdict"),
    [
        ("lower", {"at_least": 2.0}, "confirmed"),
        ("lower", {"at_least": 9.0}, "undecided"),
        ("lower", {"at_most": 9.0}, "undecided"),
        ("lower", {"at_most": 2.0}, "not confirmed"),
        ("upper", {"at_least": 2.0}, "undecided"),
        ("upper", {"at_most": 9.0}, "confirmed"),
    ],
)
def test_a_bound_decides_only_its_side(maker, bound, limit, verdict):
    check = {
        "kind": "ratio",
        "quantity": "seconds",
        "of": "APG-RMTL",
        "over": DC,
        "bound": bound,
        **limit,
    }
    assert verdict_of(maker.fill(), check).verdict == verdict


@pytest.mark.parametrize(
    ("rows", "bound", "limit", "verdict"),
    [
        (100, None, {"at_least": 5}, "confirmed"),
        (100, "lower", {"at_least": 20}, "not confirmed"),
        (60, None, {"at_least": 5}, "undecided"),
        (60, "lower", {"at_least": 5}, "confirmed"),
        (60, "lower", {"at_least": 20}, "undecided"),
        (60, "lower", {"at_most": 5}, "not confirmed"),
    ],
)
def test_whether_a_number_is_a_bound_may_depend_on_where_a_run_stopped(
    maker, rows, bound, limit, verdict
):
    maker.measure("trace", ["factor", "largest_n"])
    maker.measurement("alpha", "DCD", 0, metrics={"factor": 1.0, "largest_n": 100.0})
    maker.measurement(
        "alpha", "MTK", 0, metrics={"factor": 10.0, "largest_n": float(rows)}
    )
    check = {
        "kind": "value",
        "quantity": "factor",
        "of": "MTK",
        "bound": bound,
        **limit,
    }
    check["stopped"] = {"quantity": "largest_n", "below": "DCD"}
    assert verdict_of(maker, check).verdict == verdict


@pytest.mark.parametrize(
    ("seconds", "verdict"), [(19.0, "not confirmed"), (21.0, "undecided")]
)
def test_a_run_is_stopped_at_its_limit(maker, seconds, verdict):
    maker.measure("trace", ["difference", "seconds_run"])
    maker.config["methods"][0]["params"]["seconds"] = 20
    maker.measurement(
        "alpha", "DCD", 0, metrics={"difference": 1e-3, "seconds_run": seconds}
    )
    check = {
        "kind": "value",
        "quantity": "difference",
        "of": "DCD",
        "at_most": 1e-7,
        "bound": "upper",
    }
    check["stopped"] = {"quantity": "seconds_run", "at_least": "seconds"}
    assert verdict_of(maker, check).verdict == verdict
