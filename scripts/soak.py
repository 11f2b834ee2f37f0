"""Kill `mtlrun reproduce`, `compare` and `train` again and again, continue them, and
compare with undisturbed runs.

    python scripts/soak.py --kills 10 --seed 0 [--command compare] [--folder DIR]

A kill (SIGKILL) takes the whole process group, or the command alone, whose workers must
end by themselves: at a random instant, the moment a temporary file is seen (something
is being written), or the moment a new cell is seen. Every fourth start is a new process
with --jobs 2, the others are forked from this one, which has the libraries loaded: most
of their life is work. After every kill all cells must be readable and those that were
finished untouched; after the end of a run its cells and its results must be those of
the undisturbed run but for seconds, with no temporary file left.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

EXPERIMENT = """\
schema: 1
id: soak/table
title: A table that is interrupted
kind: evaluate
datasets: [{id: simulated-rmtl, n: 60, d: 8, m: 6}]
split: {kind: random, train: 0.5, trials: 4}
metrics: [auc]
selection: {folds: 3}
keep: [predictions]
methods:
  - {label: Ridge, estimator: IndependentRidge, grid: {alpha: [0.1, 1, 10]}}
  - {label: Pooled, estimator: PooledRidge, grid: {alpha: [0.1, 1, 10]}}
  - {label: Mean, estimator: IndependentRidge, params: {alpha: 1000.0}}
"""
TRAINING = """\
schema: 1
id: soak/model
kind: train
dataset: {id: simulated-rmtl, n: 300, d: 30, m: 10}
method: {estimator: JointFeatureMTLClassifier, grid: {alpha: [0.1, 1, 10]}}
split: {kind: random, train: 0.5}
metrics: [auc]
selection: {folds: 5}
refit: true
"""
COLUMNS = (
    "--target",
    "grade",
    "--task",
    "school",
    "--methods",
    "GraphMTL,PooledRidge+Task",
    "--splits",
    "3",
)


@dataclass(frozen=True)
class Command:
    """A command that is killed: what it is started with, and where cells and results
    lie below its output.
    """

    words: tuple[str, ...]
    store: Path
    result: Path


COMMANDS = {
    "reproduce": Command(("reproduce", "soak.yaml"), Path(), Path("soak/table/full")),
    "compare": Command(
        ("compare", "grades.csv", *COLUMNS),
        Path("compare/grades"),
        Path("compare/grades"),
    ),
    "train": Command(("train", "train.yaml"), Path(), Path("soak/model")),
}
#: What only clocks and machines say, and digests of files that hold it.
TOLD_BY_CLOCKS = {
    "seconds",
    "fit_seconds",
    "environment",
    "started",
    "finished",
    "files",
    "digest",
    "versions",
}
KINDS = ("instant", "write", "cell")
FAST = (1, 1, 1, 2)  # --jobs of the starts, in turn
PATIENCE = 600


class Wrong(Exception):
    """Something that must not happen did."""


def must(condition: object, message: str) -> None:
    """Raise unless a condition holds; unlike assert also with -O."""
    if not condition:
        raise Wrong(message)


class Start:
    """One start of the command in a process group of its own."""

    def __init__(self, root: Path, command: Command, output: Path, jobs: int) -> None:
        self.jobs = jobs
        words = [*command.words, "--output", str(output), "--jobs", str(jobs)]
        log = (root / "log").open("a")
        if jobs == 1:
            self.pid = os.fork()
            if self.pid == 0:
                _child(root, log.fileno(), words)
        else:
            python = [sys.executable, "-m", "mtlrun", *words]
            self.pid = subprocess.Popen(
                python, cwd=root, stdout=log, stderr=log, start_new_session=True
            ).pid
        log.close()
        self.code: int | None = None

    def ended(self) -> bool:
        """Whether it has come to its end by itself."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def kill(self, alone: bool) -> None:
        """Kill the group, or the command alone, and wait until none of it is left."""
        with_children = self._group(0)
        if not alone:
            self._group(signal.SIGKILL)
        elif self.code is None:
            os.kill(self.pid, signal.SIGKILL)
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        end = time.monotonic() + PATIENCE
        while with_children and self._group(0):
            must(
                time.monotonic() < end,
                f"its workers have outlived the command by {PATIENCE} s",
            )
            time.sleep(0.005)

    def _group(self, number: int) -> bool:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def _child(root: Path, log: int, words: list[str]) -> None:
    """Be the command; never returns."""
    code = 70
    try:
        os.setsid()
        os.chdir(root)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.argv = ["mtlrun", *words]
        from mtlrun.cli.app import main

        main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@dataclass
