"""Fixtures that run the command line, in this process or another."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from mtlrun.cli.app import app, main

#: A module of methods: one works, one raises, and one can be stopped while it fits.
METHODS = '''
"""Methods that behave in a known way."""

import time
from pathlib import Path

from mtlrun.estimators.independent import IndependentRidge


class Broken(IndependentRidge):
    """Raises in fit."""

    def fit(self, X, y, *, task_id=None, sample_weight=None):
        """Raise."""
        raise ValueError("broken on purpose")


class Slow(IndependentRidge):
    """Tells that it has begun, then waits."""

    def fit(self, X, y, *, task_id=None, sample_weight=None):
        """Wait."""
        Path("begun").write_text("")
        time.sleep(60)
        return super().fit(X, y, task_id=task_id, sample_weight=sample_weight)


class Interrupted(IndependentRidge):
    """Is interrupted after as many fits as a file says."""

    def fit(self, X, y, *, task_id=None, sample_weight=None):
        """Count down, and fit or interrupt."""
        remaining = Path("remaining")
        if remaining.exists():
            n_fits = int(remaining.read_text())
            if n_fits == 0:
                raise KeyboardInterrupt
            remaining.write_text(str(n_fits - 1))
        return super().fit(X, y, task_id=task_id, sample_weight=sample_weight)


class Flaky(IndependentRidge):
    """Raises in its first two fits."""

    def fit(self, X, y, *, task_id=None, sample_weight=None):
        """Count, and raise twice."""
        begun = Path("fits").read_text() if Path("fits").exists() else ""
        Path("fits").write_text(begun + "x")
        if len(begun) < 2:
            raise ValueError("not yet")
        return super().fit(X, y, task_id=task_id, sample_weight=sample_weight)
'''

EXPERIMENT = """\
schema: 1
id: made/table1
title: A small table
paper: {cite: "Nobody, Nothing, 2015", artefact: Table I}
datasets: [{id: simulated-rmtl, n: 40, d: 5, m: 3}]
split: {kind: random, train: 0.5, trials: 2}
metrics: [mse]
timing: {repeats: 1, warmup: false, baseline: Ridge}
methods:
  - {label: Ridge, estimator: IndependentRidge, params: {alpha: 1.0}}
  - {label: Pooled, estimator: PooledRidge, params: {alpha: 1.0}}
profiles:
  demo: {}
"""

PLAIN = {"CI", "NO_COLOR", "FORCE_COLOR", "MTLRUN_DATA"}


@pytest.fixture
def mtlrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run a command line in an empty folder: ``mtlrun("list", "methods")``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "made_methods", raising=False)
    for name in PLAIN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*args: str, text: str | None = None) -> Result:
        return CliRunner().invoke(app, list(args), input=text, prog_name="mtlrun")

    return run


@pytest.fixture(autouse=True)
def cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return the folder that commands use as the cache of the user."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture
def environment(cache: Path) -> dict[str, str]:
    """Return the environment of subprocesses: one thread, no settings."""
    kept = {k: v for k, v in os.environ.items() if k not in PLAIN}
    return {**kept, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@pytest.fixture
def begin(
    tmp_path: Path, environment: dict[str, str], forked: Callable[..., Any]
) -> Callable[..., Any]:
    """Run a command line in a forked process: ``begin("reproduce", "table.yaml")``."""

    def run(*args: str, own_group: bool = False) -> Any:
        def command() -> None:
            sys.argv = ["mtlrun", *args]
            main()

        return forked(command, tmp_path, environment, own_group)

    return run


@pytest.fixture
def until() -> Callable[..., None]:
    """Wait until a condition holds."""

    def wait(condition: Callable[[], object], seconds: float = 240) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "nothing happened"
            time.sleep(0.02)

    return wait


@pytest.fixture
def shell(
    tmp_path: Path, environment: dict[str, str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run ``python -m mtlrun`` in a new process, in the same empty folder."""

    def run(*args: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mtlrun", *args]
        env = {**environment, **variables}
        return subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )

    return run


@pytest.fixture
def write_experiment(tmp_path: Path) -> Callable[..., Path]:
    """Write ``table.yaml`` and the module of methods.

    `methods` are more methods, `extra` goes to the end, further arguments replace whole
    lines by their key, as in ``split="split: {kind: kfold, folds: 3}"``.
    """

    def write(*methods: str, extra: str = "", **changes: str) -> Path:
        (tmp_path / "made_methods.py").write_text(METHODS, encoding="utf-8")
        lines = EXPERIMENT.splitlines()
        for key, line in changes.items():
            (index,) = [i for i, old in enumerate(lines) if old.startswith(f"{key}:")]
            lines[index] = line
        method_lines = [
            f"  - {{label: {name}, estimator: 'made_methods:{name}'}}"
            for name in methods
        ]
        index = lines.index("profiles:")
        path = tmp_path / "table.yaml"
        path.write_text(
            "\n".join([*lines[:index], *method_lines, *lines[index:]]) + "\n" + extra,
            encoding="utf-8",
        )
        return path

    return write
