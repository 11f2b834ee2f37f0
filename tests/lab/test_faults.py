"""Disks, permissions, clocks and other processes: finished work is never lost, and
wrong results never used.
"""

import ctypes
import errno
import importlib
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtlrun.cli.app import app
from mtlrun.engine.plan import job_states
from mtlrun.engine.run import run
from mtlrun.lab.plan import plan
from mtlrun.parallel.progress import PlainProgress
from mtlrun.utils.io import write_atomic
from mtlrun.utils.processes import is_locked, timing_lock

RUN = "lab/tiny/full"
#: Errors of the disk
FAULTS = {
    "disk full": "No space left on device",
    "file too large": "File too large",
    "read-only": "Permission denied",
    "permission lost": "Permission denied",
}


def start(disk):
    """Run the command line; return its result and the files on the disk."""
    result = CliRunner().invoke(app, ["reproduce", "tiny.yaml", "-o", str(disk)])
    files = sorted(
        str(path.relative_to(disk)) for path in disk.rglob("*") if path.is_file()
    )
    cells = {path.stem: path.stat().st_mtime_ns for path in disk.glob("cells/*.json")}
    return {
        "code": result.exit_code,
        "stderr": result.stderr,
        "files": files,
        "cells": cells,
    }


def start_twice(fault, disk, own_mounts):
    """Run the command line on a faulty disk and after its repair; print results."""
    disk.mkdir()
    if fault == "disk full":
        own_mounts()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=44k", "tmpfs", str(disk)], check=True
        )
        first = start(disk)
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
    elif fault == "file too large":
        import resource

        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
        first = start(disk)
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    elif fault == "read-only":
        obey_permissions()
        disk.chmod(0o555)
        first = start(disk)
        disk.chmod(0o755)
    else:
        obey_permissions()
        Ridge = importlib.import_module("lab.models").Ridge
        fit, cells = Ridge.fit, disk / "cells"

        def losing(self, X, y):
            if len(list(cells.glob("*.json"))) == 3:
                cells.chmod(0o555)
            return fit(self, X, y)

        Ridge.fit = losing
        first = start(disk)
        Ridge.fit = fit
        cells.chmod(0o755)
    second, table = start(disk), (disk / RUN / "table.csv").read_text()
    sys.stdout.write(json.dumps({"first": first, "second": second, "table": table}))


