"""Inputs per reader: ``python -m pytest tests/fuzz --fuzz-examples 10000``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def fuzz_examples(pytestconfig: pytest.Config) -> int:
    """Return the number of inputs per reader."""
    return int(pytestconfig.getoption("--fuzz-examples"))
