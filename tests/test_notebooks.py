"""Notebooks as pages. Building the documentation runs all of them."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
page = runpy.run_path(str(ROOT / "scripts" / "notebooks.py"))["page"]
NOTEBOOKS = sorted(ROOT.glob("docs/tutorials/*.ipynb"))


def test_a_page_has_what_the_cells_of_a_notebook_show(tmp_path):
    path = tmp_path / "a.ipynb"
    sources = ["import pandas as pd", "pd.DataFrame({'a': [1]})"]
    cells = [{"cell_type": "markdown", "source": ["Intro"]}]
    cells += [{"cell_type": "code", "source": ["\n".join(sources)]}]
    path.write_text(json.dumps({"cells": cells}))
    text = page(path)
    assert text.startswith("Intro")
    assert "<table" in text
    cells[1]["source"] = sources[:1]
    path.write_text(json.dumps({"cells": cells}))
    with pytest.raises(ValueError, match="import pandas"):
        page(path)


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
