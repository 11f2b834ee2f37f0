"""Experiments whose jobs are analyses: valid files, keys, execution and records."""

import contextlib
import json

import pytest

from mtlrun.engine.plan import job_states
from mtlrun.engine.record import Seconds
from mtlrun.engine.run import Runner, missing_jobs
from mtlrun.errors import ConfigError
from mtlrun.lab.plan import plan
from mtlrun.lab.report.build import build_report
from mtlrun.parallel.outcome import Outcome, attempt
from mtlrun.parallel.pool import Pool
from mtlrun.parallel.status import TIMEOUT

TRACE = """\
schema: 1
id: lab/walks
title: Walks
kind: trace
datasets: [DATA]
repeats: 2
metrics: [end, rows]
methods:
  - {label: short, measure: "lab.measures:walk"}
  - {label: long, measure: "lab.measures:walk", params: {steps: 5}}
"""
AUDIT = """\
schema: 1
id: lab/audit
title: An audit
kind: audit
metrics: [end]
methods:
  - {label: audit, measure: "lab.measures:audit", params: {published: mtmkl/table1.csv}}
"""


@pytest.fixture
def trace(lab):
    return TRACE.replace("DATA", lab.data)


def jobs(run_plan):
    return [row.job for row in run_plan.rows]


def states(run_plan):
    return [state.name for state in job_states(run_plan)]


def records(run_plan):
    return [run_plan.store().read(job.key) for job in jobs(run_plan)]


def test_an_analysis_is_computed_recorded_and_then_up_to_date(lab, trace):
    summary = lab.run(trace)
    assert (summary.n_ok, summary.exit_code) == (4, 0)
    run_plan = lab.plan(trace)
    assert set(states(run_plan)) == {"done"}
    short = records(run_plan)[0]
    assert short.family == "measure"
    assert short.metrics == {
        "end": pytest.approx(short.result["curves"]["walk"]["y"][-1]),
        "rows": 60,
    }
    assert short.result["curves"]["walk"]["marks"] == {"half": 1.5}
    assert short.result["matrices"]["outer"]["centre"] == 0
    assert short.result["lines"] == ["A random walk."]
    assert short.result["tables"]["steps"]["rows"][2][1] == short.metrics["end"]
    assert (
        short.solver["n_iter"],
        short.counts["n_samples"],
        short.environment["serial"],
    ) == (3, 60, True)
    assert short.seconds.total > 0
    build_report(run_plan.folder)


def test_repeats_have_their_own_seeds_which_methods_share(lab, trace):
    splits = {(row.method, row.trial): row.job.split for row in lab.plan(trace).rows}
    seeds = {key: split.seed for key, split in splits.items()}
    assert splits["short", 0].kind == "repeat"
    assert seeds["short", 0] == seeds["long", 0] != seeds["short", 1]


def test_editing_the_analysis_reruns_it(lab, trace):
    lab.run(trace)
    path = lab.root / "lab" / "measures.py"
    path.write_text(path.read_text() + "# a comment\n")
    assert set(states(lab.plan(trace))) == {"done"}
    path.write_text(path.read_text().replace("rng.normal", "3 * rng.normal"))
    (changed,) = {(state.name, state.reason) for state in job_states(lab.plan(trace))}
    assert changed[0] == "outdated"
    assert "lab/measures.py changed" in changed[1]


def test_only_selected_jobs_are_computed(lab, trace):
    assert lab.run(trace, only=["method=long,trial=1"]).n_ok == 1
    assert states(lab.plan(trace)) == ["missing", "missing", "missing", "done"]


def test_timed_kinds_run_serially_and_have_threads_in_their_keys(lab, trace):
    assert lab.plan(trace).timed
    untimed = lab.plan(trace.replace("kind: trace", "kind: inspect"))
    assert not untimed.timed
    assert jobs(untimed)[0].scoring.timing is None
    assert (
        jobs(lab.plan(trace + "timing: {threads: 2}\n"))[0].scoring.timing.threads == 2
    )


class StopsSlowOnes(Pool):
    """Runs items in this process, but stops slow jobs at once."""

    @contextlib.contextmanager
    def keep_workers(self, max_workers=None):
        yield self

    def run(self, function, items):
        for keys, arguments in items:
            ((job, _),) = arguments[0]
            if "slow" in job.method.params:
                yield keys, Outcome(TIMEOUT, error="stopped")
            else:
                yield keys, attempt(function, *arguments)


