"""The paths of a number and of a comparison through the code do not become longer."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "walk.py"


@pytest.mark.slow
@pytest.mark.parametrize("walk", ["reproduce", "compare"])
def test_no_path_through_the_code_becomes_longer(walk):
    run = subprocess.run(
        [sys.executable, str(SCRIPT), walk], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-500:] + run.stderr[-2000:]
