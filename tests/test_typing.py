"""Types seen by an external type checker, and names offered by completion."""

import subprocess
import sys

import pytest

import mtlrun.estimators
from mtlrun.catalog.registry import METHODS

GOOD = """
import numpy as np

import mtlrun
from mtlrun.data import TaskStratifiedKFold
from mtlrun.estimators import JointFeatureMTLCV, PerTask, RobustMTL, TraceNormMTL
from mtlrun.metrics import task_scorer

X = np.zeros((4, 2))
model = TraceNormMTL(alpha=2.0, tol=1e-3).fit(X, X)
coef: np.ndarray = model.coef_
predicted: np.ndarray = RobustMTL(0.5).fit(X, X).predict(X)
chosen: float = JointFeatureMTLCV(alphas=10, cv=TaskStratifiedKFold(2)).fit(X, X).alpha_
path = model.path(X, X, alphas=3)
alphas: np.ndarray = path.alphas
scorer = task_scorer("rmse")
result = mtlrun.compare("table.csv", target="y", task="t")
text: str = result.verdict
"""
#: Line -> part of the message of mypy
BAD = {
    "from mtlrun.estimators import TraceNorm": 'no attribute "TraceNorm"',
    "import mtlrun.estimators as e; e.TraceNormMTL(alpha='1')": 'incompatible type "str"',
    "import mtlrun; mtlrun.compare('t.csv', target=3)": 'incompatible type "int"',
    "from mtlrun.metrics import task_scorer; task_scorer('rmse', how='row')": "incompatible type",
}


def check(folder, text):
    (folder / "project.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--no-incremental",
        "--ignore-missing-imports",
        "--no-implicit-reexport",
        "project.py",
    ]
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False
    )
    return result.returncode, result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_project_sees_the_types(tmp_path):
    pytest.importorskip("mypy")
    code, output = check(tmp_path, GOOD + "\n".join(BAD) + "\n")
    assert code == 1, output
    lines = output.splitlines()
    first = GOOD.count("\n") + 1
    for k, expected in enumerate(BAD.values()):
        assert any(
            line.startswith(f"project.py:{first + k}: error") and expected in line
            for line in lines
        ), output
    assert all(
        int(line.split(":")[1]) >= first for line in lines if ": error" in line
    ), output


def test_completion_knows_all_estimators():
    offered = dir(mtlrun.estimators)
    assert set(METHODS) <= set(offered)
    assert (
        {"TraceNormMTLCV", "PerTask", "DegenerateModelWarning"}
        <= set(mtlrun.estimators.__all__)
        <= set(offered)
    )
    for name in ("TraceNormMTLCV", "PerTask", "DegenerateModelWarning"):
        assert getattr(mtlrun.estimators, name).__name__ == name
    with pytest.raises(AttributeError, match="Nothing"):
        _ = mtlrun.estimators.Nothing
