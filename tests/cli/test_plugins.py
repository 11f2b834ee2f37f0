"""Methods and data sets of other packages join those of mtlrun by entry points."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

METHOD = '''
"""A method of another package."""

from sklearn.base import BaseEstimator, RegressorMixin


class GrandMean(RegressorMixin, BaseEstimator):
    """Predicts the mean of all targets."""

    def fit(self, X, y):
        self.mean_ = float(y.mean())
        return self

    def predict(self, X):
        return [self.mean_] * len(X)
'''
CARD = """\
schema: 1
id: plugged
title: Two tasks, simulated
task_type: regression
design: ragged
simulated: true
generator: {name: rmtl, options: {n: 30, d: 4, m: 2}}
licence: none
citation: none
"""
POINTS = """\
[mtlrun.methods]
GrandMean = plugged_package.methods:GrandMean

[mtlrun.datasets]
plugged = plugged_package.cards
"""


#: Runs several commands in one process, which imports the package only once.
RUN = """\
import json, sys
from typer.testing import CliRunner
from mtlrun.cli.app import app

printed = []
for words, environment in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, words, env=environment, prog_name="mtlrun")
    assert result.exit_code == 0, result.output
    printed.append(result.stdout)
json.dump(printed, sys.stdout)
"""


@pytest.fixture
def other(tmp_path):
    """Install a package into a separate folder; return a function that runs commands
    with it on the path.
    """
    package, info = (
        tmp_path / "site" / "plugged_package",
        tmp_path / "site" / "plugged_package-1.5.dist-info",
    )
    (package / "cards").mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text("")
    (package / "methods.py").write_text(METHOD)
    (package / "cards" / "__init__.py").write_text("")
    (package / "cards" / "plugged.yaml").write_text(CARD)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: plugged-package\nVersion: 1.5\n"
    )
    (info / "entry_points.txt").write_text(POINTS)

    def run(*commands, **variables):
        environment = {**os.environ, "PYTHONPATH": str(package.parent)}
        arguments = json.dumps([(command.split(), variables) for command in commands])
        command = [sys.executable, "-c", RUN, arguments]
        result = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


@pytest.mark.slow
def test_plugins_are_listed_and_completed(other):
    listed, described, datasets, environment = other(
        "list methods --json",
        "list methods GrandMean",
        "list datasets --json",
        "env --json",
    )
    methods = {record["name"]: record for record in json.loads(listed)}
    assert methods["GrandMean"]["class_path"] == "plugged_package.methods:GrandMean"
    assert "plugged-package 1.5" in methods["GrandMean"]["summary"]
    assert "plugged-package 1.5" in described
    assert "plugged" in [entry["name"] for entry in json.loads(datasets)]
    assert "plugged-package 1.5" in json.loads(environment)["plug-ins"]
    words = "mtlrun compare x.csv --methods Gra"
    (completed,) = other(
        "", _MTLRUN_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD="4"
    )
    assert "GrandMean" in completed.split()


@pytest.mark.slow
def test_plugins_can_be_compared_and_trained(other, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    table["task"], table["y"] = np.repeat(["u", "v"], 30), table.a + rng.normal(size=60)
    table.to_csv(tmp_path / "rows.csv", index=False)
    compared, _, trained = other(
        "compare rows.csv --target y --task task --methods GrandMean --splits 2 --repeats 1",
        "init plugged --method GrandMean -o mine.yaml",
        "train mine.yaml",
    )
    assert "GrandMean" in compared
    assert "model:" in trained