def test_a_timeout_is_a_result_until_the_limit_is_raised(lab, trace):
    slow = trace.replace("steps: 5", "slow: 30").replace(
        "repeats: 2", "limits: {seconds: 5}"
    )
    run_plan = lab.plan(slow)
    summary = Runner(run_plan, StopsSlowOnes(seconds=run_plan.limit)).run()
    assert (summary.n_ok, summary.n_failed, summary.exit_code) == (2, 0, 0)
    short, long = records(run_plan)
    assert (short.status, long.status, long.seconds) == (
        "ok",
        TIMEOUT,
        Seconds(limit=5),
    )
    assert missing_jobs(run_plan, run_plan.store()) == ([], [])
    build_report(run_plan.folder)
    raised = lab.plan(slow.replace("seconds: 5", "seconds: 6"))
    assert states(raised) == ["done", "failed"]


def test_an_invalid_result_is_a_failed_row(lab, trace):
    summary = lab.run(trace.replace('walk", params: {steps: 5}', 'nothing"'))
    assert (summary.n_ok, summary.n_failed) == (2, 2)
    assert "not an AnalysisResult" in summary.failures[0].error


def test_not_converged_is_a_status(lab, trace):
    lab.run(trace.replace("steps: 5", "converged: false"))
    assert [
        r.status
        for r in records(lab.plan(trace.replace("steps: 5", "converged: false")))[1:3]
    ] == [
        "ok",
        "not_converged",
    ]


def test_an_axis_varies_parameters_and_options(lab, trace):
    text = trace.replace("kind: trace", "kind: scaling")
    run_plan = lab.plan(text + "sweep: {name: steps, params: steps, values: [2, 4]}\n")
    assert [job.method.params["steps"] for job in jobs(run_plan)] == [
        2,
        2,
        2,
        2,
        4,
        4,
        4,
        4,
    ]
    run_plan = lab.plan(
        text + "sweep: {name: rows, option: n, values: [20, 40], scale: log}\n"
    )
    assert [job.dataset.options["n"] for job in jobs(run_plan)[::4]] == [20, 40]
    summary = lab.run(
        text + "sweep: {name: rows, option: n, values: [20, 40], scale: log}\n"
    )
    assert summary.n_ok == 8
    build_report(run_plan.folder)


def test_an_audit_needs_no_data_and_depends_on_the_published_file(lab):
    run_plan = lab.plan(AUDIT)
    (row,) = run_plan.rows
    assert (row.dataset, row.job.dataset) == ("published", None)
    assert list(row.job.method.published) == ["mtmkl/table1.csv"]
    assert run_plan.datasets[""]["published"]["files"] == row.job.method.published
    assert lab.run(AUDIT).n_ok == 1
    run = json.loads((run_plan.folder / "run.json").read_text())
    assert (run["config"]["repeats"], run["quantities"]) == (1, {})
    build_report(run_plan.folder)


def test_published_curves_are_in_run_json(lab, trace, tmp_path):
    trace += f"published: {tmp_path / 'curves.yaml'}\n"
    curves = "curves: [{dataset: a, method: short, name: walk, x: [1, 2], y: [3, 4], source: figure 1}]"
    (tmp_path / "curves.yaml").write_text(curves)
    run_json = lab.plan(trace).run_json()
    assert run_json["published"]["curves"][0]["y"] == [3, 4]
    for text, problem in {
        curves.replace(
            "[3, 4]", "[3]"
        ): r"curves\.yaml:1:10: 'x' and 'y' must have the same length",
        curves.replace(
            "[3, 4]", "[3, x]"
        ): r"curves\.yaml:1:68: an entry of 'y' must be a number",
        curves.replace("x: [1, 2]", "x: 1"): r"curves\.yaml:1:53: 'x' must be a list",
        curves.replace("name: walk, ", ""): r"curves\.yaml:1:10: missing key 'name'",
        curves.replace(
            "source:", "sauce:"
        ): r"curves\.yaml:1:72: unknown key 'sauce'.*(?s:.*)valid keys: dataset, ",
        "curves: [a]": r"curves\.yaml:1:10: an entry of 'curves' must be a mapping",
        "[1]": r"curves\.yaml:1:1: the file must be a mapping",
    }.items():
        (tmp_path / "curves.yaml").write_text(text)
        with pytest.raises(ConfigError, match=problem):
            lab.plan(trace)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("measures:walk", "measures:wlak", "Did you mean 'walk'"),
        ("steps: 5", "stpes: 5", "did you mean 'steps'"),
        ("steps: 5", "seed: 5", "has no parameter 'seed'"),
        ('"lab.measures:walk"}', "data-set-statistic}", "data-set-statistics"),
        ("measure:", "estimator:", "missing key 'measure'"),
        ("repeats: 2", "split: {train: 0.5}", "kind: trace has no 'split'"),
        ("repeats: 2", "selection: {folds: 2}", "kind: trace has no 'selection'"),
        ("repeats: 2", "timing: {repeats: 2}", "no 'repeats' in timing"),
        (
            "repeats: 2",
            "sweep: {name: a, split: train, values: [0.1]}",
            "no 'split' in sweep",
        ),
        ("params: {", "grid: {steps: [1]}, params: {", "no 'grid' in methods"),
        ("kind: trace", "kind: evaluate", "no 'measure' in methods"),
        ("kind: trace", "kind: evaluate", "kind: evaluate has no 'repeats'"),
        (
            "repeats: 2",
            "published: none.yaml",
            "no file of published numbers 'none.yaml'",
        ),
        ("rank: 2}", "rank: 2, metrics: [auc]}", "no 'metrics' in datasets"),
        ("rank: 2}", "rank: 2, split: {train: 0.5}}", "no 'split' in datasets"),
        (
            "repeats: 2",
            "sweep: {name: a, params: stpes, values: [1]}",
            "no method has a parameter 'stpes'",
        ),
    ],
)
def test_invalid_files_are_rejected(lab, trace, old, new, message):
    with pytest.raises(ConfigError, match=message):
        lab.plan(trace.replace(old, new, 1))


