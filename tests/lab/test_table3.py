"""dcrmtl/table3: table2 with the squared hinge loss, on the same splits."""

from collections import Counter

import pytest

from mtlrun.engine.run import missing_jobs, run
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.plan import plan


@pytest.mark.parametrize("profile", ["smoke", "full"])
def test_the_protocol_is_that_of_table_2(profile):
    ours, theirs = (
        load_experiment(f"dcrmtl/{name}", profile=profile).spec
        for name in ("table3", "table2")
    )
    assert [m.label for m in ours.methods] == [m.label for m in theirs.methods]
    for section in (
        "datasets",
        "split",
        "metrics",
        "seed",
        "selection",
        "timing",
        "grids",
    ):
        assert getattr(ours, section) == getattr(theirs, section)
    assert [claim.id for claim in ours.claims] == [
        "dcrmtl-4-hinge",
        "dcrmtl-5-hinge",
        "dcrmtl-7-hinge",
        "dcrmtl-11-hinge",
        "dcrmtl-12-hinge",
        "dcrmtl-12-hinge-ten",
        "dcrmtl-8-apg",
        "dcrmtl-8-ladm",
    ]


def test_every_method_with_a_choice_of_loss_uses_the_squared_hinge():
    for method in load_experiment("dcrmtl/table3").spec.methods:
        params = (
            method.params["base"]["params"]
            if "base" in method.params
            else method.params
        )
        assert params.get("loss") == (
            None if method.label in ("IndSVM", "RidgeReg") else "squared_hinge"
        )


@pytest.mark.slow
def test_ten_rows_are_computed_and_nothing_is_left(tmp_path):
    run_plan = plan(load_experiment("dcrmtl/table3", profile="smoke"), output=tmp_path)
    assert sorted(
        Counter(row.job.folds[0].key for row in run_plan.wanted).values()
    ) == [
        1,
        1,
        1,
        1,
        2,
        2,
        2,
    ]
    summary = run(run_plan)
    assert (summary.n_ok, summary.failures) == (10, [])
    again = plan(load_experiment("dcrmtl/table3", profile="smoke"), output=tmp_path)
    assert missing_jobs(again, again.store()) == ([], [])
