"""``mtlrun plot`` draws figures of a comparison from its folder, without the table."""

import contextlib

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mtlrun.cli.app import app


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """Return the folder of a comparison of four schools."""
    root = tmp_path_factory.mktemp("comparison")
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"hours": rng.normal(size=96)})
    rows["school"] = np.repeat(["north", "south", "east", "west"], 24)
    rows["grade"] = rows.hours + rng.normal(size=96)
    rows.to_csv(root / "grades.csv", index=False)
    options = "--target grade --task school --methods GraphMTL --splits 3 --repeats 1 --folds 2"
    with contextlib.chdir(root):
        done = CliRunner().invoke(app, ["compare", "grades.csv", *options.split()])
    assert done.exit_code == 0, done.output
    return str(root / "results/runs/compare/grades")


@pytest.mark.rendered
@pytest.mark.slow
def test_figures_are_drawn_from_the_folder_of_a_comparison(
    mtlrun, comparison, tmp_path
):
    for kind, ending in (("verdict", "png"), ("tasks", "svg"), ("predictions", "pdf")):
        out = tmp_path / f"{kind}.{ending}"
        done = mtlrun("plot", comparison, "--kind", kind, "--out", str(out))
        assert done.exit_code == 0, done.output
        assert done.stdout.strip() == str(out)
        assert out.stat().st_size > 2000
    assert "north" in (tmp_path / "tasks.svg").read_text()
    out = tmp_path / "one.svg"
    command = ("plot", comparison, "--kind", "predictions", "--tasks", "west")
    assert mtlrun(*command, "--out", str(out)).exit_code == 0
    assert "west" in out.read_text()
    assert "north" not in out.read_text()

    for words in (
        ("--kind", "pie"),
        ("--kind", "calibration"),
        ("--kind", "verdict", "--tasks", "west"),
        ("--kind", "tasks", "--tasks", "wset"),
    ):
        done = mtlrun("plot", comparison, *words, "--out", str(tmp_path / "x.svg"))
        assert done.exit_code == 2
        assert done.stderr.count("\n") >= 1
        assert not (tmp_path / "x.svg").exists()


@pytest.mark.rendered
def test_the_verdict_is_the_default_figure(mtlrun, comparison):
    done = mtlrun("plot", comparison)
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == "grades-verdict.svg"
    assert "predictions" in done.stderr
    with open("grades-verdict.svg") as file:
        assert "<svg" in file.read()


@pytest.mark.rendered
@pytest.mark.cover
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["predictions", "tasks", "heatmap", "shrinkage"])
@pytest.mark.parametrize(
    "words",
    [["--tasks", "west,east"], ["--tasks", " west, east"], ["--tasks", '"west",east']],
)
def test_tasks_of_a_figure_may_be_separated_by_commas(
    mtlrun, comparison, tmp_path, kind, words
):
    out = tmp_path / "two.svg"
    done = mtlrun("plot", comparison, "--kind", kind, *words, "--out", str(out))
    assert done.exit_code == 0, done.output
    drawn = {name for name in ("west", "east", "north") if name in out.read_text()}
    assert drawn == {"west", "east"}


def test_the_unknown_task_of_a_list_is_named(mtlrun, comparison):
    done = mtlrun("plot", comparison, "--kind", "tasks", "--tasks", "west,eats")
    assert done.exit_code == 2
    assert "'eats'" in done.stderr
    assert "'east'" in done.stderr
