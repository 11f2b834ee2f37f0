"""dcrmtl/table2: ten algorithms, shared searches, all claims of the table."""

from collections import Counter

import pytest

from mtlrun.engine.run import missing_jobs, run
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.plan import plan

LABELS = [
    "One Norm",
    "Trace Norm",
    "IndSVM",
    "RidgeReg",
    "APG-RMTL",
    "LADM-RMTL",
    "APG-DC-RMTL-25%",
    "APG-DC-RMTL-10%",
    "LADM-DC-RMTL-25%",
    "LADM-DC-RMTL-10%",
]


def under(experiment, reading):
    """Return the experiment under one of its interpretations."""
    return next(
        scenario
        for scenario in (experiment, *experiment.others)
        if scenario.interpretation == reading
    )


@pytest.fixture
def smoke(tmp_path):
    return plan(load_experiment("table2", profile="smoke"), output=tmp_path)


def test_the_unqualified_name_is_the_table_of_the_first_paper():
    experiment = load_experiment("table2")
    assert (experiment.id, experiment.profile) == ("dcrmtl/table2", "quick")
    assert [m.label for m in experiment.spec.methods] == LABELS
    assert experiment.paper_datasets == ("enron", "delicious", "eurlex-dc", "mediamill")
    factors = ["1", "2", "2-eurlex", "12", "3", "4-mean", "5-ladm", "5-dc"]
    halves = [
        "6-simple",
        "6-trace-dc",
        "6-ridge",
        "6-ridge-dc",
        "7-apg",
        "7-ladm",
        "11",
        "4-more",
    ]
    assert [claim.id for claim in experiment.spec.claims] == [
        f"dcrmtl-{i}" for i in factors + halves
    ]


def test_every_claim_of_the_demo_is_judged_on_its_simulated_data():
    claims = load_experiment("table2", profile="demo").spec.claims
    assert [claim.id for claim in claims] == [
        f"dcrmtl-{i}-demo" for i in (1, 2, 3, 4, 6, 11)
    ]
    assert {
        name for claim in claims for check in claim.checks for name in check.dataset
    } == {"simulated-rmtl"}
    sequential = under(
        load_experiment("table2", profile="demo"), "one block after the other"
    ).spec.claims
    quantities = {check.quantity for claim in sequential for check in claim.checks}
    assert quantities == {"seconds", "auc"}


@pytest.mark.slow
def test_interpretations_change_the_encoding_the_intercept_and_the_rules():
    experiment = load_experiment("table2", profile="quick")

    def methods(reading):
        spec = under(experiment, reading).spec
        (coding,) = {data.options["coding"] for data in spec.datasets}
        params = {
            m.label: m.params["base"]["params"] if "base" in m.params else m.params
            for m in spec.methods
        }
        return coding, params

    coding, params = methods("labels as in the files")
    assert coding == "0/1"
    rmtl = [label for label in LABELS if "RMTL" in label]
    assert all(
        (params[m]["form"], params[m]["stop"], params[m]["tol"])
        == ("paper", "gap", 1e-3)
        for m in rmtl
    )
    coding, params = methods("labels -1/+1 with intercept")
    assert coding == "-1/+1"
    assert {m: p["fit_intercept"] for m, p in params.items()} == {
        m: m != "IndSVM" for m in LABELS
    }
    assert all(methods("printed stopping rules")[1][m]["stop"] == "paper" for m in rmtl)


@pytest.mark.parametrize("profile", ["quick", "real", "full"])
def test_the_protocol_is_that_of_the_paper(profile):
    spec = load_experiment("table2", profile=profile).spec
    assert (
        spec.split.kind,
        spec.split.train,
        spec.split.n_trials,
        spec.selection.folds,
    ) == ("random", 0.4, 5, 3)
    for method in spec.methods:
        assert all(len(spec.grids[name]) >= 5 for name in method.grid.values())


def test_algorithms_with_the_same_objective_share_a_search(smoke):
    shared = Counter(row.job.folds[0].key for row in smoke.wanted)
    # RMTL, and its quarter and tenth blocks with two solvers each; the other four alone
    assert sorted(shared.values()) == [1, 1, 1, 1, 2, 2, 2]


@pytest.mark.slow
def test_ten_rows_are_computed_and_nothing_is_left(smoke, tmp_path):
    summary = run(smoke)
    assert (summary.n_ok, summary.failures) == (10, [])
    again = plan(load_experiment("table2", profile="smoke"), output=tmp_path)
    assert missing_jobs(again, again.store()) == ([], [])


def test_claims_about_eurlex_are_tested_on_simulated_data_at_one_precision():
    spec = load_experiment("dcrmtl/speed").spec
    assert [claim.id for claim in spec.claims] == [
        f"dcrmtl-{i}-simulated"
        for i in (1, "1-quarters", 2, 3, 4, "7-apg", "7-ladm", "8-apg")
    ] + [
        "dcrmtl-8-apg-quarters-simulated",
        "dcrmtl-8-ladm-simulated",
        "dcrmtl-15",
        "dcrmtl-11-simulated",
    ]
    assert {
        name
        for claim in spec.claims
        for check in claim.checks
        for name in check.dataset
    } == {
        "eurlex-like (beta 0.3)",
        "eurlex-like (beta 1)",
    }
    for method in spec.methods:
        params = (
            method.params["base"]["params"]
            if "base" in method.params
            else method.params
        )
        assert (params["form"], params["stop"], params["tol"]) == ("paper", "gap", 1e-3)
