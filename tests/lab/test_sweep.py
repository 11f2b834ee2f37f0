"""Sweeps: the axis in the jobs, in run.json and in figures; invalid axes."""

import pytest

from mtlrun.engine.run import missing_jobs, run
from mtlrun.errors import ConfigError
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.plan import plan
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.formats import write_report

SWEEPS = [
    "fig2",
    "sensitivity-lambda",
    "sensitivity-t",
    "simulated-features",
    "simulated-tasks",
]

BLOCKS = """\
methods:
  - {label: weak, estimator: "lab.models:Ridge"}
  - label: blocks
    estimator: "lab.models:Blocks"
    params: {base: {estimator: "lab.models:Ridge"}}
"""


def swept(lab, axis):
    return lab.tiny.replace("kind: evaluate", "kind: sweep") + f"sweep: {axis}\n"


def test_a_ratio_changes_the_split_but_not_its_seed(lab):
    run_plan = lab.plan(swept(lab, "{name: ratio, split: train, values: [0.3, 0.6]}"))
    assert [row.dataset for row in run_plan.rows][::4] == [
        "simulated-rmtl (ratio 0.3)",
        "simulated-rmtl (ratio 0.6)",
    ]
    assert [row.job.split.train for row in run_plan.rows][::4] == [0.3, 0.6]
    assert len({row.job.split.seed for row in run_plan.rows}) == 2  # One per trial
    assert {(c["dataset"], c["value"]) for c in run_plan.run_json()["cells"]} == {
        ("simulated-rmtl (ratio 0.3)", 0.3),
        ("simulated-rmtl (ratio 0.6)", 0.6),
    }


def test_a_data_set_may_be_left_out_at_some_values(lab):
    axis = "{name: ratio, split: train, values: [0.3, 0.6], leave_out: {simulated-rmtl: [0.3], other: [0.6]}}"
    assert {row.dataset for row in lab.plan(swept(lab, axis)).rows} == {
        "simulated-rmtl (ratio 0.6)"
    }


def test_a_job_equals_that_of_the_experiment_without_the_axis(lab):
    run_plan = lab.plan(swept(lab, "{name: ratio, split: train, values: [0.3, 0.5]}"))
    plain = lab.plan()
    assert [row.job.key for row in run_plan.rows[4:]] == [
        row.job.key for row in plain.rows
    ]


def test_an_option_changes_the_data(lab):
    run_plan = lab.plan(swept(lab, "{name: columns, option: d, values: [4, 8]}"))
    assert [row.job.dataset.options["d"] for row in run_plan.rows][::4] == [4, 8]
    assert len({facts["fingerprint"] for facts in run_plan.datasets[""].values()}) == 2


def test_parameters_change_only_in_methods_that_have_them(lab):
    head = swept(lab, "{name: size, params: [base__alpha, n_blocks], values: [2, 3]}")
    text = head[: head.index("methods:")] + BLOCKS + head[head.index("sweep:") :]
    cells = {"weak": [], "blocks": []}
    for row in lab.plan(text).rows[::2]:
        cells[row.method].append((row.job.method.params, row.job.key))
    (first, _), (second, _) = cells["blocks"]
    assert (first["n_blocks"], first["base"]["params"]["alpha"]) == (2, 2)
    assert (second["n_blocks"], second["base"]["params"]["alpha"]) == (3, 3)
    assert len({key for _, key in cells["weak"]}) == 1, (
        "a method without the parameter is computed once"
    )


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        ("{name: a, split: train, values: [0.5, 1.5]}", ["1.5"]),
        ("{name: a, values: [1]}", ["split", "option", "params"]),
        (
            "{name: a, split: train, option: d, values: [0.5]}",
            ["split", "option", "params"],
        ),
        ("{name: a, params: beta, values: [1]}", ["'beta'"]),
        ("{name: a, params: [1], values: [1]}", ["'params'", "a text, not 1"]),
        (
            "{name: a, option: d, values: [4], quantities: [1]}",
            ["'quantities'", "a text, not 1"],
        ),
        ("{name: a, params: alpha, values: [1]}", ["alpha", "grid"]),
        ("{name: a, option: d, values: [0, 2], scale: log}", ["log scale", "positive"]),
        ("{name: a, option: d, values: [4, 4]}", ["same value"]),
        ("{name: a, option: d, values: [4], quantities: [acu]}", ["quantity 'acu'"]),
    ],
)
def test_an_invalid_axis_is_rejected(lab, lacking, axis, words):
    with pytest.raises(ConfigError) as caught:
        lab.plan(swept(lab, axis))
    assert not lacking(caught.value, *words)


def test_kind_and_section_belong_together(lab):
    with pytest.raises(ConfigError, match="belong together"):
        lab.plan(lab.tiny.replace("kind: evaluate", "kind: sweep"))
    with pytest.raises(ConfigError, match="belong together"):
        lab.plan(lab.tiny + "sweep: {name: a, option: d, values: [4]}\n")


def test_an_unknown_option_is_located(lab):
    with pytest.raises(ConfigError, match="dd"):
        lab.plan(swept(lab, "{name: a, option: dd, values: [4]}"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["fig2", "sensitivity-lambda", "simulated-features"]
)  # Split, parameter, option
def test_the_shipped_sweeps_run_and_are_then_up_to_date(name, tmp_path):
    experiment = load_experiment(f"dcrmtl/{name}", profile="smoke")
    only = [f"method={experiment.spec.methods[0].label},trial=0"]
    run_plan = plan(experiment, output=tmp_path, only=only)
    summary = run(run_plan)
    assert (summary.n_ok + summary.n_cached, summary.failures) == (
        len(run_plan.wanted),
        [],
    )
    report = build_report(run_plan.folder)
    paths = write_report(report, run_plan.folder)
    assert [p.name for p in paths if p.suffix == ".svg"] == ["simulated-rmtl.svg"]
    assert all(panel.curves[0].y for panel in report.figures[0].panels)
    again = plan(experiment, output=tmp_path, only=only)
    assert missing_jobs(again, again.store()) == ([], [])


@pytest.mark.parametrize("name", [*SWEEPS, "partitioning"])
def test_the_demo_is_valid_and_has_several_splits(name):
    assert load_experiment(f"dcrmtl/{name}", profile="demo").spec.split.n_trials >= 2


def test_lambda_is_swept_through_all_three_ranges():
    values = load_experiment(
        "dcrmtl/sensitivity-lambda", profile="full"
    ).spec.sweep.values
    for n_tasks in (53, 983):
        low = n_tasks**-0.5
        assert sum(v <= low for v in values) >= 2
        assert sum(low < v < 1 for v in values) >= 4
        assert sum(v >= 1 for v in values) >= 2


def test_partitioning_differs_only_in_the_strategy(tmp_path):
    run_plan = plan(
        load_experiment("dcrmtl/partitioning", profile="smoke"), output=tmp_path
    )
    assert len({row.job.key for row in run_plan.wanted}) == 16
    strategies = {row.job.method.params.get("partition") for row in run_plan.rows}
    assert strategies == {None, "random", "contiguous", "clustered"}


def test_the_error_of_the_coefficients_is_computed_if_they_are_known(tmp_path):
    run_plan = plan(
        load_experiment("dcrmtl/simulated-tasks", profile="smoke"), output=tmp_path
    )
    run_plan = plan(
        run_plan.experiment, only=["method=APG-RMTL,trial=0"], output=tmp_path
    )
    run(run_plan)
    errors = [
        run_plan.store().load(row.job.key).solver["truth_error"]
        for row in run_plan.wanted
    ]
    assert len(errors) == 2
    assert all(0 < error < 1 for error in errors)