def obey_permissions():
    """Drop the capabilities that exempt root from permissions."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        assert libc.capget(header, sets) == 0
        for k in range(3):  # Effective, permitted, inheritable
            sets[k] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        assert libc.capset(header, sets) == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="faults are made as Linux has them")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_disk_ends_the_run_with_a_remedy_and_the_rest_is_computed_later(
    lab, fault, request
):
    own_mounts = request.getfixturevalue("own_mounts") if fault == "disk full" else None
    lab.write(lab.tiny.replace("trials: 2", "trials: 4"))
    process = lab.begin(
        lambda: start_twice(fault, lab.root / "disk", own_mounts), NO_COLOR="1"
    )
    out, err = process.communicate()
    assert process.returncode == 0, err
    outcome = json.loads(out)
    first, second = outcome["first"], outcome["second"]
    assert first["code"] == 2
    assert f"{RUN}: {FAULTS[fault]}" in first["stderr"]
    assert "--output" in first["stderr"]
    assert "Traceback" not in first["stderr"]
    assert not [name for name in first["files"] if name.endswith(".tmp")]
    if fault in ("disk full", "permission lost"):
        assert 1 <= len(first["cells"]) < 16
    assert (second["code"], len(second["cells"])) == (0, 16)
    assert (
        first["cells"].items() <= second["cells"].items()
    )  # Finished jobs were not written again.
    assert not [name for name in second["files"] if name.endswith(".tmp")]
    numbers = [
        [cell for i, cell in enumerate(line.split(",")) if i != 4]
        for line in outcome["table"].splitlines()
    ]
    lab.run(lab.tiny.replace("trials: 2", "trials: 4"))
    from mtlrun.lab.report.build import build_report
    from mtlrun.lab.report.formats import render

    expected = render(build_report(lab.output / RUN), "csv").splitlines()
    assert expected[0].split(",")[4] == "seconds_median"
    assert numbers == [
        [cell for i, cell in enumerate(line.split(",")) if i != 4] for line in expected
    ]


def computed(run_plan, **options):
    stream = io.StringIO()
    summary = run(run_plan, progress=PlainProgress(stream), **options)
    return summary, stream.getvalue()


DAMAGES = {
    "empty": lambda text: "",
    "cut": lambda text: text[: len(text) // 2],
    "no JSON": lambda text: "\x00" * len(text),
    "list": lambda text: "[]",
    "digit": lambda text: text.replace('"auc":0.', '"auc":0.9', 1).replace(
        '"scores":[0.', '"scores":[0.9', 1
    ),
    "status": lambda text: text.replace('"status":"ok"', '"status":"no"'),
    "no digest": lambda text: text.replace('"sha256"', '"sha257"', 1),
    "protocol": lambda text: text.replace('"protocol":3', '"protocol":1'),
    "two": lambda text: text + text,
}


@pytest.mark.slow
def test_a_damaged_job_is_reported_and_recomputed(lab):
    text = lab.tiny + "keep: [predictions]\n"
    run_plan = lab.plan(text)
    run(run_plan)
    store, job = run_plan.store(), run_plan.rows[0].job
    good, written = store.load(job.key), store.path(job.key).read_text()
    for name, damage in DAMAGES.items():
        damaged = damage(written)
        assert damaged != written, name
        store.path(job.key).write_text(damaged)
        states = job_states(lab.plan(text))
        assert [state.name for state in states] == [
            "damaged",
            "done",
            "done",
            "done",
        ], name
        assert states[0].reason.startswith(f"cells/{job.key}.json is damaged: "), name
        summary, lines = computed(lab.plan(text))
        assert states[0].reason in lines, name
        assert (summary.n_ok, summary.n_cached) == (1, 3), name
        again = store.load(job.key)
        assert (again.metrics, again.per_task, again.status) == (
            good.metrics,
            good.per_task,
            "ok",
        ), name
        assert again.selection.scores == good.selection.scores, name


@pytest.mark.slow
def test_a_damaged_fold_is_recomputed_if_its_search_needs_it(lab):
    run_plan = lab.plan()
    run(run_plan)
    store, job = run_plan.store(), run_plan.rows[0].job
    fold = job.folds[0]
    good, written = store.load(fold.key), store.path(fold.key).read_text()
    for name, damage in DAMAGES.items():
        damaged = damage(written)
        if damaged == written:  # A fold has no such field.
            continue
        store.path(fold.key).write_text(damaged)
        assert (
            computed(lab.plan())[0].n_cached == 4
        )  # The jobs that use the selected values store them.
        store.path(job.key).unlink()
        summary, lines = computed(lab.plan())
        assert (summary.n_ok, summary.n_cached) == (1, 3), name
        assert "1 of 4 results to compute, after 1 search fold" in lines
        assert store.load(fold.key).selection == good.selection, name


def test_a_job_with_another_name_or_without_its_scores_is_damaged(lab):
    text = lab.tiny + "keep: [predictions]\n"
    run_plan = lab.plan(text)
    run(run_plan)
    store = run_plan.store()
    first, second, third, fourth = (row.job.key for row in run_plan.rows)
    scores = {key: store.scores_path(key) for key in (third, fourth)}
    store.path(first).write_text(store.path(second).read_text())
    scores[third].unlink()
    scores[fourth].write_bytes(scores[fourth].read_bytes()[:100])
    states = job_states(lab.plan(text))
    assert [state.name for state in states] == ["damaged", "done", "damaged", "damaged"]
    assert f"it holds the result {second[:12]}" in states[0].reason
    assert states[2].reason.startswith(f"cells/{third}.npz is missing or damaged")
    assert computed(lab.plan(text))[0].n_ok == 3
    assert {state.name for state in job_states(lab.plan(text))} == {"done"}


def test_damaged_provenance_is_not_trusted(lab):
    run_plan = lab.plan()
    run_plan.folder.mkdir(parents=True)
    (run_plan.folder / "provenance.json").write_text("[]")
    assert computed(run_plan)[0].n_ok == 4
    assert (run_plan.folder / "provenance.json.damaged").read_text() == "[]"
    assert (
        len(json.loads((run_plan.folder / "provenance.json").read_text())["runs"]) == 1
    )


def test_leftovers_of_killed_processes_are_removed_and_files_of_running_ones_are_kept(
    lab,
):
    run_plan = lab.plan()
    run(run_plan)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    host, cells = socket.gethostname(), lab.output / "cells"
    dead = [
        run_plan.folder / f".{host}-{gone.pid}-abcd.tmp",
        cells / f".{host}-{gone.pid}-efgh.tmp",
    ]
    alive = [cells / f".{host}-{os.getpid()}-abcd.tmp", cells / ".elsewhere-1-abcd.tmp"]
    for path in (*dead, *alive):
        path.write_text("half")
    run(lab.plan())
    assert not [path.name for path in dead if path.exists()]
    assert all(path.exists() for path in alive)


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    write_atomic(tmp_path / "a", "old")

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(tmp_path / "a", "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [
        ("a", "old")
    ]


def test_a_clock_that_was_set_back_hides_and_repeats_no_work(lab):
    run_plan = lab.plan()
    run(run_plan)
    cells = list((lab.output / "cells").glob("*.json"))
    for path in cells:  # Written when the clock was a day ahead
        os.utime(path, (time.time() + 86400,) * 2)
    assert computed(lab.plan())[0].n_cached == 4
    assert computed(lab.plan(), force=True)[0].n_ok == 4
    store, job = run_plan.store(), run_plan.rows[0].job
    store.save(lab.failure(job, "a day ahead"))
    os.utime(store.path(job.key), (time.time() + 86400,) * 2)
    assert computed(lab.plan())[0].n_ok == 1


def test_a_clock_that_runs_backwards_changes_nothing(lab, monkeypatch):
    text = lab.tiny + "timing: {repeats: 1}\n"
    hours = iter(range(10**6))
    real = time.time()
    monkeypatch.setattr(time, "time", lambda: real - 3600 * next(hours))
    summary, _ = computed(lab.plan(text))
    assert (summary.n_ok, summary.n_failed, summary.n_left) == (4, 0, 0)
    records = lab.results(text).values()
    assert all(0 < record.seconds.fit < 100 for record in records)
    assert all(record.environment["serial"] for record in records)
    assert computed(lab.plan(text))[0].n_cached == 4


def test_a_moved_folder_is_up_to_date_and_has_the_same_report(lab):
    from mtlrun.lab.report.build import build_report
    from mtlrun.lab.report.formats import render

    run_plan = lab.plan()
    run(run_plan)
    before = [
        render(build_report(run_plan.folder), form)
        for form in ("csv", "md", "json", "tex")
    ]
    lab.output.rename(lab.root / "moved")
    there = plan(run_plan.experiment, output=lab.root / "moved")
    assert computed(there)[1].startswith("all 4 results up to date")
    assert [
        render(build_report(there.folder), form)
        for form in ("csv", "md", "json", "tex")
    ] == before


def test_only_one_process_per_machine_measures_seconds_at_a_time(lab):
    lines: list[str] = []
    theirs = ExitStack()
    theirs.enter_context(timing_lock(lines.append))
    stream = io.StringIO()
    run_plan = lab.plan(lab.tiny + "timing: {repeats: 1}\n")
    thread = threading.Thread(
        target=run, args=(run_plan,), kwargs={"progress": PlainProgress(stream)}
    )
    thread.start()
    end = time.monotonic() + 240
    while "another timed run is in progress" not in stream.getvalue():
        assert time.monotonic() < end
        time.sleep(0.01)
    store, keys = run_plan.store(), [row.job.key for row in run_plan.rows]
    assert not any(
        store.path(key).exists() for key in keys
    )  # Searches are done, timed jobs are not.
    theirs.close()
    thread.join(240)
    assert all(store.load(key).environment["serial"] for key in keys)
    with timing_lock(lines.append):  # It was released.
        assert lines == []


def test_without_a_timing_lock_the_run_continues_with_a_message(
    lab, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "file"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    summary, lines = computed(lab.plan(lab.tiny + "timing: {repeats: 1}\n"))
    assert summary.n_ok == 4
    assert lines.count("cannot tell whether other timed runs are in progress") == 1


def test_a_link_in_place_of_the_timing_lock_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = tmp_path / f"mtlrun-{os.getuid()}"
    folder.mkdir(mode=0o700)
    (folder / "timing.lock").symlink_to(tmp_path / "precious")
    lines: list[str] = []
    with timing_lock(lines.append):
        pass
    assert not (tmp_path / "precious").exists()
    assert len(lines) == 1


@pytest.mark.parametrize("trap", ["open to others", "link", "file", "another user"])
def test_the_timing_lock_is_in_a_folder_that_no_other_user_can_open(
    tmp_path, monkeypatch, trap
):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / f"mtlrun-{os.getuid()}"
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    if trap == "link":
        folder.symlink_to(tmp_path / "elsewhere")
    elif trap == "file":
        folder.write_text("")
    elif trap == "open to others":
        folder.mkdir()
        folder.chmod(0o777)
    else:
        folder.mkdir(mode=0o700)
        lstat = Path.lstat

        def owned_by_another(path):
            mode, inode, device, n_links, user, *others = lstat(path)
            user += path == folder
            return os.stat_result((mode, inode, device, n_links, user, *others))

        monkeypatch.setattr(Path, "lstat", owned_by_another)
    lines: list[str] = []
    with timing_lock(lines.append):
        assert is_locked(tmp_path / "cache/mtlrun/locks/timing.lock")
    assert lines == []
    assert not list(tmp_path.glob("elsewhere/*"))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="flock is of POSIX systems")
@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_flock_is_named_at_the_start_and_works(
    lab, monkeypatch, number
):
    import fcntl

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    lab.write(lab.tiny + "timing: {repeats: 1}\n")
    cells = lab.output / "cells"
    monkeypatch.chdir(lab.root)
    first = CliRunner().invoke(app, ["reproduce", "tiny.yaml", "-o", str(lab.output)])
    assert first.exit_code == 0, first.stderr
    lines = first.stderr.splitlines()
    (line_number,) = [
        i
        for i, line in enumerate(lines)
        if str(cells) in line and os.strerror(number) in line and "--output" in line
    ]
    assert sum("cannot tell whether other timed runs" in line for line in lines) == 1
    assert line_number < next(
        i for i, line in enumerate(lines) if "simulated-rmtl" in line and " ok" in line
    )
    assert not any(map(is_locked, cells.glob("*.lock")))
