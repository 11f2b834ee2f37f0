"""The text of a report on the terminal is printed again only if nothing has changed,
and texts of others are printed without commands for the terminal.
"""

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from mtlrun.engine.record import Record
from mtlrun.lab import terminal_text
from mtlrun.lab.report.terminal import print_sections
from mtlrun.lab.terminal_text import text_file
from mtlrun.show.report_table import Column, ReportTable, Section
from mtlrun.utils.io import DIGEST, sealed, unsealed

RUN = Path("results/runs/made/table1/full")
CELLS = Path("results/runs/cells")
#: Text that no report has.
MARK = "this text was kept"
CLAIM = """\
claims:
  - id: made-1
    text: Ridge errs less
    checks: [{kind: order, quantity: mse, methods: [Ridge, Pooled], dataset: simulated-rmtl, effect: 0}]
"""


@pytest.fixture(scope="module")
def folder_of_copies(tmp_path_factory):
    """Return a folder for the files of an experiment that was computed once."""
    return tmp_path_factory.mktemp("computed") / "copy"


@pytest.fixture
def computed(mtlrun, write_experiment, folder_of_copies, tmp_path):
    """Write an experiment and its results."""
    if folder_of_copies.is_dir():
        shutil.copytree(folder_of_copies, tmp_path, dirs_exist_ok=True)
        return
    write_experiment()
    assert mtlrun("reproduce", "table.yaml").exit_code == 0
    shutil.copytree(tmp_path, folder_of_copies)


@pytest.fixture
def kept(mtlrun, computed):
    """Return the output of an experiment after replacing its kept text by `MARK`."""
    output = mtlrun("reproduce", "table.yaml").stdout
    content = unsealed(json.loads(text_file(RUN).read_text()))
    content["text"] = f"{MARK}\n"
    text_file(RUN).write_text(json.dumps(sealed(content)))
    return output


def append_blank(path):
    path.write_bytes(path.read_bytes() + b" ")


def first_cell():
    return min(CELLS.glob("*.json"))


def test_an_unchanged_run_prints_the_kept_text(mtlrun, kept):
    output = mtlrun("reproduce", "table.yaml").stdout
    assert output.splitlines()[0] == MARK
    assert output.splitlines()[-1] == kept.splitlines()[-1]


@pytest.mark.parametrize(
    "name",
    ["run.json", "cells.json.xz", "provenance.json", "report.md", "report.html"],
)
def test_a_changed_file_of_the_run_changes_the_text(mtlrun, kept, name):
    append_blank(RUN / name)
    assert MARK not in mtlrun("reproduce", "table.yaml").stdout


def test_a_changed_record_changes_the_text(mtlrun, kept):
    append_blank(first_cell())
    assert MARK not in mtlrun("reproduce", "table.yaml").stdout


def test_a_missing_record_changes_the_text(mtlrun, kept):
    # The packed records still have it, so nothing is computed.
    first_cell().unlink()
    output = mtlrun("reproduce", "table.yaml").stdout
    assert output == kept


def test_a_missing_page_is_written_again(mtlrun, kept):
    (RUN / "report.html").unlink()
    assert MARK not in mtlrun("reproduce", "table.yaml").stdout
    assert (RUN / "report.html").is_file()


def test_a_changed_experiment_changes_the_text(mtlrun, kept, write_experiment):
    write_experiment(extra=CLAIM)
    output = mtlrun("reproduce", "table.yaml").stdout
    assert MARK not in output
    assert "made-1" in output


def test_a_computed_cell_changes_the_text(mtlrun, kept):
    assert MARK not in mtlrun("reproduce", "table.yaml", "--force").stdout
    assert MARK not in mtlrun("reproduce", "table.yaml").stdout


