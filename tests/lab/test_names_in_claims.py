"""`mtlrun validate` finds claims and published numbers that can never be compared."""

import pytest

from mtlrun.errors import ConfigError
from mtlrun.lab.experiment.load import validate_file

CHECK = "{kind: ratio, quantity: rmse, of: A, over: B, dataset: small, at_least: 1}"
OTHER_RATIO = CHECK.replace("of: A, over: B", "of: B, over: A").replace(
    "at_least: 1", "at_most: 0.5"
)


def validate(folder, *, checks=CHECK, table="", kind="evaluate", more=""):
    """Validate an experiment with a claim and a printed table."""
    (folder / "table.csv").write_text(f"data set,A,B\nsmall,1.5,1.2\n{table}")
    path = folder / "mine.yaml"
    path.write_text(f"""schema: 1
id: mine/mine
title: mine
kind: {kind}
datasets: [{{id: simulated-rmtl, label: small}}]
split: {{kind: random, train: 0.5, trials: 1}}
metrics: [rmse]
methods: [{{label: A, estimator: IndependentRidge}}, {{label: B, estimator: PooledRidge}}]
claims:
  - {{id: one, text: A loses, checks: [{checks}]}}
reference: [{{file: table.csv, quantity: rmse}}]
{more}""")
    validate_file(path)


def refused(folder, text, **parts):
    with pytest.raises(ConfigError, match=text) as caught:
        validate(folder, **parts)
    assert f"{folder / 'mine.yaml'}:" in str(caught.value)


def test_a_check_and_a_table_of_the_experiment_are_valid(tmp_path):
    validate(tmp_path)
    validate(tmp_path, checks=CHECK.replace("small", "simulated-rmtl"))


@pytest.mark.parametrize("name", ["smal", "jura", "[small, jura]"])
def test_a_check_names_a_data_set_of_the_experiment(tmp_path, name):
    refused(tmp_path, "data set", checks=CHECK.replace("small", name))


@pytest.mark.parametrize("field", ["of: A", "over: B"])
def test_a_check_names_methods_of_the_experiment(tmp_path, field):
    refused(tmp_path, "method 'C'", checks=CHECK.replace(field, f"{field[:-1]}C"))


def test_the_rows_of_a_printed_table_are_data_sets_of_the_experiment(tmp_path):
    refused(tmp_path, "data set.* 'jura'", table="jura,1.0,1.1\n")


def test_data_sets_of_other_profiles_may_be_named(tmp_path):
    more = "profiles: {large: {datasets: [jura]}}\n"
    checks = CHECK.replace("small", "[small, jura]")
    validate(tmp_path, checks=checks, table="jura,1.0,1.1\n", more=more)


def test_the_points_of_a_sweep_may_be_named(tmp_path):
    more = "sweep: {name: part, split: train, values: [0.4, 0.6]}\n"
    checks = CHECK.replace("small", "'small (part 0.4)'")
    table = "small (part 0.4),1.0,1.1\n"
    validate(tmp_path, checks=checks, table=table, kind="sweep", more=more)
    checks = CHECK.replace("small", "'smal (part 0.4)'")
    refused(tmp_path, "data set.* 'smal'", checks=checks, kind="sweep", more=more)


@pytest.mark.parametrize(
    "checks",
    [
        CHECK.replace("at_least: 1", "at_least: 2, at_most: 1"),
        f"{CHECK}, {CHECK.replace('at_least: 1', 'at_most: 0.5')}",
        f"{CHECK}, {CHECK.replace('at_least: 1', 'about: 0.4')}",
    ],
)
def test_bounds_of_a_number_do_not_exclude_each_other(tmp_path, checks):
    refused(tmp_path, "at least", checks=checks)


@pytest.mark.parametrize(
    "checks",
    [
        CHECK.replace("at_least: 1", "at_least: 1, at_most: 1"),
        f"{CHECK}, {CHECK.replace('at_least: 1', 'at_most: 3')}",
        f"{CHECK}, {OTHER_RATIO}",
    ],
)
def test_bounds_that_leave_a_range_are_valid(tmp_path, checks):
    validate(tmp_path, checks=checks)
