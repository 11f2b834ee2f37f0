"""Dependencies outside the environment: on PYTHONPATH or in a user's folder."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXPERIMENT = """\
schema: 1
id: made/elsewhere
title: Dependencies elsewhere
datasets: [{id: simulated-rmtl, n: 40, d: 5, m: 3}]
split: {kind: random, train: 0.5, trials: 1}
metrics: [mse]
methods:
  - {label: Ridge, estimator: IndependentRidge}
  - {label: Graph, estimator: GraphMTL}
  - {label: Own, estimator: "own_method:Own"}
"""
OWN = """\
import scipy.optimize
from sklearn.base import BaseEstimator
from sklearn.linear_model import Ridge
import own_helper


class Own(BaseEstimator):
    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def fit(self, X, y):
        self.model_ = Ridge().fit(X, own_helper.same(scipy.optimize.nnls and y))
        return self

    def predict(self, X):
        return self.model_.predict(X)
"""
#: Prints the source files that are opened by code other than the import system.
WATCH = """\
import sys
from mtlrun.cli.app import main


def imported():
    frame = sys._getframe(2)
    while frame is not None and "importlib" not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None


def watch(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".py") and not imported():
        print("READ", arguments[0], flush=True)


sys.addaudithook(watch)
main()
"""


@pytest.mark.slow
def test_no_source_file_of_a_dependency_is_read(tmp_path):
    """Following imports into scikit-learn and scipy once delayed runs by minutes."""
    folder = tmp_path / "deps"
    folder.symlink_to(sysconfig.get_path("purelib"))
    (tmp_path / "own_method.py").write_text(OWN)
    (tmp_path / "own_helper.py").write_text("def same(y):\n    return y\n")
    (tmp_path / "table.yaml").write_text(EXPERIMENT)
    (tmp_path / "watch.py").write_text(WATCH)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder), str(tmp_path)]),
    }
    command = [sys._base_executable, "-S", "watch.py", "status", "table.yaml"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    read = [
        line.removeprefix("READ ")
        for line in done.stdout.splitlines()
        if line.startswith("READ ")
    ]
    assert (
        str(tmp_path / "own_helper.py") in read
    )  # Imports of the user's code are followed.
    assert [path for path in read if Path(path).is_relative_to(folder)] == []