class Soak:
    """State of the whole: the folder, the random numbers, what was counted."""

    root: Path
    command: Command
    random: random.Random
    kills: int
    work: float = 1.0
    counts: Counter[str] = field(default_factory=Counter)
    started: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        n = self.counts
        return (
            f"{n['kills']} kills ({n['instant']} at random instants, {n['write']} at a write, {n['cell']} at a cell; "
            f"{n['jobs 2']} with --jobs 2, {n['alone']} of them without their workers) in {n['runs']} runs; left by "
            f"kills and cleared up: {n['temporary']} times a half-written file; "
            f"{time.monotonic() - self.started:.0f} s"
        )

    def run(self) -> None:
        """Make the undisturbed run, then runs that are killed until there were
        enough kills.
        """
        write_inputs(self.root)
        started = time.monotonic()
        must(
            self._let(Start(self.root, self.command, self.root / "still", 1)) == 0,
            "the undisturbed run failed",
        )
        self.work = time.monotonic() - started
        while self.counts["kills"] < self.kills:
            output = self.root / f"run{self.counts['runs']}"
            self._one(output)
            self.counts["runs"] += 1
            shutil.rmtree(output)
            if self.counts["runs"] % 10 == 0:
                tell(str(self))

    def _let(self, start: Start) -> int:
        end = time.monotonic() + PATIENCE
        while not start.ended():
            must(
                time.monotonic() < end,
                f"no end after {PATIENCE} s: a lock that blocks?",
            )
            time.sleep(0.01)
        assert start.code is not None
        return start.code

    def _one(self, output: Path) -> None:
        """Start, kill, check and start again, until the run has come to its end."""
        store = output / self.command.store
        finished: dict[str, tuple[int, int]] = {}
        while True:
            start = Start(
                self.root, self.command, output, FAST[self.counts["starts"] % len(FAST)]
            )
            self.counts["starts"] += 1
            if self.counts["kills"] < self.kills:
                kind = self.random.choice(KINDS)
                self._wait(start, output, kind)
                killed = not start.ended()
                alone = self.random.random() < 0.5
                start.kill(alone)
                if killed:
                    self.counts.update(["kills", kind, f"jobs {start.jobs}"])
                    self.counts["alone"] += alone and start.jobs > 1
                    self.counts["temporary"] += bool(strays(output))
            else:
                self._let(start)
                killed = False
            finished = untouched(store, finished)
            if not killed:
                must(
                    start.code == 0,
                    f"a run ended with {start.code}, see {self.root / 'log'}",
                )
                compare(self.command, output, self.root / "still", self.root)
                return

    def _wait(self, start: Start, output: Path, kind: str) -> None:
        """Wait for the instant of the kill, or the end of the run."""
        seen = self._names(output)
        before, written = len(cells(seen)), set(temporary(seen))
        count = self.random.randint(1, 16 if kind == "write" else 8)
        instant = None
        end = time.monotonic() + PATIENCE
        while not start.ended():
            must(
                time.monotonic() < end,
                f"no end after {PATIENCE} s: a lock that blocks?",
            )
            now = self._names(output)
            if (
                kind == "instant" and instant is None and now != seen
            ):  # it has begun: loading libraries is no work
                instant = time.monotonic() + self.random.uniform(0, self.work)
            written |= set(temporary(now))
            reached = {
                "instant": instant is not None and time.monotonic() >= instant,
                "write": len(written) >= count and bool(temporary(now)),
                "cell": len(cells(now)) >= before + count,
            }
            if reached[kind]:
                return
            time.sleep(0.0005 if kind == "write" else 0.003)

    def _names(self, output: Path) -> frozenset[str]:
        """Return the names of the files among the cells and in the folder of the
        results.
        """
        found: list[str] = []
        for place in (
            output / self.command.store / "cells",
            output / self.command.result,
        ):
            try:
                found += os.listdir(place)
            except FileNotFoundError:
                continue
        return frozenset(found)


