"""Every file of mtlrun that runs while a number is computed is in the code that the number depends on."""

import sys
from pathlib import Path

import numpy as np
import pytest

import mtlrun
from mtlrun.estimators.registry import METHODS, build
from mtlrun.runs.code import EXEMPT, code_of
from mtlrun.runs.compute import compute_cell
from mtlrun.runs.load import load_experiment
from mtlrun.runs.methods import class_paths, resolved
from mtlrun.runs.plan import FIT_MODULE, plan

PACKAGE = Path(mtlrun.__file__).parent
SMALL = {"DivideAndConquerRMTL": {"n_blocks": 2}, "DivideAndConquerRMTLClassifier": {"n_blocks": 2}}
#: It chooses what is run for a cell. Files, options and version of what it loads are in the fingerprint of the data.
DISPATCH = "mtlrun.runs.compute"


def files_run(action):
    """Return the files of mtlrun, named from the package on, of all functions that an action runs."""
    seen = set()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(f"{PACKAGE}/"):
            seen.add(code.co_filename)

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return {Path(name).relative_to(PACKAGE.parent).as_posix() for name in seen}


def files_of(modules):
    found = set()
    for name in modules:
        place = name.replace(".", "/")
        found |= {f"{place}.py", f"{place}/__init__.py"}
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", METHODS)
def test_every_file_that_a_fit_runs_is_in_the_code_of_its_method(name):
    if METHODS[name].extra == "nn":
        pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 4))
    Y = np.where(X @ rng.normal(size=(4, 6)) > 0, 1.0, -1.0)
    model = build({"estimator": name, "params": SMALL.get(name, {})})
    model.fit(X, Y)  # compiles what is compiled, and imports what is imported late
    run = files_run(lambda: model.fit(X, Y).predict(X))
    assert run
    assert run <= {*code_of(class_paths(resolved(name, SMALL.get(name, {}), seed=0))), *files_of(EXEMPT)}


EXPERIMENT = """\
schema: 1
id: made/one
title: One
datasets: [{id: simulated-rmtl, n: 60, d: 8, m: 6, rank: 2}]
features: {kind: standardize}
split: {kind: random, train: 0.5, trials: 1}
metrics: [auc, f1]
selection: {folds: 2}
methods:
  - {label: one, estimator: IndependentRidge, grid: {alpha: [0.1, 1]}}
"""


def test_every_file_that_a_cell_runs_after_loading_is_in_its_code(tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text(EXPERIMENT)
    cell = plan(load_experiment(path), output=tmp_path).rows[0].cell
    assert cell.code.items() >= code_of([FIT_MODULE]).items()
    for one, chosen in ((cell.folds[0], None), (cell, {"alpha": 1})):
        compute_cell(one, chosen, None)  # loads the data
        run = files_run(lambda one=one, chosen=chosen: compute_cell(one, chosen, None))
        assert "mtlrun/runs/fit.py" in run
        assert run <= {*one.code, *files_of({*EXEMPT, DISPATCH})}
