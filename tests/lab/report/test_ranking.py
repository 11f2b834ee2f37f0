"""The section `statistics`: ranks, tests and claims about them; checks and references
of single tasks and predictions.
"""

from __future__ import annotations

import numpy as np
import pytest

from mtlrun.engine.record import SCORES, SCORES_DIGEST
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.method_results import method_results
from mtlrun.lab.report.run import read_run
from mtlrun.lab.report.statistics import rank_groups
from mtlrun.utils.arrays import array_digest

DATA = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
DC = "LADM-DC-RMTL-10%"


@pytest.fixture
def ranked(maker):
    """Return six data sets; the last method is always best, the others vary."""
    maker.config["statistics"] = {"metric": "auc", "control": DC, "significance": 0.05}
    maker.info["paper_datasets"] = list(DATA)
    for index, dataset in enumerate(DATA):
        values = {"One Norm": 0.6 + 0.02 * (index == 0), "APG-RMTL": 0.61, DC: 0.7}
        for method, value in values.items():
            for trial in range(2):
                maker.cell(dataset, method, trial, auc=value)
    return maker


def claim(maker, **check):
    maker.config["claims"] = [{"id": "c", "text": "so it is", "checks": [check]}]
    return build_report(maker.write()).claims[0]


def test_groups_have_their_tests(ranked):
    run = read_run(ranked.write())
    (group,) = rank_groups(run, method_results(run))
    assert group.average == {
        "One Norm": pytest.approx(17 / 6),
        "APG-RMTL": pytest.approx(13 / 6),
        DC: 1.0,
    }
    assert group.tests[0][1].z == pytest.approx((17 / 6 - 1) / np.sqrt(3 * 4 / 36))
    assert [(method, t.rejected, t.alpha) for method, t in group.tests] == [
        ("One Norm", True, 0.025),
        ("APG-RMTL", True, 0.05),
    ]


def test_the_report_has_ranks_friedman_and_holm(ranked):
    sections = {s.title: s for s in build_report(ranked.write()).sections}
    section = sections["Ranks and tests: all data sets"]
    assert section.grids[0].rows[-1] == [
        "average rank",
        pytest.approx(17 / 6),
        pytest.approx(13 / 6),
        1.0,
    ]
    assert "Iman-Davenport" in section.lines[1]
    assert section.lines[-1].endswith("2 of 2 methods rank significantly worse.")
    assert "Comparison of methods" not in sections, "the ranks are listed once"


def test_average_ranks_are_a_quantity(ranked):
    low = claim(
        ranked,
        kind="order",
        quantity="average_rank",
        methods=[DC, "APG-RMTL", "One Norm"],
        effect=1.0,
    )
    assert [item.found for item in low.results] == pytest.approx([7 / 6, 2 / 3])
    result = claim(
        ranked, kind="value", quantity="average_rank", of="APG-RMTL", at_most=1.7
    )
    assert (
        result.why
        == "average_rank of APG-RMTL on all data sets: 2.167 (claimed: at most 1.7)"
    )


def test_the_smallest_effect_of_an_average_rank_is_its_standard_error_over_the_data_sets(
    ranked,
):
    result = claim(
        ranked, kind="value", quantity="average_rank", of="APG-RMTL", at_most=2.1
    )
    assert result.verdict == "undecided"
    assert (
        "by 0.067, less than the 0.43 that" in result.why
    )  # Ranks 3, 2, 2, 2, 2, 2: 0.408 / sqrt(6), times Student's 2.57


def test_average_ranks_may_have_references(ranked):
    ranked.config["reference"] = [
        {
            "dataset": "all data sets",
            "method": DC,
            "quantity": "average_rank",
            "value": 1.0,
        },
        {
            "dataset": "train 0.5",
            "method": DC,
            "quantity": "average_rank",
            "value": 1.0,
        },
    ]
    here, elsewhere = build_report(ranked.write()).references
    assert (here.verdict, here.ours, elsewhere.verdict) == ("within", 1.0, "not run")


@pytest.mark.parametrize(
    ("at_least", "verdict"), [(2, "confirmed"), (3, "not confirmed")]
)
def test_rejections_are_counted(ranked, at_least, verdict):
    result = claim(ranked, kind="rejections", control=DC, at_least=at_least)
    assert result.verdict == verdict
    assert result.why.startswith(
        f"methods that rank significantly worse than {DC} on all data sets (6 data sets): 2 of 2"
    )


