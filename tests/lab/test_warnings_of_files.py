"""`mtlrun validate` says which settings of a valid file act otherwise than they seem."""

import pytest

from mtlrun.errors import ConfigError
from mtlrun.lab.experiment.load import file_warnings, load_experiment, validate_file

EXPERIMENT = """schema: 1
id: mine/mine
title: mine
datasets: [{id: simulated-rmtl, label: small}]
split: {kind: random, train: 0.5, trials: TRIALS}
metrics: [rmse]
methods: [{label: A, estimator: IndependentRidge}, {label: B, estimator: PooledRidge}]
claims:
  - {id: loses, text: A loses, checks: [CHECK]}
reference: [{file: table.csv, quantity: rmse}]
tolerance: {sigmas: 2}
"""
CHECK = "{kind: difference, quantity: rmse, of: A, over: B, at_least: 0}"


def warnings(folder, *, table="small,1.5±0.1,1.2±0.1", check=CHECK, trials=5, more=""):
    (folder / "table.csv").write_text(f"data set,A,B\n{table}\n", encoding="utf-8")
    text = EXPERIMENT.replace("CHECK", check).replace("TRIALS", str(trials))
    path = folder / "mine.yaml"
    path.write_text(text + more, encoding="utf-8")
    validate_file(path)
    return file_warnings(path)


def test_nothing_is_said_of_a_file_whose_settings_act(tmp_path):
    assert warnings(tmp_path) == []


def test_numbers_without_deviation_to_which_sigmas_does_not_apply_are_counted(tmp_path):
    (line,) = warnings(tmp_path, table="small,1.5±0.1,1.2")
    assert line.startswith(f"{tmp_path / 'mine.yaml'}:11:12:")
    assert "'sigmas'" in line
    assert "1 published number" in line


def test_sigmas_of_another_quantity_are_not_missed(tmp_path):
    more = "  - {quantity: rmse, relative: 0.1}\n"
    tolerance = "tolerance:\n  - {sigmas: 2}\n"
    path = tmp_path / "mine.yaml"
    warnings(tmp_path, table="small,1.5,1.2")
    text = path.read_text(encoding="utf-8")
    text = text.replace("tolerance: {sigmas: 2}\n", tolerance + more)
    path.write_text(text, encoding="utf-8")
    assert file_warnings(path) == []


@pytest.mark.parametrize("trials", [1, 2])
def test_a_default_profile_with_too_few_splits_for_a_claim_is_named(tmp_path, trials):
    more = f"profiles: {{quick: {{split: {{trials: {trials}}}}}}}\n"
    (line,) = warnings(tmp_path, more=more)
    assert line.startswith(f"{tmp_path / 'mine.yaml'}:9:5:")
    assert "'quick'" in line
    assert "'loses'" in line


@pytest.mark.parametrize(
    "check",
    [
        CHECK.replace("}", ", effect: 0.1}"),
        CHECK.replace("difference", "ratio").replace("rmse", "seconds"),
        CHECK.replace("difference", "paired").replace("}", ", unit: task}"),
    ],
)
def test_checks_that_need_no_standard_error_need_no_splits(tmp_path, check):
    assert warnings(tmp_path, check=check, trials=1) == []


def test_splits_of_data_sets_that_a_claim_leaves_out_do_not_count(tmp_path):
    more = "profiles: {quick: {datasets: [{id: simulated-rmtl, label: large}, {id: simulated-fetr, label: small}]}}"
    check = CHECK.replace("}", ", dataset: small}")
    (line,) = warnings(tmp_path, check=check, trials=1, more=more)
    assert "of small" in line


def test_a_missing_table_is_explained_once(tmp_path):
    warnings(tmp_path)
    (tmp_path / "table.csv").unlink()
    with pytest.raises(ConfigError, match=r"table\.csv: cannot be read") as caught:
        validate_file(tmp_path / "mine.yaml")
    assert caught.value.remedy is None
    assert "Errno" not in caught.value.message


@pytest.mark.parametrize(
    ("more", "source"),
    [
        ("", "ours"),
        ("paper: {cite: A, artefact: Table 1}\n", "paper"),
    ],
)
def test_claims_without_a_paper_are_our_own(tmp_path, more, source):
    warnings(tmp_path, more=more)
    (claim,) = load_experiment(tmp_path / "mine.yaml").spec.claims
    assert claim.source == source
