"""Runs next to others: jobs of other paper items, other processes, other settings in
one folder, interrupted jobs.
"""

import importlib
import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

from mtlrun.engine.plan import job_states
from mtlrun.engine.record import JobKind
from mtlrun.engine.run import compute_job, missing_jobs, run
from mtlrun.engine.store import Store
from mtlrun.lab.report.build import build_report, is_partial
from mtlrun.lab.report.formats import render
from mtlrun.parallel.progress import PlainProgress
from mtlrun.utils.processes import exclusive_lock, is_locked


def other(lab):
    text = lab.tiny.replace("id: lab/tiny", "id: lab/other").replace(
        "label: weak", "label: feeble"
    )
    return (
        text + '  - {label: new, estimator: "lab.models:Ridge", params: {alpha: 3}}\n'
    )


def computed(plan, **options):
    stream = io.StringIO()
    summary = run(plan, progress=PlainProgress(stream), **options)
    return summary, stream.getvalue()


def test_items_with_the_same_output_share_their_jobs(lab):
    assert lab.run(lab.tiny + "keep: [predictions]\n").n_ok == 4

    def written():
        paths = (lab.output / "cells").glob("*.[jn]*")
        return {path.name: path.stat().st_mtime_ns for path in paths}

    files = written()
    text = other(lab).replace("methods:", "keep: [predictions]\nmethods:")
    plan = lab.plan(text)
    jobs, folds = missing_jobs(plan, plan.store())
    assert ([plan.names[job.key] for job in jobs], folds) == (
        ["simulated-rmtl/new/trial 0", "simulated-rmtl/new/trial 1"],
        [],
    )
    summary, lines = computed(plan)
    assert "lab/other: 2 of 6 results to compute\n" in lines
    assert (summary.n_ok, summary.n_cached) == (2, 4)
    now = written()
    assert files.items() <= now.items()
    assert len(now) == len(files) + 2 * 2  # A record and its test scores
    assert not is_partial(build_report(plan.folder))


def test_status_counts_jobs_of_other_items_as_done(lab):
    lab.run()
    plan = lab.plan(other(lab))
    assert [state.name for state in job_states(plan)] == ["done"] * 4 + ["missing"] * 2


def test_a_run_whose_jobs_are_all_done_elsewhere_is_up_to_date_and_has_a_report(lab):
    first = lab.run()
    summary, lines = computed(
        lab.plan(lab.tiny.replace("id: lab/tiny", "id: paper/tiny"))
    )
    assert (summary.n_cached, summary.exit_code) == (4, 0)
    assert lines == "all 4 results up to date\n"
    ours, theirs = build_report(summary.run_dir), build_report(first.run_dir)
    assert not is_partial(ours)
    assert render(ours, "csv") == render(theirs, "csv")


def test_other_numbers_are_not_shared_and_force_recomputes_shared_jobs(lab):
    lab.run()
    plan = lab.plan(other(lab) + "seed: 3\n")
    assert {state.name for state in job_states(plan)} == {"missing"}
    assert len(missing_jobs(plan, plan.store())[1]) == 4
    summary, _ = computed(
        lab.plan(lab.tiny.replace("lab/tiny", "lab/other")), force=True
    )
    assert (summary.n_ok, summary.n_cached) == (4, 0)


def test_jobs_that_failed_in_another_item_are_retried(lab):
    broken = lab.tiny.replace("alpha: 0.001", "alpha: -1")
    lab.run(broken)
    plan = lab.plan(broken.replace("lab/tiny", "lab/other"))
    assert {plan.names[job.key] for job in missing_jobs(plan, plan.store())[0]} == {
        "simulated-rmtl/weak/trial 0",
        "simulated-rmtl/weak/trial 1",
    }


def test_a_run_with_other_settings_reports_the_table_it_replaces(lab):
    lab.run()
    _, lines = computed(lab.plan(overrides=["split.trials=1"]))
    message = (
        "held the table of a run with no --set; "
        "it now holds the table of a run with --set split.trials=1"
    )
    assert message in lines
    _, lines = computed(lab.plan(overrides=["split.trials=1"]))
    assert "held the table" not in lines


def test_a_run_whose_table_is_replaced_reports_it_at_its_end(lab):
    class Meanwhile(PlainProgress):
        def job(self, name, status, seconds, note):
            super().job(name, status, seconds, note)
            run_file = lab.output / "lab/tiny/full/run.json"
            content = json.loads(run_file.read_text())
            run_file.write_text(json.dumps({**content, "overrides": ["seed=3"]}))

    stream = io.StringIO()
    run(lab.plan(), progress=Meanwhile(stream))
    assert "run with --set seed=3" in stream.getvalue()


def test_seconds_measured_beside_another_process_are_not_serial(lab):
    text = lab.tiny + "timing: {repeats: 1}\n"
    plan = lab.plan(text)
    (lab.output / "cells").mkdir(parents=True)
    with exclusive_lock(lab.output / "cells/lab-other-full.lock"):
        run(plan)
    assert [record.environment["serial"] for record in lab.results(text).values()] == [
        False
    ] * 4
    run(plan, force=True)
    assert [record.environment["serial"] for record in lab.results(text).values()] == [
        True
    ] * 4


def test_finished_folds_survive_an_interrupted_search(lab, monkeypatch):
    Ridge = importlib.import_module("lab.models").Ridge
    fit = Ridge.fit
    fits = []

    def interrupted(model, X, y):
        fits.append((model.alpha, X.tobytes()))
        # The first fit of the second fold
        if len(fits) == 3:
            raise KeyboardInterrupt
        return fit(model, X, y)

    monkeypatch.setattr(Ridge, "fit", interrupted)
    plan = lab.plan()
    assert run(plan).interrupted
    (fold,) = lab.records().values()
    assert (fold.family, fold.key) == (JobKind.FOLD, plan.rows[0].job.folds[0].key)
    assert run(lab.plan()).n_ok == 4
    # Two values in two folds of two splits, and four results
    assert len(set(fits)) == 12
    assert [fit for fit, n in Counter(fits).items() if n > 1] == [fits[2]]
    assert not any(map(is_locked, (lab.output / "cells").glob("*.lock")))
    kept = {
        key: record.selection.scores
        for key, record in lab.results().items()
        if record.selection.scores
    }
    run(plan, force=True)
    assert {key: lab.results()[key].selection.scores for key in kept} == kept


def test_a_search_whose_last_fold_finished_first_is_completed(lab):
    plan = lab.plan()
    store, fold = plan.store(), plan.rows[0].job.folds[1]
    store.save(compute_job(fold, None, None)[0])
    content = store.path(fold.key).read_bytes()
    assert run(plan).n_ok == 4
    assert store.path(fold.key).read_bytes() == content
    kept = lab.results()["strong", 0].selection
    run(plan, force=True)
    again = lab.results()["strong", 0].selection
    assert replace(again, seconds=0) == replace(kept, seconds=0)


def test_a_run_has_the_same_lock_under_every_path(lab, monkeypatch):
    lab.output.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(lab.output)
    for folder in (".", "lab/tiny/full"):
        assert (
            Store(Path(), Path(folder)).lock.resolve()
            == Store(lab.output, lab.output / folder).lock.resolve()
        )