def test_a_control_with_a_worse_rank_rejects_nothing(ranked):
    assert (
        claim(ranked, kind="rejections", control="One Norm", at_least=1)
        .results[0]
        .found
        == 0.0
    )


def along_axis(ranked, groups):
    """Rank the data sets for each value of an axis, with scores of a sign."""
    ranked.config["sweep"] = {"name": "train", "split": "train", "values": list(groups)}
    records, facts = dict(ranked.records), ranked.info["datasets"]["alpha"]
    ranked.records.clear()
    ranked.info["datasets"] = {}
    for value, (names, sign) in groups.items():
        for dataset in names:
            label = f"{dataset} (train {value})"
            ranked.info["datasets"][label] = {
                **facts,
                "id": dataset,
                "axis": {"of": dataset, "value": value},
            }
            for method in ranked.info["methods"]:
                ranked.cell(
                    label,
                    method,
                    0,
                    auc=sign * records[dataset, method, 0].metrics["auc"],
                )


def test_differences_of_ranks_count_beyond_two_standard_errors_of_their_group(
    ranked,
):
    along_axis(ranked, {0.1: (DATA[:2], 1), 0.2: (DATA, 1)})
    few, many = claim(
        ranked,
        kind="difference",
        quantity="average_rank",
        of="APG-RMTL",
        over="One Norm",
        at_most=0,
    ).results
    assert few.undecided
    assert (
        "less than the 2 that" in few.why
    )  # Three methods on two data sets: 1.96 sqrt(3 * 4 / 12)
    assert "less than the 1.1 that" in many.why  # 1.96 sqrt(3 * 4 / 36)


def test_groups_follow_the_axis(ranked):
    along_axis(ranked, {0.1: (DATA, 1), 0.2: (DATA, -1)})
    result = claim(ranked, kind="value", quantity="average_rank", of=DC, at_most=1)
    assert [f.found for f in result.results] == [1.0, 3.0]
    only = claim(ranked, kind="rejections", control=DC, dataset="train 0.1", at_least=2)
    assert only.verdict == "confirmed"
    unknown = claim(
        ranked, kind="rejections", control=DC, dataset="train 0.7", at_least=2
    )
    assert unknown.verdict == "not tested"


def test_data_that_cannot_be_ranked_are_reported(ranked):
    for trial in range(2):
        ranked.fail("zeta", "One Norm", trial)
    sections = {s.title: s for s in build_report(ranked.write()).sections}
    lines = sections["Ranks and tests: all data sets"].lines
    assert lines[0] == "Ranks by auc over 5 data sets (1 is best)."
    assert "Not ranked: zeta (no auc of One Norm)." in lines


def test_a_data_set_with_its_own_metrics_is_ranked_by_the_first(ranked):
    ranked.config["metrics"] = ["auc", "mse"]
    ranked.config["datasets"] = [*DATA[:-1], {"id": "zeta", "metrics": ["mse"]}]
    for method, value in {"One Norm": 0.3, "APG-RMTL": 0.1, DC: 0.2}.items():
        for trial in range(2):
            ranked.cell("zeta", method, trial, metrics={"mse": value})
    run = read_run(ranked.write())
    (group,) = rank_groups(run, method_results(run))
    assert group.ranks[-1].tolist() == [3.0, 1.0, 2.0], "less is better for this one"
    assert group.own == {"zeta": "mse"}
    assert not group.left_out
    lines = {s.title: s for s in build_report(ranked.write()).sections}[
        "Ranks and tests: all data sets"
    ].lines
    assert "Ranked by their own metrics: zeta by mse." in lines


def test_ranks_on_other_data_than_the_papers_decide_nothing(ranked):
    ranked.info["paper_datasets"] = ["eta"]
    assert (
        claim(ranked, kind="rejections", control=DC, at_least=1).verdict == "not tested"
    )


def test_the_registry_states_where_lower_is_better(ranked):
    ranked.info["quantities"] = {"auc": {"text": "", "greater_is_better": False}}
    run = read_run(ranked.write())
    assert rank_groups(run, method_results(run))[0].average[DC] == 3.0


@pytest.fixture
def joints(maker):
    maker.config["metrics"] = ["mse"]
    for method, shift in (("One Norm", 0.0), ("APG-RMTL", 0.5)):
        for trial in range(2):
            values = [31.0 + shift + trial, 22.0 - shift, None]
            names = {"tasks": ["joint 1", "joint 2", "joint 3"]}
            maker.cell(
                "alpha",
                method,
                trial,
                metrics={"mse": 20.0},
                per_task={"mse": values},
                result=names,
            )
    return maker


