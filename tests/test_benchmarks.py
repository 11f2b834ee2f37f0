"""What the benchmarks import from the package is there."""

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem
)
def test_a_benchmark_can_be_imported(path):
    assert "main" in runpy.run_path(str(path), run_name=path.stem)
