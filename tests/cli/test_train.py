"""``mtlrun train``: output, files, exit codes, and all shipped training files."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mtlrun.cli.app import main
from mtlrun.utils.io import configs_dir

CONFIG = """\
schema: 1
kind: train
id: train/small
dataset: {id: simulated-rmtl, n: 60, d: 5, m: 3}
method: {estimator: IndependentRidge, grid: {alpha: [0.1, 10]}}
split: {kind: random, train: 0.5}
selection: {folds: 2}
metrics: [auc, accuracy]
"""

OWN = '''
"""An estimator of the user's own."""

from sklearn.linear_model import Ridge


class Mine(Ridge):
    """Ridge under another name."""


class Broken(Ridge):
    """Cannot be fitted."""

    def fit(self, X, y):
        """Raise."""
        raise ValueError("too few rows for me")
'''
SHIPPED = sorted(path.stem for path in (configs_dir() / "train").glob("*.yaml"))


@pytest.fixture
def small(tmp_path):
    (tmp_path / "small.yaml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "mine.py").write_text(OWN, encoding="utf-8")
    return tmp_path


def test_train_prints_scores_and_the_location_of_its_files(mtlrun, small, lacking):
    result = mtlrun("train", "small.yaml")
    assert result.exit_code == 0, result.output
    folder = Path("results/runs/train/small")
    saved = json.loads((folder / "metrics.json").read_text())
    assert f"auc       {saved['metrics']['auc']:.4f}" in result.stdout
    assert (
        f"chosen: alpha={saved['params']['alpha']} (cross-validated auc "
        in result.stdout
    )
    assert f"model: {folder}" in result.stdout
    assert not lacking(
        result.stderr,
        "60 rows",
        "30 for training",
        "30 for test",
        "5 features, 3 tasks",
    )
    assert "search, fold 2 of 2" in result.stderr


def test_quiet_and_overrides(mtlrun, small):
    result = mtlrun(
        "train",
        "small.yaml",
        "-q",
        "-o",
        "here",
        "--set",
        "method={estimator: PooledRidge}",
        "--seed",
        "3",
    )
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    config = json.loads((small / "here/train/small/config.json").read_text())
    assert (config["method"]["estimator"], config["seed"]) == ("PooledRidge", 3)


def test_train_accepts_an_estimator_of_the_user(mtlrun, small):
    result = mtlrun("train", "small.yaml", "--set", "method='mine:Mine'")
    assert result.exit_code == 0, result.output
    assert "fitting mine:Mine" in result.stderr
    refused = mtlrun("predict", "results/runs/train/small", "digits")
    assert refused.exit_code == 2
    assert "--trust mine.Mine" in refused.output


def test_a_module_in_the_current_folder_is_imported(
    mtlrun, small, tmp_path, monkeypatch
):
    installed = [entry for entry in sys.path if entry not in ("", str(tmp_path))]
    monkeypatch.setattr(sys, "path", installed)
    monkeypatch.setattr(
        sys, "argv", ["mtlrun", "train", "small.yaml", "--set", "method='mine:Mine'"]
    )
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    assert sys.path == installed


def test_a_file_at_the_path_of_the_output_folder_is_an_error(mtlrun, small):
    Path("taken").write_text("")
    result = mtlrun("train", "small.yaml", "--output", "taken")
    assert result.exit_code == 2
    assert "taken" in result.output
    assert "fitting" not in result.output


def test_errors_exit_with_2_and_a_remedy(mtlrun, small):
    cases = [
        (["train", "absent.yaml"], "no such file"),
        (["train", "smal"], "unknown experiment 'smal'"),
        (["train", "table2"], "not a training file"),
        (["train", "small.yaml", "--set", "metrics=[acu]"], "unknown metric 'acu'"),
        (
            ["train", "small.yaml", "--set", "method='mine:Broken'"],
            "mine:Broken: too few rows for me",
        ),
        (["train", "small.yaml", "--set", "method='mine:Absent'"], "Absent"),
        (["train", "small.yaml", "--set", "dataset.n=-5"], ""),
    ]
    for args, text in cases:
        result = mtlrun(*args)
        assert result.exit_code == 2, (args, result.output)
        assert text in result.output
        assert "Traceback" not in result.output
    assert not list(Path("results").rglob("model*"))


@pytest.mark.slow
def test_a_changed_configuration_needs_force(mtlrun, small):
    assert mtlrun("train", "small.yaml").exit_code == 0
    assert mtlrun("train", "small.yaml").exit_code == 0
    other = ("train", "small.yaml", "--set", "seed=1")
    assert mtlrun(*other).exit_code == 2
    assert mtlrun(*other, "--force").exit_code == 0


def test_missing_data_are_reported_with_the_remedy(mtlrun, tmp_path):
    result = mtlrun("train", "train/school", "--data-dir", str(tmp_path / "empty"))
    assert result.exit_code == 2
    assert "school.mat" in result.output
    assert "--yes" in result.output


def test_a_fit_that_does_not_converge_is_reported(mtlrun, small):
    result = mtlrun(
        "train",
        "small.yaml",
        "--set",
        "method={estimator: IndependentLogistic, params: {max_iter: 1, tol: 1.0e-12}}",
    )
    assert result.exit_code == 0, result.output
    assert "warning: not converged" in result.stderr


# --- shipped training files ---

#: Small data of the same task type and design replace missing real data.
STAND_INS = {
    "bibtex": ["dataset={id: simulated-rmtl, n: 80, d: 12, m: 4}"],
    "enron": ["dataset={id: simulated-rmtl, n: 80, d: 12, m: 4}"],
    "landmine": ["dataset=fields"],
    "letter": ["dataset=fields", "split={kind: random, train: 0.5}"],
    "mnist": ["dataset={id: digits, sample: 200}", "split={kind: random, train: 0.5}"],
    "sarcos": [
        "dataset={id: simulated-fetr, n: 80, d: 6, m: 3}",
        "split={kind: random, train: 0.5}",
    ],
    "school": ["dataset=shops", "split={kind: random, train: 0.5}"],
    "splice-windows": ["dataset={id: simulated-splice, n: 400}"],
}
#: Settings that keep runs on real files short: the rows are real, but some are left
#: out.
SHORT = {
    "bibtex": [
        "dataset={id: bibtex, sample: 2500}",
        "method.grid={C: [0.1]}",
        "selection={folds: 2}",
    ],
    "enron": ["method.grid={lam: [0.3], beta: [0.01]}"],
    "landmine": ["method.grid={alpha: [1, 10]}", "selection={folds: 2}"],
    "letter": ["method.grid={C: [0.1]}", "selection={folds: 2}"],
    "mnist": ["dataset.tasks={make: one-vs-rest, classes: ['4', '9'], per_class: 100}"],
    "sarcos": ["method.grid={alpha: [1, 10]}", "selection={folds: 2}"],
    "school": ["method.grid={alpha: [10, 100]}", "selection={folds: 2}"],
    "splice-windows": [
        "dataset.sample=1200",
        "method.grid={alpha: [1]}",
        "selection={folds: 2}",
    ],
}
#: Lower limits (upper limits for nmse) that any sensible fit meets on the real rows.
CLEARED = {
    "bibtex": ("auc", 0.83),
    "enron": ("auc", 0.65),
    "landmine": ("auc", 0.70),
    "letter": ("accuracy", 0.90),
    "mnist": ("auc", 0.92),
    "sarcos": ("nmse", 0.20),
    "school": ("nmse", 0.90),
    "splice-windows": ("auc", 0.85),
}


def _own_sets(folder):
    """Write two ragged data sets of the user: numbers as targets, and labels."""
    rng = np.random.default_rng(0)
    (folder / "cards").mkdir(parents=True)
    for name, task_type in (("shops", "regression"), ("fields", "binary")):
        (folder / name).mkdir()
        X = rng.standard_normal((150, 4))
        y = X @ [1.0, -1.0, 0.5, 0.0] + 0.3 * rng.standard_normal(150)
        table = pd.DataFrame(X, columns=list("abcd"))
        table["task"] = np.repeat(["north", "south", "east"], 50)
        table["y"] = y if task_type == "regression" else (y > 0).astype(int)
        table.to_csv(folder / name / "a.csv", index=False)
        (folder / "cards" / f"{name}.yaml").write_text(
            f"{{schema: 1, id: {name}, title: Mine, task_type: {task_type}, design: ragged, folder: {name}, "
            "licence: mine, citation: mine, reader: {name: csv, options: {target: y, task: task}}, "
            "files: [{name: a.csv, sha256: unknown}]}"
        )
    return folder


def _sets(changes):
    return [word for change in changes for word in ("--set", change)]


def test_every_shipped_file_is_tested():
    assert SHIPPED == sorted(STAND_INS) == sorted(SHORT) == sorted(CLEARED)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_shipped_files_run_on_small_replacements(mtlrun, tmp_path, name):
    folder = _own_sets(tmp_path / "data")
    result = mtlrun(
        "train",
        f"train/{name}",
        "-q",
        "--data-dir",
        str(folder),
        *_sets(STAND_INS[name]),
    )
    assert result.exit_code == 0, result.output
    saved = json.loads(Path(f"results/runs/train/{name}/metrics.json").read_text())
    values = [v for v in saved["metrics"].values() if v is not None]
    assert values
    assert np.isfinite(values).all()


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.every(2)
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_files_run_on_the_real_rows(mtlrun, name, request):
    folder = _REAL
    if not folder or not Path(folder).is_dir():
        pytest.skip("MTLRUN_DATA is not set")
    result = mtlrun(
        "train", f"train/{name}", "-q", "--data-dir", folder, *_sets(SHORT[name])
    )
    if "is not in" in result.output:
        pytest.skip(result.output.splitlines()[0])
    assert result.exit_code == 0, result.output
    metric, bound = CLEARED[name]
    value = json.loads(Path(f"results/runs/train/{name}/metrics.json").read_text())[
        "metrics"
    ][metric]
    assert value < bound if metric == "nmse" else value > bound


#: Read at import, because the fixture `mtlrun` hides the variable from tests.
_REAL = os.environ.get("MTLRUN_DATA", "")
