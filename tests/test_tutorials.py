"""The tutorials do what they say: their commands are run in an empty folder, and print the lines that are shown.

Numbers may differ from those on the page (seconds do), a line that ends with ``...`` is compared up to there. Comments
before a block say more: ``needs data`` and ``not run``, ``fails``, ``FILE = OTHER with TEXT -> TEXT, TEXT -> TEXT``.
"""

import contextlib
import io
import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer.main
from typer.testing import CliRunner

from mtlrun.cli.app import app

ROOT = Path(__file__).parents[1]
START = ROOT / "docs" / "start"
TUTORIALS = [*sorted((ROOT / "docs" / "tutorials").glob("*.md")), START / "first-comparison.md", START / "install.md"]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(
    r"(?:<!-- (?P<note>[^\n]*?) -->\n\n)?^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_EDIT = re.compile(r"(?P<new>\S+) = (?P<old>\S+) with (?P<changes>.*)")
_CODE = re.compile(r"^```.*?^```$|^    .*$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"(?:^`?| {4}|&& )(mtlrun [a-z][^`\n]*)", re.MULTILINE)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as `python FILE` does
    monkeypatch.delenv("MTLRUN_DATA", raising=False)
    said = ""
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        note, language, body = block["note"] or "", block["language"], block["body"]
        if note.startswith(("needs data", "not run")):
            continue
        if edit := _EDIT.search(note):
            text = Path(edit["old"]).read_text(encoding="utf-8")
            for change in edit["changes"].split(", "):
                text = text.replace(*change.split(" -> "))
            Path(edit["new"]).write_text(text, encoding="utf-8")
        if block["title"]:
            Path(block["title"]).write_text(body, encoding="utf-8")
        elif language == "sh":
            said = "".join(_run(line, fails=note.startswith("fails")) for line in body.splitlines())
        elif language == "text":
            assert not _unprinted(body, said), said


def test_the_commands_for_each_kind_of_problem_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(72, 3)), columns=["age", "dose", "hours"])
    names = {"school": "grade", "clinic": "pressure"}
    grouped = rows.assign(**{name: np.arange(72) % 4 for name in names}, patient=np.arange(72) % 24)
    grouped = grouped.assign(**{name: rows["hours"] + rng.normal(size=72) for name in names.values()})
    grouped.drop(columns=["clinic", "patient", "pressure"]).to_csv("grades.csv", index=False)
    visits = pd.concat([grouped.drop(columns=["school", "grade"])] * 7, ignore_index=True)
    dates = pd.date_range("2024-01-01", periods=len(visits)).astype(str)
    visits.assign(age=rng.normal(size=len(visits)), date=dates).to_csv("visits.csv", index=False)
    numbers = {name: rows["age"] + rng.normal(size=72) for name in ("protein", "fat", "water")}
    rows.assign(**numbers).to_csv("spectra.csv", index=False)
    tags = {f"tag_{name}": (value > 0).astype("Int64").where(value < 2) for name, value in numbers.items()}
    rows.assign(**tags).to_csv("texts.csv", index=False)  # with missing ones
    blocks = list(_BLOCK.finditer((START / "is-it-mine.md").read_text("utf-8")))
    lines = [line for block in blocks if block["language"] == "sh" for line in block["body"].splitlines()]
    assert {line.split()[2] for line in lines} == {"grades.csv", "visits.csv", "spectra.csv", "texts.csv"}
    for line in lines:
        printed = _run(f"{line} --methods GraphMTL --splits 3 --repeats 1 --folds 2 --quiet", fails=False)
        assert "GraphMTL" in printed, line


def _run(line, *, fails):
    words = shlex.split(line)
    if words[0] == "python":
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path(words[1])
        return printed.getvalue()
    assert words[0] == "mtlrun", line
    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == (2 if fails else 0), f"{line}\n{result.output}"
    return result.output


def _unprinted(shown, said):
    """Return the lines shown that were not printed; a line that ends with dots needs only its start."""
    lines = {_plain(line) for line in said.splitlines()}

    def found(line):
        start = line.removesuffix("...").rstrip()
        return not start or line in lines or (line != start and any(one.startswith(start) for one in lines))

    return [line for line in map(_plain, shown.splitlines()) if not found(line)]


def _plain(line):
    """Return a line with # for every number and one blank between words."""
    return " ".join(re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "#", line).split())


def _commands():
    for page in PAGES:
        for code in _CODE.findall(page.read_text(encoding="utf-8")):
            for line in _COMMAND.findall(code):
                for part in re.split(r" && | \| |  +#", line):
                    yield pytest.param(part, id=f"{page.stem}: {part}")


@pytest.mark.parametrize("line", [line for line in _commands() if line.values[0].startswith("mtlrun ")])
def test_commands_and_options_in_the_documents_exist(line):
    words = line.replace("'", "").split()[1:]
    command = typer.main.get_command(app)
    while words and hasattr(command, "commands"):
        name = words.pop(0).rstrip(".,:;")
        assert name in command.commands, f"no command {name}"
        command = command.commands[name]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    used = {word.partition("=")[0].rstrip(".,:;") for word in words if re.match(r"--?[a-z]", word)}
    assert used <= known | {"--help"}, f"unknown: {used - known}"
