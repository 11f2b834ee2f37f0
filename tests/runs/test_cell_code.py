"""The code of a cell is all code that computes it."""

import sys
from pathlib import Path

import pytest

import mtlrun
from mtlrun.estimators.registry import METHODS
from mtlrun.papers.measure import MEASURES
from mtlrun.runs import compute
from mtlrun.runs.code import EXEMPT

PACKAGE = Path(mtlrun.__file__).parent
#: The dispatcher chooses what is run for a cell.
EXEMPT_FILES = {f"{name.replace('.', '/')}{end}" for name in EXEMPT for end in (".py", "/__init__.py")}
EXEMPT_FILES |= {"mtlrun/runs/compute.py"}
SMALL = {"DivideAndConquerRMTL": "{n_blocks: 2}", "DivideAndConquerRMTLClassifier": "{n_blocks: 2}"}

METHOD = """\
schema: 1
id: lab/tiny
title: One method
kind: evaluate
datasets: [{id: simulated-rmtl, n: 40, d: 4, m: 6, rank: 2}]
split: {kind: random, train: 0.5}
metrics: [auc]
methods: [{label: one, estimator: NAME, params: PARAMS}]
"""

SEARCH = """\
schema: 1
id: lab/tiny
title: A search with a step for the features
kind: evaluate
datasets: [{id: simulated-rmtl, n: 60, d: 8, m: 6, rank: 2}]
split: {kind: random, train: 0.5}
metrics: [auc, accuracy]
features: standardize
selection: {folds: 2}
timing: {repeats: 1, threads: 1, warmup: false}
methods: [{label: one, estimator: IndependentRidge, grid: {alpha: [0.1, 1]}}]
"""

MEASURE = """\
schema: 1
id: lab/tiny
title: A measure
kind: inspect
datasets: [{id: simulated-rmtl, n: 60, d: 8, m: 6, rank: 2}]
metrics: [n, d]
methods: [{label: one, measure: data-set-statistics}]
"""


def files_run(cell, chosen=None):
    """Return the files of mtlrun of which a function runs while a cell is computed, its data loaded included."""
    compute.compute_cell(cell, chosen, None)  # compiles what is compiled, and imports what is imported late
    compute.loaded.cache_clear()
    seen = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        compute.compute_cell(cell, chosen, None)
    finally:
        sys.setprofile(None)
    found = {Path(name).relative_to(PACKAGE.parent).as_posix() for name in seen if name.startswith(f"{PACKAGE}/")}
    return found - EXEMPT_FILES


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", METHODS)
def test_all_code_that_a_cell_runs_is_in_its_key(lab, name):
    if METHODS[name].extra == "nn":
        pytest.importorskip("torch")
    (row,) = lab.plan(METHOD.replace("NAME", name).replace("PARAMS", SMALL.get(name, "{}"))).rows
    run = files_run(row.cell)
    assert "mtlrun/runs/fit.py" in run
    assert run <= set(row.cell.code)


def test_all_code_that_searches_and_measures_is_in_their_keys(lab):
    (row,) = lab.plan(SEARCH).rows
    assert files_run(row.cell.folds[0]) <= set(row.cell.folds[0].code)
    assert files_run(row.cell, {"alpha": 1}) <= set(row.cell.code)
    (row,) = lab.plan(MEASURE).rows
    run = files_run(row.cell)
    assert MEASURES["data-set-statistics"].partition(":")[0].replace(".", "/") + ".py" in run
    assert run <= set(row.cell.code)


def test_the_code_of_a_cell_reads_no_experiment_and_keeps_no_records(lab):
    others = [
        "load",
        "schema",
        "trainspec",
        "layers",
        "plan",
        "only",
        "run",
        "store",
        "survey",
        "methods",
        "merge",
        "train",
    ]
    for text in (SEARCH, MEASURE):
        for cell in [cell for row in lab.plan(text).rows for cell in (row.cell, *row.cell.folds)]:
            assert not {f"mtlrun/runs/{name}.py" for name in others} & set(cell.code)


def test_profiles_of_the_same_content_share_their_cells(lab):
    text = METHOD.replace("NAME", "IndependentRidge").replace("PARAMS", "{}")
    text += "profiles:\n  demo: {claims: []}\n  smoke: {split: {kind: random, train: 0.6}}\n"
    full, demo, smoke = (
        {row.cell.key for row in lab.plan(text, profile=name).rows} for name in ("full", "demo", "smoke")
    )
    assert full == demo != smoke


@pytest.mark.slow
def test_an_up_to_date_experiment_is_checked_without_its_solvers(lab):
    methods = """
  - {label: one, estimator: RobustMTL, grid: {lam: [0.1, 1]}}
  - {label: mine, estimator: "lab.models:Ridge"}
  - {label: theirs, estimator: "sklearn.linear_model:Ridge"}
"""
    path = lab.write(SEARCH.partition("methods:")[0] + "methods:" + methods)
    script = f"""
        import sys
        opened = []
        sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
        from mtlrun.runs.load import load_experiment
        from mtlrun.runs.plan import plan
        plan(load_experiment({str(path)!r}))
        loaded = [n for n in sys.modules if n.startswith(("lab", "mtlrun.solvers", "mtlrun.estimators.robust"))]
        print(loaded, [n for n in opened if "/sklearn/linear_model/" in n and n.endswith(".py")])
    """
    answers = []
    for _ in range(2):  # the first run looks at the classes
        process = lab.python(script, MTLRUN_DATA=str(lab.root), XDG_CACHE_HOME=str(lab.root / "cache"))
        out, err = process.communicate()
        assert process.returncode == 0, err
        answers.append(out.strip())
    assert "lab.models" in answers[0]
    assert answers[1] == "[] []"
