"""Runs: failures as rows, resuming, two processes, interruption, timing; items are
those of the acceptance list.
"""

import io
import json
import re
import sys
import time

import pytest

from mtlrun.engine.packed import compact
from mtlrun.engine.plan import job_states
from mtlrun.engine.record import SearchResult
from mtlrun.engine.run import run
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.plan import plan
from mtlrun.parallel.progress import PlainProgress
from mtlrun.utils.processes import is_locked

FAILING = """\
  - {label: broken, estimator: "lab.models:Broken"}
  - {label: diverging, estimator: "lab.models:Diverging"}
  - {label: lazy, estimator: "lab.models:Lazy"}
  - {label: bad grid, estimator: "lab.models:Ridge", grid: {alpha: [-1, -2]}}
"""

AGAIN = """
import sys
from mtlrun.engine.run import run
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.plan import plan
from mtlrun.parallel.progress import PlainProgress
from mtlrun.utils.processes import is_locked

summary = run(plan(load_experiment("tiny.yaml"), output="runs"), progress=PlainProgress(sys.stdout))
assert not {"mtlrun.engine.fit", "mtlrun.solvers"} & set(sys.modules)
"""


def run_here():
    """Run the experiment of the current folder."""
    summary = run(plan(load_experiment("tiny.yaml"), output="runs"))
    sys.stdout.write(json.dumps(counts(summary)))


def families(lab, family):
    return sum(record.family == family for record in lab.records().values())


def counts(summary):
    return summary.n_ok, summary.n_failed, summary.n_cached, summary.n_left


def messages(stream):
    return [line for line in stream.getvalue().splitlines() if not line.startswith("[")]


def test_a_finished_run_has_all_its_files(lab):
    stream = io.StringIO()
    summary = run(lab.plan(), progress=PlainProgress(stream))
    assert counts(summary) == (4, 0, 0, 0)
    assert summary.exit_code == 0
    assert summary.run_dir == lab.output / "lab/tiny/full"
    assert {p.name for p in summary.run_dir.iterdir()} == {
        "run.json",
        "provenance.json",
    }
    assert not any(map(is_locked, (lab.output / "cells").glob("*.lock")))
    assert messages(stream) == [
        "lab/tiny: 4 of 4 results to compute, after 4 search folds"
    ]
    record = lab.results()["strong", 1]
    assert (record.family, record.status, record.inputs["dataset"]["id"]) == (
        "fit",
        "ok",
        "simulated-rmtl",
    )
    assert 0 <= record.metrics["auc"] <= 1
    assert len(record.per_task["auc"]) == 6
    assert {"n_tasks": 6, "n_train": 30, "n_test": 30}.items() <= record.counts.items()
    assert record.params["alpha"] == record.selection.chosen["alpha"]
    folds = [lab.records()[key] for key in record.inputs["search"]["keys"]]
    assert record.selection.scores == [
        list(pair) for pair in zip(*(f.selection.scores for f in folds), strict=True)
    ]
    assert record.seconds.search == sum(fold.seconds.total for fold in folds)
    assert record.solver == {"converged": True, "n_iter": 1, "objective": 2.0}
    assert record.seconds.fit in record.seconds.fit_all
    assert record.environment["threads"] == 1
    assert lab.results()["weak", 0].selection == SearchResult()


def test_item_1_failures_are_rows_and_other_jobs_finish(lab):
    stream = io.StringIO()
    summary = run(lab.plan(lab.tiny + FAILING), progress=PlainProgress(stream))
    assert counts(summary) == (6, 6, 0, 0)
    assert summary.exit_code == 1
    rows = lab.results(lab.tiny + FAILING)
    assert {
        name: rows[name, 0].status
        for name in ("strong", "broken", "diverging", "lazy", "bad grid")
    } == {
        "strong": "ok",
        "broken": "failed",
        "diverging": "diverged",
        "lazy": "not_converged",
        "bad grid": "failed",
    }
    assert rows["broken", 0].error == "RuntimeError: this solver never works"
    assert "lab/models.py" in rows["broken", 0].log
    assert str(lab.root) not in rows["broken", 0].log
    assert rows["lazy", 0].solver["message"] == "stopped early"
    assert rows["bad grid", 0].error.startswith(
        "selection: no candidate has a score: fold 0: ValueError: alpha must"
    )
    assert [(f.name, f.status) for f in summary.failures[:1]] == [
        ("simulated-rmtl/broken/trial 0", "failed")
    ]
    assert (lab.output / summary.failures[0].file).exists()


