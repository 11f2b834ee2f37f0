"""Runs beside others: cells of other artefacts, other processes and other settings in one folder, interrupted cells."""

import io
import json
import subprocess
import time
from dataclasses import asdict

import pytest
from mtlrun.experiments.selection import fit_fold
from mtlrun.experiments.siblings import find_siblings
from mtlrun.experiments.work import new_record

from mtlrun.cli.status import copies
from mtlrun.core.processes import start_of
from mtlrun.core.records import FAILED
from mtlrun.report.build import build_report
from mtlrun.runs.locks import Owner
from mtlrun.runs.progress import Plain, Silent
from mtlrun.runs.run import _Runner, run
from mtlrun.runs.store import Store


@pytest.fixture
def stranger():
    """A living process, and the owner that its locks name."""
    process = subprocess.Popen(["sleep", "60"])
    host = Owner.me().host
    yield Owner(process.pid, host, start_of(process.pid))
    process.kill()
    process.wait()


def other(lab):
    text = lab.tiny.replace("id: lab/tiny", "id: lab/other").replace("label: weak", "label: feeble")
    return text + '  - {label: new, estimator: "lab.models:Ridge", params: {alpha: 3}}\n'


def told(plan, **options):
    stream = io.StringIO()
    summary = run(plan, progress=Plain(stream), **options)
    return summary, stream.getvalue()


def test_cells_of_another_artefact_are_copied(lab):
    first = lab.run(lab.tiny + "keep: [predictions]\n")
    assert first.n_ok == 4
    text = other(lab).replace("methods:", "keep: [predictions]\nmethods:")
    made = lab.plan(text)
    assert len(find_siblings(made, made.cells)) == 4 + 2
    summary, lines = told(made)
    assert "6 cells copied from lab/tiny" in lines
    assert (summary.n_ok, summary.n_cached) == (2, 4)
    store, source = Store(made.folder), Store(first.run_dir)
    for cell in made.evaluations[:4]:
        ours, theirs = store.load(cell.key), source.load(cell.key)
        assert (ours.metrics, ours.seconds) == (theirs.metrics, theirs.seconds)
        assert (ours.experiment, ours.method) == ("lab/other", cell.method)
        assert ours.environment["copied_from"] == "lab/tiny"
        assert store.scores_path(cell.key).read_bytes() == source.scores_path(cell.key).read_bytes()
    assert not build_report(made.folder).partial


def test_status_names_what_a_run_would_copy(lab):
    lab.run()
    assert copies(lab.plan(other(lab))) == [
        "simulated-rmtl/strong: 2 to copy from lab/tiny",
        "simulated-rmtl/feeble: 2 to copy from lab/tiny",
    ]
    assert copies(lab.plan()) == []


def test_a_run_that_only_copies_says_so_and_is_up_to_date(lab):
    lab.run()
    text = lab.tiny.replace("id: lab/tiny", "id: lab/other")
    summary, lines = told(lab.plan(text))
    assert (summary.n_cached, summary.exit_code) == (4, 0)
    assert "all 4 cells up to date" in lines
    runs = json.loads((summary.run_dir / "provenance.json").read_text())["runs"]
    assert (runs[0]["n_computed"], runs[0]["copied"]) == (0, {"lab/tiny": 6})


def test_other_keys_papers_and_profiles_are_not_copied_nor_is_anything_with_force(lab):
    lab.run()
    for text in (other(lab) + "seed: 3\n", lab.tiny.replace("lab/tiny", "paper/tiny")):
        made = lab.plan(text)
        assert not find_siblings(made, made.cells)
    summary, lines = told(lab.plan(lab.tiny.replace("lab/tiny", "lab/other")), force=True)
    assert summary.n_ok == 4
    assert "copied" not in lines


def test_failed_cells_are_not_copied(lab):
    broken = lab.tiny.replace("alpha: 0.001", "alpha: -1")
    lab.run(broken)
    made = lab.plan(broken.replace("lab/tiny", "lab/other"))
    assert {one.cell.method for one in find_siblings(made, made.evaluations)} == {"strong"}


