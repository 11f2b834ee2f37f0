"""Commands in the README exist, and its Python code runs; test_tutorials.py compares."""

import re
from pathlib import Path

import pytest

from mtlrun.cli.app import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
pytestmark = pytest.mark.skipif(not README.is_file(), reason="needs a checkout")


def _blocks(language):
    return re.findall(
        rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL
    )


def test_the_python_code_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    (code,) = _blocks("python")
    exec(compile(code, README.name, "exec"), {"__name__": "__main__"})


def test_commands_and_targets_exist():
    lines = [line for block in _blocks("sh") for line in block.splitlines()]
    known = {name for names in COMMANDS.values() for name in names}
    commands = {line.split()[1] for line in lines if line.startswith("mtlrun ")}
    targets = set(re.findall(r"`make (\w+)`", README.read_text(encoding="utf-8")))
    assert commands
    assert targets
    assert commands <= known
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(
        re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets
    )


def test_make_help_names_every_target():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE)
    assert phony
    for target in phony[1].split():
        assert re.search(rf"^{target}:.*## \S", makefile, flags=re.MULTILINE), target
