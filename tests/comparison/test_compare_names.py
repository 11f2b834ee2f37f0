"""Table names in figures and files: as they are, without control characters."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from mtlrun.api import compare

TASKS = ["$\\frac{$", "=cmd()", "\x1b[2J", "L" * 3000, "<script>x</script>"]
FEATURES = ["$\\alpha$ $", "+1+2", "\x1b]0;x\x07"]


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=FEATURES)
    table["y"] = table.sum(axis=1) + 0.1 * rng.normal(size=60)
    table["task"] = TASKS * 12
    return compare(
        table,
        target="y",
        task="task",
        methods=["GraphMTL"],
        splits=2,
        repeats=1,
        folds=2,
    )


@pytest.mark.rendered
@pytest.mark.slow
def test_figures_and_files_can_contain_hostile_names(result, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter(
            "error", UserWarning
        )  # Warnings of matplotlib about missing glyphs and tight layouts
        result.save(tmp_path)
    page = (tmp_path / "leaderboard.html").read_text()
    for name in (
        "leaderboard.html",
        "leaderboard.md",
        "leaderboard.csv",
        "tasks.csv",
        "coefficients.csv",
    ):
        assert "\x1b" not in (tmp_path / name).read_text()
    assert "<script>x" not in page
    labels = [text.get_text() for text in result.plot_tasks().get_yticklabels()]
    assert max(map(len, labels)) < 100
    assert "\\x1b[2J" in labels


@pytest.mark.slow
def test_names_are_the_same_in_all_files(result, tmp_path):
    result.save(tmp_path)
    files = ["tasks.csv", "coefficients.csv"]
    for name in files:
        tasks = pd.read_csv(tmp_path / name).task
        assert set(tasks) == {"\\x1b[2J" if "\x1b" in t else t for t in TASKS}
    prediction = tmp_path / "model" / "predictions.csv"
    assert "=cmd()" in set(pd.read_csv(prediction).task)


def test_coefficient_files_have_the_names_and_numbers_of_the_result(result, tmp_path):
    result.save(tmp_path)
    header, *lines = (tmp_path / "coefficients.csv").read_text().splitlines()
    assert header.split(",") == [
        "task",
        "intercept",
        FEATURES[0],
        "+1+2",
        "\\x1b]0;x\\x07",
    ]
    expected = [TASKS[0], "=cmd()", "\\x1b[2J", *TASKS[3:]]
    assert {line.split(",")[0] for line in lines} == set(expected)
    first = next(k for k, line in enumerate(lines) if line.startswith(TASKS[0]))
    assert float(lines[first].split(",")[2]) == pytest.approx(
        result.coefficients.iloc[first, 1], rel=1e-7
    )


@pytest.mark.slow
def test_labels_in_another_unicode_normal_form_are_equal():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "task": ["a", "b"] * 30})
    frame["y"] = np.where(frame.x > 0, "caf\u00e9", "tea")
    options = {
        "methods": ["TraceNormMTLClassifier"],
        "splits": 2,
        "repeats": 1,
        "folds": 2,
    }
    model = compare(frame, target="y", task="task", **options).model
    other = frame.y.str.replace("\u00e9", "e\u0301") + " "
    assert model.score(frame, other) == model.score(frame, frame.y) > 0.9