def test_a_start_with_other_settings_says_what_it_replaces(lab):
    lab.run()
    _, lines = told(lab.plan(overrides=["split.trials=1"]))
    assert "held the table of a start with no --set; now it is that with --set split.trials=1" in lines
    _, lines = told(lab.plan(overrides=["split.trials=1"]))
    assert "held the table" not in lines


def test_a_run_whose_table_is_replaced_says_so_at_its_end(lab):
    class Meanwhile(Plain):
        def cell(self, name, status, seconds, note):
            super().cell(name, status, seconds, note)
            run_file = lab.output / "lab/tiny/full/run.json"
            content = json.loads(run_file.read_text())
            run_file.write_text(json.dumps({**content, "overrides": ["seed=3"]}))

    stream = io.StringIO()
    run(lab.plan(), progress=Meanwhile(stream))
    assert "another start with --set seed=3 took this folder over" in stream.getvalue()


def test_what_failed_in_another_process_meanwhile_is_not_tried_again(lab):
    made = lab.plan()
    store, cell = Store(made.folder), made.selections[0]
    runner = _Runner(made, store, Silent(), False, False, time.time())
    record = new_record(made, cell)
    record.status, record.error = FAILED, "no"
    store.save(record)
    assert not runner._claim(cell, [])
    assert runner.failed_elsewhere == {cell.key}
    later = _Runner(made, store, Silent(), False, False, time.time())
    assert later._claim(cell, [])
    later.store.locks.release_all()


def test_seconds_taken_beside_another_process_are_not_serial(lab, stranger):
    made = lab.plan(lab.tiny + "timing: {repeats: 1}\n")
    lock = made.folder / "cells" / "other.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps(asdict(stranger)))
    run(made)
    store = Store(made.folder)
    assert [store.load(c.key).environment["serial"] for c in made.evaluations] == [False] * 4
    lock.unlink()
    run(made, force=True)
    assert [store.load(c.key).environment["serial"] for c in made.evaluations] == [True] * 4


def test_a_cell_that_another_process_wrote_meanwhile_disturbs(lab):
    made = lab.plan(lab.tiny + "timing: {repeats: 1}\n")
    runner = _Runner(made, Store(made.folder), Silent(), False, False, time.time())
    cell, foreign = made.evaluations[0], made.evaluations[1]
    runner.begun[cell.key] = runner.store.stamps()
    assert not runner._disturbed(cell)
    runner.store.save(new_record(made, foreign))
    assert runner._disturbed(cell)
    runner.computed[foreign.key] = "ok"
    assert not runner._disturbed(cell)


def test_finished_folds_survive_an_interrupted_search(lab, monkeypatch):
    calls = []

    def interrupted(inputs, data_dir, fold):
        calls.append(fold)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return fit_fold(inputs, data_dir, fold)

    monkeypatch.setattr("mtlrun.experiments.selection.fit_fold", interrupted)
    made = lab.plan()
    assert run(made).interrupted
    store = Store(made.folder)
    key = made.selections[0].key
    assert set(store.load_parts(key)) == {0}
    summary = run(lab.plan())
    assert calls == [0, 1, 1, 0, 1]
    assert summary.n_ok == 4
    assert store.load_parts(key) == {}
    assert not list(store.cells.glob("*.parts"))
    kept = store.load(key).selection
    run(made, force=True)
    assert store.load(key).selection == kept


def test_a_search_whose_last_fold_was_finished_first_is_completed(lab):
    made = lab.plan()
    cell = made.selections[0]
    Store(made.folder).save_parts(cell.key, {1: fit_fold(dict(cell.inputs), None, 1)})
    assert run(made).n_ok == 4
    kept = Store(made.folder).load(cell.key).selection
    run(made, force=True)
    assert Store(made.folder).load(cell.key).selection == kept


def test_a_damaged_file_of_parts_is_no_part(lab):
    store = Store(lab.root)
    store.cells.mkdir()
    (store.cells / "a.parts").write_text("{")
    assert store.load_parts("a") == {}
