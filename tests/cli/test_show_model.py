"""``mtlrun show`` of a saved model, and the parts of a model reported by `train`."""

import numpy as np
import pandas as pd
import pytest

import mtlrun as library

pytestmark = pytest.mark.usefixtures("few_trees")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Compare methods on 8 tasks and return the smooth model."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(8), 15)
    x = rng.uniform(-2, 2, size=len(task))
    y = np.sin(2 * x) + rng.normal(size=8)[task] + 0.2 * rng.normal(size=len(task))
    frame = pd.DataFrame({"x": x, "task": [f"t{t}" for t in task], "y": y})
    result = library.compare(
        frame,
        target="y",
        task="task",
        methods=["SmoothMTL"],
        splits=2,
        repeats=1,
        folds=2,
    )
    folder = tmp_path_factory.mktemp("models") / "model"
    result.save(folder)
    return folder


def test_show_prints_method_tasks_and_explained_variance(mtlrun, folder):
    result = mtlrun("show", str(folder))
    assert result.exit_code == 0
    assert "Smooth" in result.output
    assert "8 tasks" in result.output
    assert "shares of the variance" in result.output
    assert "Tasks differ in their level" in result.output


def test_show_prints_the_summary_of_a_model_in_80_columns(mtlrun, folder):
    text = mtlrun("show", str(folder)).output.partition("summary, for columns")[2]
    assert "task level" in text
    assert "conditional" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.slow
def test_the_summary_of_a_saved_model_names_columns_and_the_unit_of_the_target(
    mtlrun, tmp_path
):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"dose": rng.normal(size=120), "g": np.arange(120) % 8})
    frame["y"] = 100 * frame.dose + 30 * rng.normal(size=120)
    options = {"methods": ["HierarchicalMTL"], "splits": 3, "folds": 2}
    library.compare(frame, target="y", task="g", **options).save(tmp_path / "model")
    text = mtlrun("show", str(tmp_path / "model")).output
    assert f"in units of {frame.y.std(ddof=0):.4g}" in text
    assert "dose" in text.partition("summary, for columns")[2]


def test_show_prints_a_model_as_json(mtlrun, folder):
    result = mtlrun("show", str(folder), "--json")
    assert result.exit_code == 0
    assert '"tasks"' in result.output


def test_options_of_experiments_are_rejected_for_models(mtlrun, folder):
    result = mtlrun("show", str(folder), "--profile", "quick")
    assert result.exit_code == 2
    assert "mtlrun show" in result.output
