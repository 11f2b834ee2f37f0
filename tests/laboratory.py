"""The fixture `lab`: a module of small estimators on the path, and experiment files
that use it.
"""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtlrun.engine.record import Record
from mtlrun.engine.run import run
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.plan import plan
from mtlrun.parallel.status import FAILED

LAB = '''
"""Estimators whose behaviour the tests decide."""

import os
import time
import warnings

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from lab.helper import shrink


class Ridge(BaseEstimator):
    def __init__(self, alpha=1.0, slow=0.0, warm_start=False):
        self.alpha, self.slow, self.warm_start = alpha, slow, warm_start

    def fit(self, X, y):
        """Solve, and leave a mark that a test can count."""
        journal = os.environ.get("LAB_JOURNAL")
        if journal:
            with open(journal, "a") as stream:
                stream.write(f"fit {self.alpha} {hasattr(self, 'coef_')}\\n")
        time.sleep(self.slow * float(os.environ.get("LAB_PACE", 1)))
        if self.alpha < 0:
            raise ValueError("alpha must not be negative")
        X = np.asarray(X)
        self.coef_ = np.linalg.solve(X.T @ X + shrink(self.alpha) * np.eye(X.shape[1]), X.T @ y)
        self.n_iter_, self.objective_ = 1, [3.0, 2.0]
        return self

    def predict(self, X):
        return np.asarray(X) @ self.coef_


class Broken(Ridge):
    def fit(self, X, y):
        raise RuntimeError("this solver never works")


class Diverging(Ridge):
    def predict(self, X):
        return super().predict(X) * np.inf


class Lazy(Ridge):
    def fit(self, X, y):
        warnings.warn("stopped early", ConvergenceWarning)
        return super().fit(X, y)


class Noisy(Ridge):
    def __init__(self, alpha=1.0, random_state=None):
        super().__init__(alpha)
        self.random_state = random_state

    def fit(self, X, y):
        super().fit(X, y)
        self.coef_ = self.coef_ + np.random.default_rng(self.random_state).normal(size=self.coef_.shape)
        return self


class Blocks(BaseEstimator):
    def __init__(self, base=None, n_blocks=2):
        self.base, self.n_blocks = base, n_blocks

    def fit(self, X, y):
        self.base.fit(X, y)
        self.block_seconds_ = [0.25, 0.5]
        return self

    def predict(self, X):
        return self.base.predict(X)
'''

HELPER = """
def shrink(alpha):
    return 1.0 * alpha
"""

ANALYSES = '''
"""Measures whose behaviour the tests decide."""

import time

import numpy as np

from mtlrun.catalog.analysis import Curve, Matrix, AnalysisResult


def walk(dataset, *, seed, steps=3, slow=0.0, converged=True):
    time.sleep(slow)
    rng = np.random.default_rng(seed)
    y = rng.normal(size=steps)
    return AnalysisResult(
        {"end": y[-1], "rows": np.nan if dataset is None else dataset.n_samples},
        curves={"walk": Curve(list(range(steps)), y, "step", "height", marks={"half": steps / 2})},
        matrices={"outer": Matrix(np.outer(y, y).tolist(), ["a"] * steps, ["b"] * steps, 0.0)},
        lines=["A random walk."],
        tables={"steps": {"columns": ["step", "height"], "rows": [[i, h] for i, h in enumerate(y)]}},
        solver={"n_iter": steps, "converged": converged},
    )


def nothing(dataset, *, seed):
    return None


def audit(dataset, *, seed, published):
    return AnalysisResult({"end": float(len(published))})
'''

#: Generated data: 60 rows, 8 features, 6 tasks
DATA = "{id: simulated-rmtl, n: 60, d: 8, m: 6, rank: 2}"