def write_inputs(root: Path) -> None:
    """Write the files that the commands read."""
    (root / "soak.yaml").write_text(EXPERIMENT)
    (root / "train.yaml").write_text(TRAINING)
    numbers = random.Random(0)
    with (root / "grades.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["school", "hours", "age", "sleep", "grade"])
        for row in range(120):
            hours, age, sleep = (numbers.gauss(0, 1) for _ in range(3))
            writer.writerow(
                [
                    f"s{row % 5}",
                    hours,
                    age,
                    sleep,
                    hours + 0.1 * (row % 5) * age + numbers.gauss(0, 0.3),
                ]
            )


def cells(seen: frozenset[str]) -> list[str]:
    """Return the files of cells: named by 64 digits."""
    return [name for name in seen if name.endswith(".json") and len(name) == 64 + 5]


def temporary(seen: frozenset[str]) -> list[str]:
    """Return the files that are being written."""
    return [name for name in seen if name.endswith(".tmp")]


def strays(folder: Path) -> list[Path]:
    """Return the temporary files below a folder."""
    return list(folder.rglob(".*.tmp"))


def untouched(
    store: Path, finished: dict[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Check that all cells can be read and that finished ones are the same files;
    return all that are finished now.
    """
    from mtlrun.engine.store import Store

    records = Store(store)
    now = {
        path.stem: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in store.glob("cells/*.json")
    }
    for key in now:
        record = records.read(key)
        must(record is not None and record.done, f"the cell {key} is not done")
    for key, stamp in finished.items():
        must(
            now.get(key) == stamp,
            f"the cell {key} was finished and has been written again",
        )
    return now


def compare(command: Command, output: Path, still: Path, root: Path) -> None:
    """Check that a finished run is that of nobody's disturbing, and left nothing
    behind.
    """
    left = [*strays(output), *output.rglob("*.damaged"), *output.rglob("unfinished.*")]
    must(not left, f"left behind: {', '.join(path.name for path in left)}")
    found, expected = (
        content(command, place, root / "compared") for place in (output, still)
    )
    must(
        found.keys() == expected.keys(),
        f"other files: {sorted(found.keys() ^ expected.keys())}",
    )
    for name, value in found.items():
        must(value == expected[name], f"{name} is not that of the undisturbed run")


def content(command: Command, output: Path, copy: Path) -> dict[str, Any]:
    """Return cells and results by their names, without what only a clock says."""
    shutil.copytree(output, copy)
    store, result = copy / command.store, copy / command.result
    found: dict[str, Any] = {}
    for path in sorted(store.glob("cells/*")):
        if path.suffix == ".json":
            found[path.name] = timeless(json.loads(path.read_text())["record"])
        elif path.suffix == ".npz":
            found[path.name] = path.read_bytes()
    if command.words[0] == "reproduce":
        found["table"] = table(store, result)
        found["run.json"] = (result / "run.json").read_bytes()
    else:
        for path in sorted(result.rglob("*")):
            name = str(path.relative_to(result))
            if path.suffix == ".json" and not name.startswith("cells"):
                found[name] = timeless(json.loads(path.read_text()))
            elif (
                path.suffix in (".csv", ".yaml") and name != "leaderboard.csv"
            ):  # which has seconds
                found[name] = path.read_bytes()
    shutil.rmtree(copy)
    return found


def table(store: Path, result: Path) -> str:
    """Return the table of an experiment, made of records that took no time; changes
    them.
    """
    from mtlrun.engine.record import Record, Seconds
    from mtlrun.lab.report.build import build_report
    from mtlrun.lab.report.formats import render

    for path in store.glob("cells/*.json"):
        record = Record.from_line(path.read_text())
        path.write_text(replace(record, seconds=Seconds(), environment={}).line())
    return render(build_report(result), "csv")


def timeless(value: Any) -> Any:
    """Return a value without what only a clock says."""
    if isinstance(value, dict):
        return {
            name: timeless(item)
            for name, item in value.items()
            if name not in TOLD_BY_CLOCKS
        }
    return [timeless(item) for item in value] if isinstance(value, list) else value


def main() -> int:
    """Read the command line, run, print one line; 1 when something was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--command", choices=COMMANDS, action="append", help="default: all"
    )
    parser.add_argument(
        "--folder", type=Path, help="for the runs; kept when something is wrong"
    )
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NO_COLOR="1")

    root = Path(options.folder or tempfile.mkdtemp(prefix="mtlrun-soak-")).resolve()
    for name in options.command or COMMANDS:
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        soak = Soak(folder, COMMANDS[name], random.Random(options.seed), options.kills)
        try:
            soak.run()
        except Wrong as error:
            tell(
                f"{name}: WRONG after {soak.counts['kills']} kills (seed {options.seed}): {error}; kept: {folder}"
            )
            return 1
        tell(
            f"{name}, seed {options.seed}: {soak}; results as undisturbed, no finished cell touched, nothing left"
        )
    shutil.rmtree(root)
    return 0


def tell(text: str) -> None:
    """Print a line at once."""
    print(f"soak: {text}", flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