def test_an_analysis_without_parameters_cannot_have_an_axis(lab, trace):
    methods = "methods: [{label: a, measure: data-set-statistics}]\n"
    text = trace[: trace.index("methods:")].replace("[end, rows]", "[n]") + methods
    lab.plan(text)
    with pytest.raises(ConfigError, match="has a parameter"):
        lab.plan(text + "sweep: {name: a, params: steps, values: [1]}\n")


def test_quantities_are_those_of_the_analyses(lab):
    text = AUDIT.replace('audit", params: {published: mtmkl/table1.csv}', "walk")
    registered = text.replace('"lab.measures:walk}', "data-set-statistics}").replace(
        "[end]", "[n, cardinalty]"
    )
    with pytest.raises(ConfigError, match="unknown quantity 'cardinalty'") as caught:
        lab.plan(registered)
    assert "'cardinality'" in str(caught.value)
    assert "a data set" in str(caught.value)


DECLARED = """
from mtlrun.catalog.analysis import AnalysisResult, analysis

@analysis({"end": "where the walk ends", "steps": "steps"}, lower=("end",))
def walk(dataset, *, seed, more=0):
    return AnalysisResult({"end": 1.0, "steps": 2.0} | ({"more": 3.0} if more else {}))
"""


def test_quantities_declared_by_a_function_of_the_user_are_checked(lab, trace):
    (lab.root / "lab" / "measures.py").write_text(DECLARED)
    text = trace.replace("steps: 5", "more: 1").replace("rows]", "steps]")
    with pytest.raises(ConfigError, match="unknown quantity 'stps'") as caught:
        lab.plan(text.replace("steps]", "stps]"))
    assert "'steps'" in str(caught.value)
    with pytest.raises(ConfigError, match="a data set"):
        lab.plan(text.replace(f"datasets: [{lab.data}]\n", ""))
    quantities = {"end": {"text": "where the walk ends", "greater_is_better": False}}
    assert (
        lab.plan(text.replace("end, steps", "end")).run_json()["quantities"]
        == quantities
    )
    summary = lab.run(text)
    assert (summary.n_ok, summary.n_failed) == (2, 2)
    assert "not declare: more" in summary.failures[0].error


def test_an_axis_over_options_needs_data_sets(lab):
    text = (
        AUDIT.replace("kind: audit", "kind: scaling")
        + "sweep: {name: rows, option: n, values: [20, 40]}\n"
    )
    with pytest.raises(ConfigError, match="whose option could change"):
        lab.plan(text)


def test_a_file_of_published_numbers_must_exist(lab):
    with pytest.raises(ConfigError, match="of published numbers"):
        lab.plan(AUDIT.replace("table1.csv", "tabel1.csv"))


def test_the_registered_analysis_runs(lab, tmp_path):
    text = f"""\
schema: 1
id: lab/facts
title: Facts
kind: inspect
datasets: [{lab.data}]
metrics: [n, positive_share]
methods:
  - {{label: facts, measure: data-set-statistics}}
"""
    assert lab.run(text, n_jobs=1).n_ok == 1
    run_plan = plan(lab.plan(text).experiment, output=lab.output)
    assert records(run_plan)[0].metrics["n"] == 60
    assert run_plan.run_json()["quantities"]["n"] == {
        "text": "rows",
        "greater_is_better": None,
    }