EXPERIMENT = """\
schema: 1
id: lab/tiny
title: A tiny experiment
kind: evaluate
datasets: [DATA]
split: {kind: random, train: 0.5, trials: 2}
metrics: [auc]
selection: {folds: 2}
methods:
  - label: strong
    estimator: "lab.models:Ridge"
    grid: {alpha: [0.1, 10]}
  - label: weak
    estimator: "lab.models:Ridge"
    params: {alpha: 0.001}
""".replace("DATA", DATA)


class Lab:
    """A folder with a package of estimators, experiment files and a folder for runs."""

    data = DATA
    tiny = EXPERIMENT

    def __init__(self, root: Path, forked: Callable[..., Any]) -> None:
        self.root, self.forked = root, forked
        self.output = root / "runs"
        self.models = root / "lab" / "models.py"
        self.helper = root / "lab" / "helper.py"
        self.models.parent.mkdir()
        (root / "lab" / "__init__.py").touch()
        self.models.write_text(LAB)
        self.helper.write_text(HELPER)
        (root / "lab" / "measures.py").write_text(ANALYSES)

    def write(self, text: str = EXPERIMENT, name: str = "tiny.yaml") -> Path:
        """Write an experiment file."""
        path = self.root / name
        path.write_text(textwrap.dedent(text))
        return path

    def plan(self, text: str = EXPERIMENT, *, only=None, **load):
        """Load an experiment and list its jobs."""
        return plan(
            load_experiment(self.write(text), **load), only=only, output=self.output
        )

    def run(self, text: str = EXPERIMENT, *, only=None, load=None, **options):
        """Load an experiment, list its jobs and compute them."""
        return run(self.plan(text, only=only, **(load or {})), **options)

    def records(self):
        """Return all records of the output folder by key."""
        return {
            path.stem: Record.from_line(path.read_text())
            for path in (self.output / "cells").glob("*.json")
        }

    def results(self, text=EXPERIMENT, **load):
        """Return the records of an experiment by method and trial."""
        records = self.records()
        rows = self.plan(text, **load).rows
        return {
            (row.method, row.trial): records[row.job.key]
            for row in rows
            if row.job.key in records
        }

    def failure(self, job, error="no"):
        """Return the record of a job that failed."""
        return job.record(status=FAILED, error=error)

    def python(
        self, code: str, *arguments: str, **environment: str
    ) -> subprocess.Popen:
        """Start a script in the laboratory, in a new Python process."""
        script = self.root / f"script{len(list(self.root.glob('script*')))}.py"
        script.write_text(textwrap.dedent(code))
        paths = os.pathsep.join([str(self.root), *(p for p in sys.path if p)])
        return subprocess.Popen(
            [sys.executable, str(script), *arguments],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": paths, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def begin(self, function: Callable[[], object], **environment: str) -> Any:
        """Call a function in the laboratory, in a forked process."""

        def there() -> None:
            # On a disk with faults, Python itself would write half a file of bytecode.
            sys.dont_write_bytecode = True
            sys.path.insert(0, str(self.root))
            function()

        no_bytecode = {"PYTHONDONTWRITEBYTECODE": "1"}
        variables = {**os.environ, **no_bytecode, **environment}
        return self.forked(there, self.root, variables)


def _dismiss_workers() -> None:
    """End the workers kept by joblib, which have only the modules and paths of the test
    that started them.
    """
    if "joblib.externals.loky.reusable_executor" in sys.modules:
        sys.modules[
            "joblib.externals.loky.reusable_executor"
        ].get_reusable_executor().shutdown(wait=True)


def _modules_of_lab() -> list[str]:
    return [n for n in sys.modules if n.startswith("lab") and n[3:4] in ("", ".")]


@pytest.fixture
def lab(tmp_path, monkeypatch, forked):
    for name in _modules_of_lab():
        monkeypatch.delitem(sys.modules, name)
    laboratory = Lab(tmp_path, forked)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    _dismiss_workers()
    yield laboratory
    _dismiss_workers()
    for name in _modules_of_lab():
        del sys.modules[name]
