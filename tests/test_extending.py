"""The guide to extending mtlrun shows the examples, and they do what it states."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

from mtlrun.cli.app import app
from mtlrun.estimators.penalized import JointFeatureMTL
from mtlrun.problem.losses import SquaredLoss
from mtlrun.problem.objective import duality_gap
from mtlrun.problem.taskdata import TaskData

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "extending.md"
EXAMPLES = sorted((ROOT / "examples" / "extending").glob("*.py"))


@pytest.fixture
def example(monkeypatch, tmp_path):
    """Import an example as from its folder; remove all traces of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES[0].parent)
    before = set(sys.modules)
    yield importlib.import_module
    for name in {path.stem for path in EXAMPLES} - before:
        sys.modules.pop(name, None)


def test_the_page_names_all_examples():
    text = PAGE.read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES if f"/{path.name}`" not in text] == []


@pytest.mark.slow
def test_the_method_takes_part_in_a_comparison(example, capsys):
    module = example("my_method")
    result = module.main()
    assert "TowardsPooled" in set(result.leaderboard["method"])
    assert "TowardsPooled" in capsys.readouterr().out
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    Y = X @ rng.normal(size=(3, 2)) + 1.0
    shared = module.TowardsPooled(alpha=1e-8).fit(X, Y)
    np.testing.assert_allclose(shared.predict(X), Y, atol=1e-5)
    pooled = module.TowardsPooled(alpha=1e8).fit(X, Y)
    np.testing.assert_allclose(pooled.coef_[0], pooled.coef_[1], atol=1e-4)
    with pytest.raises(ValueError, match="alpha"):
        clone(shared).set_params(alpha=0).fit(X, Y)


def test_the_penalty_is_solved_to_a_certified_optimum(example, capsys):
    module = example("my_penalty")
    model = module.main()
    assert model.converged_
    assert not model.coef_[:, 2].any()
    assert "relative duality gap" in capsys.readouterr().out
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    Y = X @ rng.normal(size=(5, 3)) + rng.normal(size=(40, 3))
    plain = module.WeightedFeatureMTL(alpha=5.0, tol=1e-9).fit(X, Y)
    np.testing.assert_allclose(
        plain.coef_, JointFeatureMTL(alpha=5.0, tol=1e-9).fit(X, Y).coef_, atol=1e-4
    )
    # A weight changes the unit of the feature.
    weights = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    for solver in ("admm", "fista"):
        model = module.WeightedFeatureMTL(
            alpha=5.0, weights=weights, solver=solver, tol=1e-9
        ).fit(X, Y)
        other = JointFeatureMTL(alpha=5.0, tol=1e-9).fit(X / weights, Y)
        np.testing.assert_allclose(model.coef_, other.coef_ / weights, atol=1e-4)
        penalty = module.WeightedRows(5.0, tuple(weights))
        data = TaskData.from_matrix(X, Y)
        assert (
            duality_gap(
                data, SquaredLoss(1.0), [penalty], [model.coef_.T], model.intercept_
            ).relative
            <= 2e-9
        )


def test_the_data_set_is_loaded_by_name_and_trained_on(example, capsys):
    data = example("my_dataset").main()
    assert (data.n_samples, data.n_features, data.tasks) == (
        80,
        2,
        ["east", "north", "south", "west"],
    )
    assert "(simulated): 80 rows" in capsys.readouterr().out
    for command in (
        ["data", "info", "plants", "--data-dir", "my-data"],
        ["init", "plants", "--data-dir", "my-data"],
        [
            "train",
            "plants.yaml",
            "--data-dir",
            "my-data",
            "-q",
            "--set",
            "method.grid.alpha=[1.0]",
        ],
    ):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output


MEASURED = """\
schema: 1
id: mine/correlations
title: Correlations
kind: inspect
datasets: [{id: simulated-rmtl, n: 300, d: 6, m: 4, rank: 2}]
metrics: [largest, mean]
repeats: 2
methods:
  - {label: 100 rows, measure: "my_measure:correlations", params: {rows: 100}}
"""


def test_the_analysis_runs_and_its_quantities_are_declared(example, tmp_path, capsys):
    analysis = example("my_measure").main()
    assert 0 < analysis.values["mean"] < analysis.values["largest"] < 1
    assert "largest" in capsys.readouterr().out
    (tmp_path / "mine.yaml").write_text(MEASURED)
    result = CliRunner().invoke(app, ["reproduce", "mine.yaml", "--output", "runs"])
    assert result.exit_code == 0, result.output
    assert "2 results" in result.output
    (tmp_path / "mine.yaml").write_text(MEASURED.replace("mean]", "meen]"))
    result = CliRunner().invoke(app, ["validate", "mine.yaml"])
    assert result.exit_code == 2
    assert "mean" in result.output
