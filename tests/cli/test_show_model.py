"""``mtlrun show`` of a saved model, and what `train` says about its parts."""

import numpy as np
import pandas as pd
import pytest

import mtlrun as library


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A compared smooth model of 8 tasks."""
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
        splits=3,
        repeats=1,
        folds=2,
    )
    folder = tmp_path_factory.mktemp("models") / "model"
    result.save(folder)
    return folder


def test_show_names_method_tasks_and_what_explains_the_target(mtlrun, folder):
    result = mtlrun("show", str(folder))
    assert result.exit_code == 0
    assert "Smooth" in result.output
    assert "8 tasks" in result.output
    assert "shares of the variance" in result.output
    assert "Tasks differ in their level" in result.output


def test_show_of_a_model_has_json(mtlrun, folder):
    result = mtlrun("show", str(folder), "--json")
    assert result.exit_code == 0
    assert '"tasks"' in result.output


def test_options_of_experiments_do_not_go_with_models(mtlrun, folder):
    result = mtlrun("show", str(folder), "--profile", "quick")
    assert result.exit_code == 2
    assert "mtlrun show" in result.output