def test_an_edited_solver_reruns_its_jobs_and_is_named(lab):
    text = lab.tiny + '  - {label: other, estimator: "sklearn.linear_model:Ridge"}\n'
    lab.run(text)
    lab.models.write_text(lab.models.read_text().replace("* np.inf", "* -np.inf"))
    stream = io.StringIO()
    summary = lab.run(
        text, only=["method=weak,method=other"], progress=PlainProgress(stream)
    )
    assert counts(summary) == (2, 0, 2, 0)
    assert (
        messages(stream)[0]
        == "rerun simulated-rmtl/weak/2 trials: lab/models.py changed"
    )


def test_a_failure_is_retried_under_the_same_key(lab):
    text = lab.tiny + FAILING
    lab.run(text, only=["method=broken"])
    stream = io.StringIO()
    assert counts(
        lab.run(text, only=["method=broken"], progress=PlainProgress(stream))
    ) == (
        0,
        2,
        0,
        0,
    )
    assert (
        messages(stream)[0]
        == "rerun simulated-rmtl/broken/2 trials: failed: RuntimeError: this solver never works"
    )


@pytest.mark.slow
def test_item_2_a_finished_target_starts_no_solver(lab):
    lab.run()

    def again():
        # As in a new process.
        for name in list(sys.modules):
            if name.partition(".")[0] == "mtlrun":
                del sys.modules[name]
        exec(AGAIN, {})

    process = lab.begin(again)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert out == "all 4 results up to date\n"


def test_an_up_to_date_run_changes_no_file(lab):
    folder = lab.run().run_dir
    before = {
        path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()
    }
    assert counts(lab.run()) == (0, 0, 4, 0)
    assert {
        path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()
    } == before


def test_a_search_of_a_packed_job_is_not_repeated(lab):
    plain = lab.tiny.replace(
        "    grid: {alpha: [0.1, 10]}\n",
        "    grid: {alpha: [0.1, 10]}\n    select_with: {slow: 0}\n",
    )
    lab.run(plain)
    run_plan = lab.plan(plain)
    before = compact(lab.results(plain)["strong", 0]).selection
    run_plan.store().pack(row.job.key for row in run_plan.rows)
    for path in (lab.output / "cells").glob("*.json"):
        path.unlink()
    other = plain.replace(
        '"lab.models:Ridge"\n    grid',
        '"lab.models:Ridge"\n    params: {slow: 0.001}\n    grid',
    )
    summary = lab.run(other)
    assert (summary.n_ok, summary.n_cached) == (2, 2)
    assert len(lab.records()) == 2
    assert lab.results(other)["strong", 0].selection == before
    again = lab.run(other, force=True)
    assert again.n_ok == 4
    assert {record.family for record in lab.records().values()} == {"fit", "fold"}


def test_force_recomputes_all_jobs(lab):
    lab.run()
    before = {key: record.seconds for key, record in lab.records().items()}
    assert counts(lab.run(force=True, only=["method=strong"])) == (2, 0, 0, 0)
    changed = {
        key for key, record in lab.records().items() if record.seconds != before[key]
    }
    jobs = [row.job for row in lab.plan(only=["method=strong"]).wanted]
    assert changed == {job.key for job in jobs} | {
        fold.key for job in jobs for fold in job.folds
    }


SLOW = '  - {label: slow, estimator: "lab.models:Ridge", params: {slow: 0.1}}\n'


def wait_for(condition, seconds=240):
    end = time.time() + seconds
    while not condition():
        assert time.time() < end, "nothing happened"
        time.sleep(0.02)


