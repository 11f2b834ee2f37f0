"""What the documents point at exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
REFERENCES = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs/errata.md").read_text("utf-8"))))


def test_the_errata_name_tests():
    assert len(REFERENCES) > 10


@pytest.mark.parametrize(("file", "name"), REFERENCES)
def test_the_tests_named_in_the_errata_exist(file, name):
    assert f"def {name}(" in (ROOT / file).read_text("utf-8")
