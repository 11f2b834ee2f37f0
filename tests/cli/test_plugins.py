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

#: Runs several commands in one process, which imports the package only once, and leaves
#: figures blank.
RUN = """\
import json, sys
from matplotlib.figure import Figure
from typer.testing import CliRunner
from mtlrun.cli.app import app

Figure.draw = lambda figure, renderer: None
printed = []
for words, environment in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, words, env=environment, prog_name="mtlrun")
    assert result.exit_code == 0, result.output
    printed.append(result.stdout)
json.dump(printed, sys.stdout)
"""
COMPLETION = {
    "_MTLRUN_COMPLETE": "complete_bash",
    "COMP_WORDS": "mtlrun compare x.csv --methods Gra",
    "COMP_CWORD": "4",
}
COLUMNS = "--target y --task task --splits 2 --repeats 1 --folds 2"
COMMANDS = {
    "methods": ("list methods --json", {}),
    "method": ("list methods GrandMean", {}),
    "datasets": ("list datasets --json", {}),
    "environment": ("env --json", {}),
    "completed": ("", COMPLETION),
    "compared": (f"compare rows.csv {COLUMNS} --methods GrandMean", {}),
    "written": ("init plugged --method GrandMean -o mine.yaml", {}),
    "trained": ("train mine.yaml", {}),
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Install a package into a separate folder; return what commands print with it on
    the path, by name.
    """
    folder = tmp_path_factory.mktemp("plugged")
    package = folder / "site" / "plugged_package"
    info = folder / "site" / "plugged_package-1.5.dist-info"
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
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    table["task"], table["y"] = np.repeat(["u", "v"], 30), table.a + rng.normal(size=60)
    table.to_csv(folder / "rows.csv", index=False)
    arguments = [(words.split(), variables) for words, variables in COMMANDS.values()]
    # PYTHONPATH may name a checkout that is not installed.
    path = filter(None, [str(package.parent), os.environ.get("PYTHONPATH")])
    result = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stderr
    return dict(zip(COMMANDS, json.loads(result.stdout), strict=True))


@pytest.mark.slow
def test_plugins_are_listed_and_completed(printed):
    methods = {record["name"]: record for record in json.loads(printed["methods"])}
    assert methods["GrandMean"]["class_path"] == "plugged_package.methods:GrandMean"
    assert "plugged-package 1.5" in methods["GrandMean"]["summary"]
    assert "plugged-package 1.5" in printed["method"]
    assert "plugged" in [entry["name"] for entry in json.loads(printed["datasets"])]
    assert "plugged-package 1.5" in json.loads(printed["environment"])["plug-ins"]
    assert "GrandMean" in printed["completed"].split()


@pytest.mark.slow
def test_plugins_can_be_compared_and_trained(printed):
    assert "GrandMean" in printed["compared"]
    assert "model:" in printed["trained"]