def test_item_3_after_a_kill_exactly_the_missing_jobs_are_computed(lab):
    text = lab.tiny.replace("trials: 2", "trials: 5") + SLOW
    lab.write(text)
    process = lab.begin(
        run_here, LAB_PACE="1000"
    )  # Killed in the first slow fit, after all others.
    cells_folder = lab.output / "cells"
    wait_for(lambda: len(list(cells_folder.glob("*.json"))) == 20)
    process.kill()
    process.communicate()
    finished = lab.records()  # All files are readable.
    assert len(finished) == 20
    before = {key: (cells_folder / f"{key}.json").read_text() for key in finished}
    stream = io.StringIO()
    summary = run(lab.plan(text), progress=PlainProgress(stream))
    done = sum(record.family == "fit" for record in finished.values())
    assert counts(summary) == (15 - done, 0, done, 0)
    assert {
        key: (cells_folder / f"{key}.json").read_text() for key in finished
    } == before
    assert not any(map(is_locked, cells_folder.glob("*.lock")))


@pytest.mark.slow
def test_item_4_two_processes_compute_no_job_twice(lab):
    journal = lab.root / "journal"
    text = lab.tiny.replace("trials: 2", "trials: 4").replace(
        "params: {alpha: 0.001}", "params: {alpha: 0.001, slow: 0.1}"
    )
    lab.write(text)
    processes = [lab.begin(run_here, LAB_JOURNAL=str(journal)) for _ in range(2)]
    outputs = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    # strong: 4 trials x (2 folds x 2 candidates + 1), weak: 4 trials
    assert len(journal.read_text().splitlines()) == 4 * (2 * 2 + 1) + 4
    totals = [json.loads(out) for out, _ in outputs]
    assert sum(n_ok for n_ok, *_ in totals) == 8
    assert all(n_ok + n_cached == 8 for n_ok, _, n_cached, _ in totals)
    assert (families(lab, "fit"), families(lab, "fold")) == (8, 8)


def test_item_6_profiles_share_exactly_their_common_jobs(lab):
    text = (
        lab.tiny + "profiles: {smoke: {methods: [{label: weak, params: {alpha: 5}}]}}\n"
    )
    experiment = load_experiment(lab.write(text), profile="smoke")
    run(plan(experiment, output=lab.output))
    assert counts(lab.run(text, load={"profile": "full"})) == (2, 0, 2, 0)
    assert (families(lab, "fit"), families(lab, "fold")) == (6, 4)


def test_item_14_ctrl_c_keeps_finished_jobs(lab, monkeypatch):
    class Impatient(PlainProgress):
        def job(self, name, status, seconds, note):
            super().job(name, status, seconds, note)
            if self.n_finished == 6:
                raise KeyboardInterrupt

    summary = run(lab.plan(), progress=Impatient(io.StringIO()))
    assert summary.interrupted
    assert summary.exit_code == 130
    assert counts(summary) == (2, 0, 0, 2)
    assert not any(map(is_locked, (lab.output / "cells").glob("*.lock")))
    assert (
        json.loads((summary.run_dir / "provenance.json").read_text())["runs"][0][
            "n_computed"
        ]
        == 6
    )
    assert counts(lab.run()) == (2, 0, 2, 0)


def test_item_15_timed_jobs_run_one_after_another_and_a_message_says_so(lab, lacking):
    text = lab.tiny + "timing: {repeats: 3, threads: 1, baseline: weak}\n"
    stream = io.StringIO()
    run(lab.plan(text), n_jobs=2, backend="threading", progress=PlainProgress(stream))
    assert not lacking(
        messages(stream)[1],
        "timed results",
        "one after the other",
        "--jobs",
        "only searches run in parallel",
    )
    for record in lab.results(text).values():
        assert record.environment["serial"] is True
        assert (record.environment["threads"], record.environment["repeats"]) == (1, 3)
        assert len(record.seconds.fit_all) == 3
        assert record.seconds.fit == sorted(record.seconds.fit_all)[1]
    runs = json.loads((lab.output / "lab/tiny/full/provenance.json").read_text())[
        "runs"
    ]
    assert (runs[0]["jobs"], runs[0]["threads"], runs[0]["n_computed"]) == (2, 1, 8)
    assert runs[0]["blas"]


