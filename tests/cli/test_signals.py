"""A stopped or killed command ends its workers and releases its locks."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from mtlrun.utils.processes import is_locked

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX systems")

#: A method that writes its process id to a file and waits.
METHODS = '''
"""A method that takes long."""

import os
import time
from pathlib import Path

from mtlrun.estimators.independent import IndependentRidge


class Slow(IndependentRidge):
    """Tells its process, then waits."""

    def fit(self, X, y, *, task_id=None, sample_weight=None):
        """Wait."""
        Path(f"{os.getpid()}.worker").write_text("")
        time.sleep(600)
        return super().fit(X, y, task_id=task_id, sample_weight=sample_weight)
'''


@pytest.fixture
def start(write_experiment, tmp_path, begin):
    """Start an experiment of four jobs; return when two are finished and the workers
    are in the other two.
    """
    started = []

    def run(*words, extra="", timing="keep: [predictions]"):
        write_experiment("Slow", timing=timing, extra=extra)
        (tmp_path / "made_methods.py").write_text(METHODS)
        started.append(begin("reproduce", "table.yaml", *words, own_group=True))
        return started[-1]

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def workers(folder):
    return [int(path.stem) for path in folder.glob("*.worker")]


def group_lives(process):
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


#: Options, lines of the experiment, and the number of workers.
PARALLEL = (("-j", "2"), "", 2)
LIMITED = ((), "limits: {seconds: 600}\n", 1)
SERIAL = ((), "", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "how"),
    [
        (signal.SIGTERM, SERIAL),
        (signal.SIGHUP, SERIAL),
        (signal.SIGINT, PARALLEL),
    ],
)
def test_a_signal_to_the_main_process_ends_it_and_its_workers(
    start, until, tmp_path, number, how
):
    words, extra, n_workers = how
    process = start(*words, extra=extra)
    until(
        lambda: (
            len(workers(tmp_path)) == n_workers
            and len(list(tmp_path.rglob("cells/*.json"))) == 4
        )
    )
    process.send_signal(number)
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(number)  # Python drops a signal that arrives in a finalizer.
    out, err = process.communicate()
    assert process.returncode == 130, err
    assert "PARTIAL RUN: 4 of 6 results done, 2 not computed yet." in out
    assert "Traceback" not in err
    assert not any(map(is_locked, tmp_path.rglob("*.lock")))
    until(lambda: not group_lives(process))


@pytest.mark.slow
@pytest.mark.parametrize("how", [LIMITED, PARALLEL])
def test_workers_end_if_the_main_process_is_killed(start, until, begin, tmp_path, how):
    words, extra, n_workers = how
    process = start(*words, extra=extra)
    until(lambda: len(workers(tmp_path)) == n_workers)
    process.kill()
    process.wait()
    until(lambda: not group_lives(process))
    # The next start takes over unfinished jobs.
    table = tmp_path / "table.yaml"
    table.write_text("".join(line for line in table.open() if "Slow" not in line))
    again = begin("reproduce", "table.yaml")
    assert again.wait() == 0, again.communicate()
    assert not any(map(is_locked, tmp_path.rglob("*.lock")))


def test_an_ignored_signal_stays_ignored(start, until, tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup ignores SIGHUP
    try:
        process = start()
    finally:
        signal.signal(signal.SIGHUP, before)
    until(lambda: workers(tmp_path))
    process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 130


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_imports_ends_the_program_silently(number):
    script = f"""
        import os, sys
        class Sender:
            def find_spec(self, name, *_):
                if name == "typer":
                    os.kill(os.getpid(), {int(number)})
        sys.meta_path.insert(0, Sender())
        from mtlrun.__main__ import main
        main()
    """
    command = [sys.executable, "-c", textwrap.dedent(script), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def _started(script, *words):
    script = f"import sys; sys.argv = ['mtlrun', *{list(words)!r}]\n{script}"
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("before", "name"), [("", "_leave"), ("multiprocessing", "")])
def test_the_main_process_but_no_worker_handles_signals_from_the_first_import_on(
    before, name
):
    lines = [
        f"import {before or 'os'}",
        "import mtlrun.__main__",
        "import signal",
        "print(getattr(signal.getsignal(signal.SIGINT), '__name__', ''))",
    ]
    done = _started("\n".join(lines), "list")
    assert (done.stdout.strip() == "_leave") == (name == "_leave")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_command_ends_the_program_silently(number):
    lines = [
        "import atexit, os",
        f"atexit.register(lambda: os.kill(os.getpid(), {int(number)}))",
        "from mtlrun.__main__ import main",
        "main()",
    ]
    done = _started("\n".join(lines), "--version")
    assert (done.returncode, done.stderr) in [(130, ""), (0, "")]


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.1, 0.2, 0.4, 0.8])
def test_an_interrupt_soon_after_the_start_leaves_no_traceback(delay):
    script = (
        "import sys; print('up', flush=True); sys.argv = ['mtlrun', 'list']\n"
        "from mtlrun.__main__ import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.readline()
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert "Traceback" not in errors
    assert process.returncode in (0, 130)


@pytest.mark.slow
def test_an_interrupt_dropped_by_python_is_sent_again():
    lines = [
        "import signal, time, weakref, os",
        "from mtlrun.cli import app",
        "app._let_signals_interrupt()",
        "class A: pass",
        "a = A()",
        "ref = weakref.ref(a, lambda _: os.kill(os.getpid(), signal.SIGINT))",
        "try:",
        "    del a",
        "    time.sleep(20)",
        "except KeyboardInterrupt:",
        "    print('raised')",
    ]
    done = _started("\n".join(lines), "list")
    assert (done.stdout.strip(), done.stderr) == ("raised", "")
