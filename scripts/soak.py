"""Kill `mtlrun reproduce` with SIGKILL, again and again, continue it, and compare with a run that nobody disturbed.

    python scripts/soak.py --kills 10 --seed 0 [--folder DIR]

A kill takes the whole process group, or the command alone, whose workers must end by themselves: at a random instant,
the moment a temporary file is seen (something is being written), or the moment a new cell is seen (its lock is still
held). Every fourth start is a new process with --jobs 2, the others are forked from this one, which has the libraries
loaded: most of their life is work.
After every kill all cells must be readable and those that were finished untouched; after the end of a run its tables,
scores and records must be those of the undisturbed run but for seconds, with no temporary file, lock or part left.
"""

from __future__ import annotations

import argparse
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
RUN = Path("soak/table/full")
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

    def __init__(self, root: Path, output: Path, jobs: int) -> None:
        self.jobs = jobs
        words = ["reproduce", "soak.yaml", "--output", str(output), "--jobs", str(jobs)]
        log = (root / "log").open("a")
        if jobs == 1:
            self.pid = os.fork()
            if self.pid == 0:
                _child(root, log.fileno(), words)
        else:
            command = [sys.executable, "-m", "mtlrun", *words]
            self.pid = subprocess.Popen(command, cwd=root, stdout=log, stderr=log, start_new_session=True).pid
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
            must(time.monotonic() < end, f"its workers have outlived the command by {PATIENCE} s")
            time.sleep(0.005)
        for path in [*Path("/dev/shm").glob(f"*loky-{self.pid}-*"), *Path("/dev/shm").glob(f"joblib_*_{self.pid}_*")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()  # the system's, nobody is left to give it back

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
            f"kills and cleared up: {n['temporary']} times a half-written file, {n['lock']} a lock, "
            f"{n['parts']} a search half done; {time.monotonic() - self.started:.0f} s"
        )

    def run(self) -> None:
        """Make the undisturbed run, then runs that are killed until there were enough kills."""
        (self.root / "soak.yaml").write_text(EXPERIMENT)
        started = time.monotonic()
        must(self._let(Start(self.root, self.root / "still", 1)) == 0, "the undisturbed run failed")
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
            must(time.monotonic() < end, f"no end after {PATIENCE} s: a lock that blocks?")
            time.sleep(0.01)
        assert start.code is not None
        return start.code

    def _one(self, output: Path) -> None:
        """Start, kill, check and start again, until the run has come to its end."""
        folder = output / RUN
        finished: dict[str, tuple[int, int]] = {}
        while True:
            start = Start(self.root, output, FAST[self.counts["starts"] % len(FAST)])
            self.counts["starts"] += 1
            if self.counts["kills"] < self.kills:
                kind = self.random.choice(KINDS)
                self._wait(start, folder, kind)
                killed = not start.ended()
                alone = self.random.random() < 0.5
                start.kill(alone)
                if killed:
                    self.counts.update(["kills", kind, f"jobs {start.jobs}"])
                    self.counts["alone"] += alone and start.jobs > 1
                    self.counts["temporary"] += bool(strays(folder))
                    self.counts["lock"] += bool(list(folder.glob("cells/*.lock")))
                    self.counts["parts"] += bool(list(folder.glob("cells/*.parts")))
            else:
                self._let(start)
                killed = False
            finished = untouched(folder, finished)
            if not killed:
                must(start.code == 0, f"a run ended with {start.code}, see {self.root / 'log'}")
                compare(folder, self.root / "still" / RUN, self.root)
                return

    def _wait(self, start: Start, folder: Path, kind: str) -> None:
        """Wait for the instant of the kill, or the end of the run."""
        seen = names(folder)
        before, written = len(cells(seen)), set(temporary(seen))
        count = self.random.randint(1, 16 if kind == "write" else 8)
        instant = None
        end = time.monotonic() + PATIENCE
        while not start.ended():
            must(time.monotonic() < end, f"no end after {PATIENCE} s: a lock that blocks?")
            now = names(folder)
            if kind == "instant" and instant is None and now != seen:  # it has begun: loading libraries is no work
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


def names(folder: Path) -> frozenset[str]:
    """Return the names of the files in a run folder and in its cells."""
    found: list[str] = []
    for place in (folder, folder / "cells"):
        try:
            found += os.listdir(place)
        except FileNotFoundError:
            continue
    return frozenset(found)


def cells(seen: frozenset[str]) -> list[str]:
    """Return the files of cells: named by 64 digits."""
    return [name for name in seen if name.endswith(".json") and len(name) == 64 + 5]


def temporary(seen: frozenset[str]) -> list[str]:
    """Return the files that are being written."""
    return [name for name in seen if name.endswith(".tmp")]


def strays(folder: Path) -> list[Path]:
    """Return the temporary files below a folder."""
    return list(folder.rglob(".*.tmp"))


def untouched(folder: Path, finished: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Check that all cells can be read and that finished ones are the same files; return all that are finished now."""
    from mtlrun.runs.store import Store

    store = Store(folder)
    now = {path.stem: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.glob("cells/*.json")}
    for key in now:
        must(store.read(key).done, f"the cell {key} is not done")
    for key, stamp in finished.items():
        must(now.get(key) == stamp, f"the cell {key} was finished and has been written again")
    return now


def compare(folder: Path, still: Path, root: Path) -> None:
    """Check that a finished run is that of nobody's disturbing, and left nothing behind."""
    from mtlrun.core.records import CellRecord
    from mtlrun.report.build import build_report
    from mtlrun.report.writers import render

    left = [*strays(folder), *folder.glob("cells/*.lock"), *folder.glob("cells/*.parts"), *folder.glob("*.damaged")]
    must(not left, f"left behind: {', '.join(path.name for path in left)}")
    tables = []
    for number, place in enumerate((folder, still)):
        copy = root / f"compared{number}"
        shutil.copytree(place, copy)
        content = {}
        for path in sorted(copy.glob("cells/*")):
            if path.suffix == ".json":  # all but what a clock says
                record = CellRecord.from_json(path.read_text())
                record.selection.pop("seconds", None)
                path.write_text(replace(record, seconds={}, environment={}).to_json())
            if path.suffix in (".json", ".npz"):
                content[path.name] = path.read_bytes()
        report = build_report(copy)
        tables.append((content, render(report, "csv"), (copy / "run.json").read_bytes()))
        shutil.rmtree(copy)
    must(tables[0][0].keys() == tables[1][0].keys(), "other cells than those of the undisturbed run")
    for name, content in tables[0][0].items():
        must(content == tables[1][0][name], f"{name} is not that of the undisturbed run")
    must(tables[0][1:] == tables[1][1:], "the table is not that of the undisturbed run")


def main() -> int:
    """Read the command line, run, print one line; 1 when something was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="for the runs; kept when something is wrong")
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NO_COLOR="1")
    import mtlrun.experiments.evaluate
    import mtlrun.experiments.selection
    import mtlrun.report.writers  # noqa: F401 (loaded before the forks)

    root = Path(options.folder or tempfile.mkdtemp(prefix="mtlrun-soak-")).resolve()
    root.mkdir(parents=True, exist_ok=True)
    soak = Soak(root, random.Random(options.seed), options.kills)
    try:
        soak.run()
    except Wrong as error:
        tell(f"WRONG after {soak.counts['kills']} kills (seed {options.seed}): {error}; kept: {root}")
        return 1
    shutil.rmtree(root)
    tell(f"seed {options.seed}: {soak}; tables as undisturbed, no finished cell touched, nothing left")
    return 0


def tell(text: str) -> None:
    """Print a line at once."""
    print(f"soak: {text}", flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