def test_the_first_fit_of_a_method_is_not_timed(lab, monkeypatch, tmp_path):
    journal = tmp_path / "journal"
    monkeypatch.setenv("LAB_JOURNAL", str(journal))
    # No other test has fitted these methods with this parameter in the same process.
    text = lab.tiny.replace("alpha: 0.001", "alpha: 0.0123")
    noisy = '{label: noisy, estimator: "lab.models:Noisy", params: {alpha: 0.0123}}'
    text = f"{text}  - {noisy}\ntiming: {{repeats: 2}}\n"
    lab.run(text, only=["method=weak"])
    assert len(journal.read_text().splitlines()) == 2 * 2 + 1
    # Each trial has another seed, but the same code.
    lab.run(text, only=["method=noisy"])
    assert len(journal.read_text().splitlines()) == 2 * (2 * 2 + 1)


@pytest.mark.slow
def test_a_job_over_the_limit_is_a_row_and_the_rest_finishes(lab):
    text = lab.tiny.replace("trials: 2", "trials: 1") + "limits: {seconds: 5}\n"
    text = text.replace(
        "  - label: weak",
        '  - {label: endless, estimator: "lab.models:Ridge", params: {slow: 100.0}}\n  - label: weak',
    )
    summary = lab.run(text)
    assert counts(summary) == (2, 1, 0, 0)
    assert [(f.name, f.status) for f in summary.failures] == [
        ("simulated-rmtl/endless/trial 0", "timeout")
    ]
    assert re.fullmatch(
        r"stopped after \d+ s \(limits.seconds: 5\)",
        lab.results(text)["endless", 0].error,
    )


def test_fail_fast_skips_the_remaining_jobs(lab):
    text = lab.tiny.replace(
        "  - label: strong", FAILING.splitlines()[0] + "\n  - label: strong"
    )
    summary = lab.run(text, fail_fast=True)
    assert summary.n_failed == 1
    assert summary.n_left == 5
    assert not any(map(is_locked, (lab.output / "cells").glob("*.lock")))
    assert counts(lab.run(text)) == (4, 2, 0, 0)


def test_fail_fast_stops_at_a_failed_search(lab):
    text = lab.tiny.replace(
        "  - label: strong", FAILING.splitlines()[3] + "\n  - label: strong"
    )
    summary = lab.run(text, fail_fast=True)
    assert counts(summary) == (0, 1, 0, 5)
    assert summary.exit_code == 1
    assert summary.failures[0].error.startswith("selection: no candidate has a score")
    assert not any(map(is_locked, (lab.output / "cells").glob("*.lock")))


def test_block_methods_report_their_blocks(lab):
    text = (
        lab.tiny
        + '  - {label: blocks, estimator: "lab.models:Blocks", params: {base: {estimator: "lab.models:Ridge"}}}\n'
    )
    lab.run(text, only=["method=blocks"])
    record = lab.results(text)["blocks", 0]
    assert (record.seconds.blocks_sum, record.seconds.blocks_max) == (0.75, 0.5)
    assert record.params["base"]["estimator"] == "lab.models:Ridge"


def test_a_damaged_job_file_is_recomputed(lab):
    lab.run()
    key = lab.plan().rows[0].job.key
    file = lab.output / "cells" / f"{key}.json"
    file.write_text(file.read_text().replace('"auc":0.', '"auc":1.'))
    run_plan = lab.plan()
    state = job_states(run_plan)[0]
    assert (state.name, state.reason.startswith(f"cells/{key}.json is damaged")) == (
        "damaged",
        True,
    )
    assert counts(run(run_plan)) == (1, 0, 3, 0)


def test_an_unwritable_folder_is_an_error(lab):
    lab.output.write_text("a file where the folder should be")
    with pytest.raises(OSError):
        lab.run()


def test_single_task_estimators_are_fitted_to_each_task_separately(lab):
    text = lab.tiny.replace(lab.data, "{id: gauss2d, n: 60}").replace(
        '"lab.models:Ridge"\n    params', "IndependentRidge\n    params"
    )
    summary = lab.run(text)
    assert counts(summary) == (4, 0, 0, 0)
    assert lab.results(text)["weak", 0].counts["n_tasks"] == 2
