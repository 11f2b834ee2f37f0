"""Pipes, sockets, devices, folders and link loops in place of files: no command hangs,
crashes or fills memory.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import stored
from fuzztargets import limited

#: Seconds after which a command counts as hanging
WALL_SECONDS = 60

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="files of POSIX systems"),
]


def _socket(path: Path) -> None:
    # The name of a socket has at most 107 bytes.
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(path.name[:100])
    finally:
        os.chdir(here)


#: Replacements for a file, and functions that create them
KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "socket": _socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "loop": lambda path: path.symlink_to(path.name),
}


class _WaitsError(BaseException):
    """A command has taken too long."""


@contextmanager
def not_waiting() -> Iterator[None]:
    """Raise an error if the code inside takes too long by wall clock."""

    def stop(number: int, frame: object) -> None:
        raise _WaitsError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(WALL_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an experiment, its run, a comparison and a data set."""
    root = tmp_path_factory.mktemp("home")
    stored.write_run(root)
    next(stored.write_comparisons(root))
    stored.write_data(root / "data")
    return root


def _files(root: Path) -> list[str]:
    """Return one file of each name; of jobs, one record and one file of scores."""
    by_name: dict[str, Path] = {}
    for path in sorted(root.rglob("*")):
        if path.is_file():
            name = path.name
            if path.parent.name == "cells":
                name = f"{path.parent.parent.name}/cells{path.suffix}"
            by_name.setdefault(f"{path.parent.name}/{name}", path)
    return [path.relative_to(root).as_posix() for path in by_name.values()]


def _commands(root: Path) -> list[tuple[object, ...]]:
    run = root / "runs" / "mine" / "rows" / "full"
    comparison = root / "out" / "compare" / "numbers"
    experiment = (root / "e.yaml", "--profile", "full", "-o", root / "runs")
    table = root / "numbers.csv"
    data = ("--data-dir", root / "data")
    compared = ("--data-dir", comparison / "data")
    return [
        ("report", run),
        ("report", root / "runs"),
        ("verify", run, "--sample", 1),
        ("plot", run, "--kind", "path", "-o", root / "p.svg"),
        ("validate", root / "e.yaml"),
        ("status", *experiment),
        ("reproduce", *experiment, "--quiet"),
        ("predict", comparison, table, "-o", root / "p.csv"),
        ("plot", comparison / "model", "--kind", "coefficients", "-o", root / "q.svg"),
        ("train", comparison / "chosen.yaml", "-o", root / "trained", *compared),
        ("data", "list", *data),
        ("data", "verify", "mine", *data),
        ("data", "add", "mine", root / "data" / "mine" / "a.csv", *data),
        (
            *("compare", table, "--target", "y", "--task", "task", "-o", root / "out"),
            *stored.COMPARED,
        ),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_no_command_waits_for_an_irregular_file(
    home: Path, tmp_path: Path, kind: str
) -> None:
    failures = []
    copy = tmp_path / "home"
    shutil.copytree(home, copy)
    commands = _commands(copy)
    first = 5 * list(KINDS).index(kind)
    for number, name in enumerate(_files(home), first):
        # All commands on all files would take minutes: each file is tried with one
        # command of 32, and with all that read it by name. Each kind begins with
        # another command.
        for position, words in enumerate(commands):
            is_named = any(str(copy / name) == str(word) for word in words)
            if (position + number) % 32 and not is_named:
                continue
            shutil.rmtree(copy)
            shutil.copytree(home, copy)
            (copy / name).unlink()
            KINDS[kind](copy / name)
            description = f"{name}: mtlrun {' '.join(map(str, words))}"
            try:
                with not_waiting(), limited():
                    code, text = stored.run_command(*words)
            except _WaitsError:
                failures.append(f"{description}: still waiting")
                continue
            # Invalid commands show where all options are.
            signs = ("is a bug", "Traceback", "See all options")
            if code not in (0, 1, 2) or any(sign in text for sign in signs):
                failures.append(f"{description}: {code} {text[-500:]}")
    assert not failures, "\n".join(failures)
