"""The notebooks of the documentation run completely and without warnings."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
run = runpy.run_path(str(ROOT / "scripts" / "notebooks.py"))["run"]
NOTEBOOKS = sorted(ROOT.glob("docs/tutorials/*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    outputs = [text for kind, _, text in run(path, tmp_path) if kind == "code"]
    assert all("<" in text for text in outputs)  # Each cell shows something.
    assert any("<table" in text for text in outputs)


def test_there_are_two_notebooks_stored_without_outputs():
    assert [path.stem for path in NOTEBOOKS] == [
        "notebook-compare",
        "notebook-reproduce",
    ]
    for path in NOTEBOOKS:
        code = [
            cell
            for cell in json.loads(path.read_text())["cells"]
            if cell["cell_type"] == "code"
        ]
        assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
