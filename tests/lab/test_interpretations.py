"""Interpretations of a protocol: layers over file and profile, with separate jobs in
the same run.
"""

from __future__ import annotations

import json

import pytest

from mtlrun.engine.run import run
from mtlrun.errors import ConfigError, UnknownNameError
from mtlrun.lab.experiment.load import load_experiment, validate_file
from mtlrun.lab.merging import merge
from mtlrun.lab.plan import plan
from mtlrun.lab.report.build import build_report, is_partial

FILE = """
schema: 1
id: own/readings
title: Two data sets, three readings
metrics: [rmse]
datasets: [{id: simulated-rmtl, label: one, n: 30, d: 4, m: 3, kind: value}, {id: digits, scale: 16}]
split: {kind: random, train: 0.5, trials: 2}
methods:
  - {label: Ridge, estimator: IndependentRidge, params: {alpha: 1.0}}
  - {label: Mean, estimator: IndependentLasso, params: {alpha: 0.1}}
readings:
  half:
    why: Half of the rows.
    main: {rule: convention}
  few:
    why: A fifth of the rows.
    changes: {split: {train: 0.2}}
  strong:
    why: A strong penalty.
    changes:
      methods: {Ridge: {params: {alpha: 10.0}}}
      datasets: {"*": {metrics: [rmse, mse]}, one: {n: 40}, digits: {sample: 50}}
profiles:
  small: {datasets: [{id: simulated-rmtl, label: one, n: 20, d: 4, m: 3, kind: value}]}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "readings.yaml"
    path.write_text(FILE)
    return path


def test_an_interpretation_is_a_layer_over_the_profile(file):
    experiment = load_experiment(file, profile="small", overrides=["seed=3"])
    few, strong = experiment.others
    assert (experiment.interpretation, few.interpretation, strong.interpretation) == (
        "half",
        "few",
        "strong",
    )
    assert [scenario.spec.split.train for scenario in (experiment, few, strong)] == [
        0.5,
        0.2,
        0.5,
    ]
    assert [
        scenario.spec.datasets[0].options["n"] for scenario in (experiment, few, strong)
    ] == [
        20,
        20,
        40,
    ]
    assert [
        scenario.spec.methods[0].params["alpha"]
        for scenario in (experiment, few, strong)
    ] == [
        1.0,
        1.0,
        10.0,
    ]
    assert strong.spec.datasets[0].metrics == ["rmse", "mse"]
    assert {scenario.spec.seed for scenario in (experiment, few, strong)} == {3}
    validate_file(file)


def test_an_interpretation_that_changes_nothing_of_a_profile_is_left_out(file):
    file.write_text(
        FILE.replace("split: {train: 0.2}", "datasets: {digits: {sample: 20}}")
    )
    assert [
        other.interpretation for other in load_experiment(file, profile="small").others
    ] == ["strong"]


def test_only_requested_interpretations_are_computed(file, tmp_path):
    experiment = load_experiment(file, profile="small")

    def wanted(reading):
        return [
            row.name
            for row in plan(experiment, interpretation=reading, output=tmp_path).wanted
        ]

    assert (
        wanted(None)
        == wanted("half")
        == [f"one/{m}/trial {t}" for m in ("Ridge", "Mean") for t in (0, 1)]
    )
    assert wanted("few") == [f"{name} [few]" for name in wanted(None)]
    assert len(wanted("all")) == 12
    with pytest.raises(UnknownNameError, match="fewer"):
        wanted("fewer")


def test_interpretations_share_unchanged_jobs(file, tmp_path):
    file.write_text(FILE.replace('"*": {metrics: [rmse, mse]}, one: {n: 40}, ', ""))
    rows = plan(
        load_experiment(file, profile="small"), interpretation="all", output=tmp_path
    ).rows
    keys = {(row.reading, row.method): row.job.key for row in rows if row.trial == 0}
    assert keys["strong", "Mean"] == keys["", "Mean"]
    assert len({keys["", "Ridge"], keys["strong", "Ridge"], keys["few", "Ridge"]}) == 3


def test_one_folder_contains_all_interpretations(file, tmp_path):
    experiment = load_experiment(file, profile="small")
    run(plan(experiment, output=tmp_path))
    main = build_report(experiment.folder(tmp_path))
    assert (is_partial(main), len(main.rows), main.others) == (False, 2, [])
    run(plan(experiment, interpretation="all", output=tmp_path))
    report = build_report(experiment.folder(tmp_path))
    assert [other.name for other in report.others] == ["few", "strong"]
    assert report.job_counts["done"] == report.job_counts["planned"] == 12
    assert [row.value("rmse") for row in report.rows] == [
        row.value("rmse") for row in main.rows
    ]
    assert report.others[0].rows[0].value("rmse") > report.rows[0].value(
        "rmse"
    )  # Fewer rows
    assert not report.run.altered
    path = experiment.folder(tmp_path) / "run.json"
    path.write_text(path.read_text().replace("Two data sets", "Ten data sets"))
    assert build_report(experiment.folder(tmp_path)).run.altered
    assert (
        json.loads(path.read_text())["readings"]["few"]["config"]["split"]["train"]
        == 0.2
    )


@pytest.mark.parametrize(
    ("old", "new", "location"),
    [
        # No main interpretation.
        ("main: {rule: convention}", "changes: {seed: 1}", ":12:3"),
        (
            "main: {rule: convention}",
            "main: {rule: published level}",
            ":14:11",
        ),  # A level without a subject
        (
            "main: {rule: convention}",
            "main: {rule: published level, of: [Rigde]}",
            ":14:40",
        ),
        ("{split: {train: 0.2}}", "{profiles: {}}", ":17:15"),
        ("{split: {train: 0.2}}", "{split: {train: 2.0}}", ":17:30"),
        ("Ridge: {params", "Rigde: {params", ":21:17"),
    ],
)
def test_invalid_interpretations_are_rejected_with_their_location(
    file, old, new, location
):
    assert old in FILE
    file.write_text(FILE.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        validate_file(file)
    assert f"readings.yaml{location}" in str(caught.value), str(caught.value)


def test_one_line_changes_a_group_of_methods_or_a_field_of_all_checks(file):
    text = FILE.replace(
        "readings:\n",
        "  - label: DC-Mean\n    estimator: DivideAndConquerRMTL\n"
        "    params: {n_blocks: 2, base: {estimator: RobustMTL, params: {lam: 0.5}}}\n"
        "claims:\n"
        "  - {id: own-1, text: Low, checks: [{kind: value, quantity: rmse, of: Ridge, at_most: 1},\n"
        "                                    {kind: value, quantity: rmse, of: Mean, at_most: 2}]}\n"
        "readings:\n  grouped:\n    why: One line.\n    changes:\n"
        '      methods: {"*Mean": {params: {fit_intercept: false}}, "DC-*": {params: {lam: 0.7, n_blocks: 3}}}\n'
        '      claims: {"own-[12]": {quantity: mse}}\n',
    ).replace("metrics: [rmse]", "metrics: [rmse, mse]")
    file.write_text(text)
    experiment = load_experiment(file, profile="small")
    grouped = next(
        scenario
        for scenario in experiment.others
        if scenario.interpretation == "grouped"
    )
    ridge, mean, divided = (method.params for method in grouped.spec.methods)
    assert ridge == {"alpha": 1.0}
    assert mean == {"alpha": 0.1, "fit_intercept": False}
    assert divided == {
        "n_blocks": 3,
        "base": {
            "estimator": "RobustMTL",
            "params": {"lam": 0.7, "fit_intercept": False},
        },
    }
    assert [check.quantity for check in grouped.spec.claims[0].checks] == ["mse", "mse"]
    assert [check.quantity for check in experiment.spec.claims[0].checks] == [
        "rmse",
        "rmse",
    ]

    line = next(i for i, row in enumerate(text.split("\n"), 1) if '"*Mean"' in row)
    file.write_text(text.replace('"*Mean"', '"*Meen"'))
    with pytest.raises(ConfigError, match=rf":{line}:.*[*]Meen"):
        load_experiment(file, profile="small")
    file.write_text(text.replace("{fit_intercept: false}", "{fit_intercepts: false}"))
    with pytest.raises(ConfigError, match=rf":{line}:.*fit_intercepts"):
        load_experiment(file, profile="small")
    file.write_text(text.replace("{quantity: mse}", "{quantiti: mse}"))
    with pytest.raises(ConfigError, match=rf":{line + 1}:.*quantiti"):
        load_experiment(file, profile="small")


def test_runs_with_interpretations_are_merged_by_interpretation(file, tmp_path):
    experiment = load_experiment(file, profile="small")
    for output, reading in (("one", "half"), ("two", "all")):
        run(plan(experiment, interpretation=reading, output=tmp_path / output))
    first, second = (
        experiment.folder(tmp_path / "one"),
        experiment.folder(tmp_path / "two"),
    )
    assert merge(first, second).copied == 8
    assert merge(first, second).copied == 0
