"""A claim that several runs of an experiment test is judged by all of them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from mtlrun.lab.report.claims import ClaimVerdict
from mtlrun.lab.report.summary import (
    distinct_claims,
    overview_json,
    overview_lines,
    overview_sections,
    read_overview,
    run_counts,
    with_most_interpretations,
)


@pytest.fixture
def two_runs(folder_maker, tmp_path):
    """Return a function that writes two runs of an experiment on different data.

    They have the given AUC of the second method, where the first one has 0.7.
    """

    def write(first: float, second: float, **fields: object) -> Path:
        check = {
            "kind": "order",
            "quantity": "auc",
            "methods": ["One Norm", "APG-RMTL"],
        }
        for profile, dataset, auc in (("a", "alpha", first), ("b", "beta", second)):
            maker = folder_maker(tmp_path)
            maker.folder = maker.folder.with_name(profile)
            facts = maker.info["datasets"]["alpha"]
            maker.info["datasets"] = {dataset: {**facts, "id": dataset}}
            maker.info["paper_datasets"] = [dataset]
            maker.info["profile"] = profile
            claim = {"id": "c", "text": "it is so", "checks": [check], **fields}
            maker.config["claims"] = [claim]
            for trial in range(2):
                maker.cell(dataset, "One Norm", trial, auc=0.7)
                maker.cell(dataset, "APG-RMTL", trial, auc=auc)
            maker.write()
        return tmp_path

    return write


def test_a_claim_that_fails_in_one_of_two_runs_does_not_hold(two_runs):
    overview = read_overview(two_runs(0.8, 0.6))
    ((entries, claim),) = distinct_claims(overview.entries)
    assert claim.verdict == "not confirmed"
    assert {entry.path[-1] for entry in entries} == {"a", "b"}
    assert [result.holds for result in claim.results] == [True, False]
    (content,) = json.loads(overview_json(overview))["claims"]
    assert len(content["runs"]) == 2


def test_a_claim_that_holds_in_both_runs_holds_on_the_data_of_both(two_runs):
    overview = read_overview(two_runs(0.8, 0.9))
    ((_, claim),) = distinct_claims(overview.entries)
    assert claim.verdict == "confirmed"
    table = overview_sections(overview)[0].grids[0]
    (row,) = table.rows
    assert row[-1] == "alpha, beta"


def test_a_comparison_on_missing_data_counts_only_if_no_run_has_them(two_runs):
    check = {"kind": "order", "quantity": "auc", "methods": ["One Norm", "APG-RMTL"]}
    check["dataset"] = ["alpha", "beta", "gamma"]
    overview = read_overview(two_runs(0.8, 0.9, checks=[check]))
    ((_, claim),) = distinct_claims(overview.entries)
    found = [(result.dataset, result.is_tested) for result in claim.results]
    assert sorted(found) == [("alpha", True), ("beta", True), ("gamma", False)]


@pytest.mark.parametrize(
    ("fingerprint", "n_compared", "verdict"),
    [("small", 1, "confirmed"), ("large", 2, "not confirmed")],
)
def test_a_comparison_of_two_runs_on_the_same_data_counts_once(
    folder_maker, tmp_path, fingerprint, n_compared, verdict
):
    check = {"kind": "order", "quantity": "auc", "methods": ["One Norm", "APG-RMTL"]}
    fingerprints = {"small": "small", "large": fingerprint}
    for profile, trials, auc in (("small", 2, 0.6), ("large", 4, 0.8)):
        maker = folder_maker(tmp_path)
        maker.folder = maker.folder.with_name(profile)
        maker.trials = trials
        maker.info["profile"] = profile
        maker.config["claims"] = [{"id": "c", "text": "it is so", "checks": [check]}]
        for trial in range(trials):
            for method, value in (("One Norm", 0.7), ("APG-RMTL", auc)):
                key = f"{profile}-{method}-{trial}"
                inputs = {"dataset": {"fingerprint": fingerprints[profile]}}
                maker.cell("alpha", method, trial, auc=value, key=key, inputs=inputs)
        maker.write()
    ((_, claim),) = distinct_claims(read_overview(tmp_path).entries)
    assert claim.verdict == verdict
    assert len(claim.results) == n_compared


def test_the_index_counts_jobs_claims_numbers_and_seconds_of_all_runs(
    folder_maker, tmp_path
):
    """The large run has most jobs, the small one most splits of the printed number."""
    check = {"kind": "order", "quantity": "auc", "methods": ["One Norm", "APG-RMTL"]}
    printed = {"dataset": "alpha", "quantity": "auc", "value": 0.7}
    for profile, trials, auc in (("large", 2, 0.7), ("small", 3, 0.9)):
        maker = folder_maker(tmp_path)
        maker.folder = maker.folder.with_name(profile)
        maker.info["profile"] = profile
        maker.config["claims"] = [
            {"id": name, "text": "it is so", "checks": [check]} for name in "cd"
        ]
        maker.config["reference"] = [
            {**printed, "method": method} for method in ("One Norm", "Nobody")
        ]
        methods = maker.info["methods"][: 3 if profile == "large" else 1]
        for method in methods:
            for trial in range(trials):
                key = f"{profile}-{method}-{trial}"
                maker.cell("alpha", method, trial, auc=auc, key=key)
        maker.write()
    overview = read_overview(tmp_path)
    total = json.loads(overview_json(overview))["total"]
    assert (total["cells"], total["done"], total["seconds"]) == (9, 9, 9.0)
    assert (total["within"], total["outside"], total["not run"]) == (0, 1, 1)
    assert total["not confirmed"] == 2
    # Artifacts and runs
    assert re.findall(r"\d+", overview_lines(overview)[0])[:2] == ["1", "2"]
    assert [run_counts(entry)[1] for entry in overview.entries] == ["1 of 1", "0 of 1"]


def test_interpretations_are_those_of_the_same_claim_in_another_experiment():
    def entry(name: str, *claims: ClaimVerdict) -> SimpleNamespace:
        report = SimpleNamespace(claims=claims, job_counts={"done": 1})
        return SimpleNamespace(id=name, fingerprints={}, report=report)

    claim = ClaimVerdict("a", "it is so", None, "confirmed", "")
    same = replace(claim, readings={"main": "confirmed", "other": "confirmed"})
    another = replace(same, id="b")
    first, second = entry("x", claim), entry("y", another, same)
    overview = SimpleNamespace(entries=[first, second])
    assert with_most_interpretations(overview, ((first,), claim)) == ((second,), same)