def test_another_width_changes_the_text(mtlrun, kept, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert MARK not in mtlrun("reproduce", "table.yaml").stdout


@pytest.mark.parametrize("name", ["sources", "installed_version"])
def test_another_version_changes_the_text(mtlrun, kept, monkeypatch, name):
    monkeypatch.setattr(terminal_text, name, lambda *_: "another")
    assert mtlrun("reproduce", "table.yaml").stdout == kept


def test_another_text_or_damage_is_not_printed(mtlrun, kept):
    content = json.loads(text_file(RUN).read_text())
    content["text"] = "changed by hand"
    text_file(RUN).write_text(json.dumps(content))
    assert mtlrun("reproduce", "table.yaml").stdout == kept
    text_file(RUN).write_bytes(b"\xff{")
    assert mtlrun("reproduce", "table.yaml").stdout == kept


def test_a_moved_run_prints_its_report_anew(mtlrun, kept):
    Path("results/runs").rename("elsewhere")
    output = mtlrun("reproduce", "table.yaml", "--output", "elsewhere").stdout
    assert MARK not in output


def test_the_text_is_not_used_for_another_form(mtlrun, kept):
    assert MARK not in mtlrun("reproduce", "table.yaml", "--check").stdout
    assert MARK not in mtlrun("reproduce", "table.yaml", "--format", "md").stdout


@pytest.mark.slow
def test_an_unchanged_run_imports_no_report(kept, environment):
    code = (
        "import sys\n"
        "sys.argv = ['mtlrun', 'reproduce', 'table.yaml', '-q']\n"
        "from mtlrun.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = ['numpy', 'pandas', 'scipy', 'jinja2', 'mtlrun.lab.report.build']\n"
        "print('HEAVY', [name for name in heavy if name in sys.modules])\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.splitlines()[0] == MARK
    assert "HEAVY []" in run.stdout


ESCAPES = "\x1b]0;owned\x07\x1b]8;;https://evil.invalid\x1b\\\\here\x1b]8;;\x1b\\\\\x9b31m\u202e"
MARKUP = "[red][link=https://evil.invalid]here[/link][/red]"


def test_a_text_in_the_folder_of_the_run_is_never_printed(mtlrun, kept):
    content = json.loads(text_file(RUN).read_text())
    text_file(RUN).unlink()
    (RUN / "terminal.json").write_text(json.dumps(content))
    assert MARK not in mtlrun("reproduce", "table.yaml").stdout
    assert MARK not in mtlrun("reproduce", "table.yaml").stdout


def planted(value, text):
    """Return a JSON value in which titles, labels and names of a run contain a text."""
    if isinstance(value, dict):
        return {key: planted(item, text) for key, item in value.items()}
    if isinstance(value, list):
        return [planted(item, text) for item in value]
    if value in ("Ridge", "A small table", "Nobody, Nothing, 2015", "Table I"):
        return f"{value}{text}"
    return value


@pytest.mark.every(2, others="slow")
@pytest.mark.parametrize("text", [ESCAPES, MARKUP])
@pytest.mark.parametrize(
    "command", [("report",), ("status",), ("report", "--format", "md"), ("plot",)]
)
def test_stored_texts_reach_the_terminal_without_commands(
    mtlrun, computed, text, command
):
    content = json.loads((RUN / "run.json").read_text())
    content.pop(DIGEST, None)
    (RUN / "run.json").write_text(json.dumps(sealed(planted(content, text))))
    for path in CELLS.glob("*.json"):
        line = json.loads(path.read_text())["record"]
        line.update(status="failed", error=f"no{text}", log=text)
        path.write_text(Record.from_content(line).line())
    result = mtlrun(command[0], str(RUN), *command[1:])
    assert "Traceback" not in result.output
    assert not set(ESCAPES) & set(result.output) & set("\x1b\x07\x9b\u202e")


def test_markup_in_stored_texts_is_printed_as_it_is():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=200)
    table = ReportTable([Column(MARKUP)], [[MARKUP]])
    print_sections(console, [Section(MARKUP, [f"{MARKUP}{ESCAPES}"], [table])])
    printed = stream.getvalue()
    assert printed.count(MARKUP) == 4
    assert "evil.invalid\x1b" not in printed
    assert "\x07" not in printed
    assert "\u202e" not in printed
