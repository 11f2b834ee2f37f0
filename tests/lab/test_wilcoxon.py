"""dcrmtl/wilcoxon: signed-rank tests for all numbers of blocks."""

import shutil

import numpy as np
import pytest

from mtlrun.engine.run import run
from mtlrun.engine.store import Store
from mtlrun.errors import ConfigError
from mtlrun.lab.experiment.claims import Verdict
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.plan import plan
from mtlrun.lab.report.build import build_report


@pytest.mark.parametrize("profile", ["demo", "real"])
def test_every_profile_is_valid(profile):
    spec = load_experiment("dcrmtl/wilcoxon", profile=profile).spec
    as_described = {claim.id for claim in spec.claims if claim.not_testable}
    assert as_described == {"dcrmtl-10", "dcrmtl-10-solvers"}
    assert spec.split.n_trials >= 2, "a single split gives no p-value"


def test_all_numbers_of_blocks_in_the_paper_are_tested():
    assert load_experiment("dcrmtl/wilcoxon", profile="full").spec.sweep.values == list(
        range(2, 11)
    )


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    output = tmp_path_factory.mktemp("wilcoxon")
    run_plan = plan(load_experiment("dcrmtl/wilcoxon", profile="smoke"), output=output)
    assert run(run_plan).failures == []
    *_, divided, solvers = run_plan.experiment.config["claims"]
    divided["checks"] = [
        {**check, "dataset": "simulated-rmtl"} for check in divided["checks"]
    ]
    solvers["checks"] = [
        {**check, "dataset": "simulated-rmtl (t 2)"} for check in solvers["checks"]
    ]
    run(run_plan)  # Nothing is computed; run.json takes the data set of this profile.
    return run_plan.folder


@pytest.mark.slow
def test_every_pair_and_number_of_blocks_has_a_p_value(smoke):
    *_, divided, solvers = build_report(smoke).claims
    assert len(divided.results) == 2 * 2
    assert len(solvers.results) == 1  # It does not depend on t.
    assert all(
        0 <= result.found <= 1 for result in [*divided.results, *solvers.results]
    )
    # 36 test rows of 20 labels, whose scores differ by more than rounding
    assert "2 splits of up to 720 pairs" in divided.results[0].text


def test_corrupted_scores_flip_the_claims_about_predictions(smoke, tmp_path):
    root = smoke.parents[2]
    output = tmp_path / "corrupted"
    shutil.copytree(root, output)
    folder = output / smoke.relative_to(root)
    store = Store.of_run(folder)

    def verdicts(shift):
        """Judge scores that differ by +-1 between the methods, and by a shift."""
        signs = np.tile([1.0, -1.0], 100)
        for path in (output / "cells").glob("*.json"):
            record = store.load(path.stem)
            if store.read_scores(record) is None:
                continue
            is_divided = "base" in record.params
            base = record.params["base"]["params"] if is_divided else record.params
            steps = is_divided + (base["solver"] == "ladm")
            store.save_scores(record, steps * (signs + shift))
            store.save(record)
        *_, divided, solvers = build_report(folder).claims
        return {divided.verdict, solvers.verdict}

    assert verdicts(shift=0.0) == {Verdict.CONFIRMED}
    assert verdicts(shift=1.0) == {Verdict.NOT_CONFIRMED}


def test_interpretations_state_what_is_paired():
    main = load_experiment("dcrmtl/wilcoxon", profile="quick")
    readings = {scenario.interpretation: scenario for scenario in (main, *main.others)}

    def asked(reading):
        claims = readings[reading].spec.claims
        return {
            (check.quantity, check.unit)
            for claim in claims
            for check in claim.checks
            if check.kind == "paired"
        }

    assert asked("scores, labels as in the files") == {(None, "prediction")}
    assert asked("AUC per label") == {("auc", "task")}
    assert asked("AUC per split") == {("auc", "trial")}
    kept = readings["parameters kept"].spec
    assert kept.grids == {"lam": [0.2], "beta": [0.001]}


def test_required_fields_are_checked(lab):
    with pytest.raises(ConfigError, match="'paired'"):
        lab.plan(lab.tiny.replace("kind: evaluate", "kind: test"))


def test_an_axis_is_optional(lab):
    claims = """\
claims:
  - id: one
    text: They do not differ.
    checks:
      - {kind: paired, quantity: auc, of: strong, over: weak, at_least: 0.05}
"""
    run_plan = lab.plan(lab.tiny.replace("kind: evaluate", "kind: test") + claims)
    assert [row.job.key for row in run_plan.rows] == [
        row.job.key for row in lab.plan().rows
    ]