def test_single_tasks_may_have_references(joints):
    joints.config["reference"] = [
        {
            "dataset": "alpha",
            "method": "One Norm",
            "quantity": "mse",
            "task": task,
            "value": 31.4,
            "absolute": 0.2,
        }
        for task in ("joint 1", "joint 3", "joint 9")
    ]
    first, third, ninth = build_report(joints.write()).references
    assert (first.dataset, first.ours, first.n, first.verdict) == (
        "alpha, joint 1",
        31.5,
        2,
        "within",
    )
    assert (third.verdict, third.why) == ("not run", "no mse (ok)")
    assert (ninth.verdict, ninth.why) == ("not run", "no task 'joint 9' known")


def test_single_tasks_may_have_checks(joints, lacking):
    result = claim(
        joints,
        kind="difference",
        quantity="mse",
        of="APG-RMTL",
        over="One Norm",
        task=["joint 1", "joint 2"],
        at_most=0,
    )
    assert [f.found for f in result.results] == [0.5, -0.5]
    assert (
        "mse of APG-RMTL minus One Norm on alpha, joint 1: 0.5 (claimed: not higher)"
        in result.why
    )
    unknown = claim(
        joints, kind="value", quantity="mse", of="One Norm", task="knee", at_most=0
    )
    assert unknown.verdict == "not tested"
    assert not lacking(unknown.why, "task 'knee'", "alpha")


def test_names_of_tasks_may_follow_the_data_set(joints):
    for record in joints.records.values():
        record.result = {}
    joints.info["datasets"]["alpha"]["tasks"] = ["joint 1", "joint 2", "joint 3"]
    result = claim(
        joints, kind="value", quantity="mse", of="One Norm", task="joint 2", at_least=22
    )
    assert result.verdict == "confirmed"


def keep(maker, method, scores):
    maker.cells.mkdir(parents=True, exist_ok=True)
    for trial in range(2):
        record = maker.records["alpha", method, trial]
        values = np.asarray(scores[trial], dtype=np.float32)
        record.result[SCORES] = f"{record.key}.npz"
        record.result[SCORES_DIGEST] = array_digest(values)
        np.savez(maker.cells / f"{record.key}.npz", scores=values)


def test_predictions_are_tested_split_by_split(maker):
    rng = np.random.default_rng(0)
    base = rng.normal(size=(2, 30, 2))
    keep(maker.fill(), "One Norm", base)
    keep(maker, "APG-RMTL", [base[0] + rng.normal(size=(30, 2)) * 1e-3, base[1] + 0.1])
    check = {
        "kind": "paired",
        "unit": "prediction",
        "of": "APG-RMTL",
        "over": "One Norm",
    }
    result = claim(maker, **check, at_least=0.3)
    assert result.verdict == "not confirmed"
    assert result.results[0].found < 1e-6, "the worst split decides"
    assert (
        "p-value of predictions of APG-RMTL against One Norm by prediction on alpha: smallest p-value"
        in result.why
    )
    assert "of 2 splits of up to 60 pairs" in result.why
    assert claim(maker, **check, at_most=0.3).verdict == "not confirmed", (
        "the other split has a large p"
    )


def test_a_p_value_of_predictions_at_its_bound_is_inside(maker):
    rng = np.random.default_rng(1)
    base = rng.normal(size=(2, 30, 2))
    keep(maker.fill(), "One Norm", base)
    keep(
        maker,
        "APG-RMTL",
        base
        + rng.normal(size=(2, 30, 2)) * 0.1
        + np.array([0.01, 0.03])[:, None, None],
    )

    def one(**more):
        result = claim(
            maker,
            kind="paired",
            unit="prediction",
            of="APG-RMTL",
            over="One Norm",
            **more,
        )
        return result.results[0]

    smallest, largest = one(at_least=0).found, one(at_most=1).found
    assert 0 < smallest < largest < 1
    assert one(at_least=smallest).holds is True
    assert one(at_least=smallest + 1e-9).holds is False
    assert one(at_most=largest).holds is True
    assert one(at_most=largest - 1e-9).holds is False
    assert one(at_least=0, test="t").found not in (smallest, largest)


def test_without_stored_predictions_there_is_no_test(maker):
    result = claim(
        maker.fill(),
        kind="paired",
        unit="prediction",
        of="APG-RMTL",
        over="One Norm",
        at_least=0.3,
    )
    assert (result.verdict, result.why) == (
        "not tested",
        "no predictions of APG-RMTL and One Norm on alpha were kept",
    )
