"""``mtlrun plot MODEL``: similarities of tasks, coefficients, parameter search."""

import numpy as np
import pytest
from typer.testing import CliRunner

from mtlrun.cli.app import app
from mtlrun.errors import UserError
from mtlrun.model import plots as modelplots
from mtlrun.model.files import load_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plots")
    (folder / "mine.yaml").write_text(
        "schema: 1\nid: my/model\ntitle: Mine\nkind: train\n"
        "dataset: {id: simulated-fetr, n: 80, d: 5, m: 4}\n"
        "selection: {folds: 2}\n"
        "method: {estimator: MTRL, grid: {lam2: [0.1, 1.0, 10.0]}}\n"
        "split: {kind: random, train: 0.5}\nmetrics: [mse]\n"
    )
    result = CliRunner().invoke(
        app, ["train", str(folder / "mine.yaml"), "-o", str(folder)]
    )
    assert result.exit_code == 0, result.output
    return folder / "my" / "model"


@pytest.mark.rendered
@pytest.mark.parametrize(
    "kind", sorted({*modelplots.KINDS} - {"shrinkage", "curve", "task"})
)
def test_every_kind_is_drawn(model, kind, tmp_path):
    file = tmp_path / "figure.svg"
    result = CliRunner().invoke(
        app, ["plot", str(model), "--kind", kind, "-o", str(file)]
    )
    assert result.exit_code == 0, result.output
    assert "MTRL on simulated-fetr" in file.read_text()


def test_figures_show_the_numbers_of_the_model(model):
    loaded = load_model(model)
    (similarity,) = modelplots.picture_of(model, "tasks").panels
    assert np.allclose(similarity.values, loaded.estimator.task_similarity_)
    (coefficients,) = modelplots.picture_of(model, "coefficients").panels
    assert np.allclose(coefficients.values, loaded.estimator.coef_.T)
    (panel,) = modelplots.picture_of(model, "path").panels
    assert (panel.axis, panel.curves[0].x) == ("lam2", [0.1, 1.0, 10.0])


def test_a_linear_model_is_drawn_by_its_coefficients(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["plot", str(model)])
    assert result.exit_code == 0, result.output
    assert result.stdout == "model-coefficients.svg\n"
    assert result.stderr.strip().endswith("tasks, task, path")
    assert modelplots.default_kind(model, column="x") == "task"


def test_a_model_without_figures_refers_to_show(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "schema: 1\nid: my/mean\nkind: train\n"
        "dataset: {id: simulated-fetr, n: 80, d: 5, m: 4}\n"
        "method: {estimator: 'mtlrun.estimators.baselines:TaskMean'}\n"
        "split: {kind: random, train: 0.5}\nmetrics: [mse]\n"
    )
    words = ["train", str(tmp_path / "mine.yaml"), "-o", str(tmp_path)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    folder = tmp_path / "my" / "mean"
    with pytest.raises(UserError) as caught:
        modelplots.default_kind(folder)
    assert "mtlrun show" in caught.value.remedy
    # The remedy names a kind that it has.
    with pytest.raises(UserError) as caught:
        modelplots.picture_of(folder, "tasks")
    assert "--kind task" in caught.value.remedy


def test_an_unknown_kind_names_the_others(model):
    result = CliRunner().invoke(
        app, ["plot", str(model), "--kind", "trace", "-o", "figure.svg"]
    )
    assert result.exit_code == 2
    assert "coefficients" in result.output
