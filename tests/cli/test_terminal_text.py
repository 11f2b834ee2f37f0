"""The text of a report on the terminal is printed again only if nothing has changed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mtlrun.lab import terminal_text
from mtlrun.lab.terminal_text import TERMINAL
from mtlrun.utils.io import sealed, unsealed

RUN = Path("results/runs/made/table1/full")
CELLS = Path("results/runs/cells")
#: Text that no report has.
MARK = "this text was kept"
CLAIM = """\
claims:
  - id: made-1
    text: Ridge errs less
    checks: [{kind: order, quantity: mse, methods: [Ridge, Pooled], dataset: simulated-rmtl}]
"""


@pytest.fixture
def kept(mtlrun, write_experiment):
    """Return the output of an experiment after replacing its kept text by `MARK`."""
    write_experiment()
    mtlrun("reproduce", "table.yaml")
    output = mtlrun("reproduce", "table.yaml").stdout
    content = unsealed(json.loads((RUN / TERMINAL).read_text()))
    content["text"] = f"{MARK}\n"
    (RUN / TERMINAL).write_text(json.dumps(sealed(content)))
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


@pytest.mark.parametrize("name", ["sources", "version"])
def test_another_version_changes_the_text(mtlrun, kept, monkeypatch, name):
    monkeypatch.setattr(terminal_text, name, lambda *_: "another")
    assert mtlrun("reproduce", "table.yaml").stdout == kept


def test_another_text_or_damage_is_not_printed(mtlrun, kept):
    content = json.loads((RUN / TERMINAL).read_text())
    content["text"] = "changed by hand"
    (RUN / TERMINAL).write_text(json.dumps(content))
    assert mtlrun("reproduce", "table.yaml").stdout == kept
    (RUN / TERMINAL).write_bytes(b"\xff{")
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
