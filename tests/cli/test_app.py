"""The command-line application: lean imports, errors, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mtlrun.cli.app import build_app
from mtlrun.cli.options import Command, Debug
from mtlrun.errors import MEMORY_REMEDY, DataError, MtlrunError, UnknownNameError

HEAVY = (
    "numpy",
    "scipy",
    "pandas",
    "sklearn",
    "matplotlib",
    "numba",
    "joblib",
    "jinja2",
    "pydantic",
    "requests",
    "torch",
)
EMPTY = "import typer\napp = typer.Typer()\napp.command('a')(lambda: None)\napp.command('b')(lambda: None)\n"


def heavy_after(code: str, *commands: list[str]) -> dict[str, list[str]]:
    """Run commands and return the heavy packages that each imported first."""
    script = f"""
import json, sys
{code}
found, before = {{}}, set()
for command in {commands!r}:
    sys.argv = ["mtlrun", *command]
    try:
        app()
    except SystemExit as end:
        assert not end.code, end.code
    now = set({HEAVY!r}) & set(sys.modules)
    found[" ".join(command)], before = sorted(now - before), now
print(json.dumps(found))
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return dict(json.loads(run.stdout.splitlines()[-1]))


@pytest.mark.slow
def test_commands_import_no_heavy_packages():
    # Some versions of Typer import pydantic. No other heavy package may be imported.
    unavoidable = {
        name
        for names in heavy_after(EMPTY, ["--help"], ["a"]).values()
        for name in names
    }
    assert unavoidable <= {"pydantic"}
    light = [
        ["--version"],
        ["--help"],
        ["list"],
        ["list", "methods"],
        ["reproduce", "--help"],
        ["data", "--help"],
    ]
    heavy_packages = heavy_after("from mtlrun.cli.app import app", *light)
    assert [
        command for command, names in heavy_packages.items() if set(names) - unavoidable
    ] == []


def test_a_missing_table_is_reported_before_heavy_imports():
    script = (
        "import sys\nfrom mtlrun.cli.app import app\nsys.argv = ['mtlrun', 'compare', 'no-such.csv']\n"
        "try:\n    app()\nexcept SystemExit as end:\n    assert end.code == 2\n"
        "print({'numpy', 'pandas', 'sklearn'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert run.stdout == "set()\n"
    assert "no-such.csv" in run.stderr


def test_every_command_is_registered_and_has_help(mtlrun):
    text = mtlrun("--help").output
    names = [
        "reproduce",
        "status",
        "report",
        "show",
        "validate",
        "list",
        "verify",
        "data",
        "env",
    ]
    for name in names:
        assert f" {name} " in text
        result = mtlrun(name, "--help")
        assert result.exit_code == 0, result.output


def test_python_m_mtlrun_prints_the_version(shell):
    run = shell("--version")
    assert (run.returncode, run.stdout) == (0, "mtlrun 0.2.0\n")


@pytest.mark.parametrize(
    "args",
    [
        ["no-such-command"],
        ["reproduce"],
        ["list", "nonsense"],
        ["reproduce", "table2", "--jobs", "x"],
    ],
)
def test_usage_errors_exit_with_2(mtlrun, args):
    run = mtlrun(*args)
    assert run.exit_code == 2
    assert "Traceback" not in run.output
    assert run.stdout == ""


def test_a_misspelled_command_gets_a_suggestion(mtlrun):
    run = mtlrun("reproduec", "table2")
    assert run.exit_code == 2
    assert "reproduce" in run.stderr


def run_failing(error: BaseException, *arguments: str) -> Result:
    """Run a command of the application that raises an exception."""
    app = build_app()

    @app.command("fail", cls=Command)
    def fail(debug: Debug = False) -> None:
        raise error

    return CliRunner().invoke(app, ["fail", *arguments])


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            UnknownNameError("experiment", "tabel2", ["table2"]),
            2,
            "error: unknown experiment 'tabel2'\nDid you mean 'table2'?\n",
        ),
        (DataError("x.csv: damaged"), 2, "error: x.csv: damaged\n"),
        (MtlrunError("broken installation"), 1, "error: broken installation\n"),
        (KeyboardInterrupt(), 130, "error: interrupted\n"),
        (
            MemoryError(),
            2,
            f"error: there is not enough memory for this\n{MEMORY_REMEDY}\n",
        ),
        (
            ZeroDivisionError("by zero"),
            1,
            "error: ZeroDivisionError: by zero\nThis is a bug; run with --debug to see where it happened.\n",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_print_one_message_and_exit_with_a_code(error, code, text):
    result = run_failing(error)
    assert (result.exit_code, result.stderr, result.stdout) == (code, text, "")


@pytest.mark.parametrize(
    "error", [DataError("x.csv: damaged"), ZeroDivisionError("by zero")]
)
def test_debug_prints_a_traceback(error):
    assert run_failing(error, "--debug").exception is error
    # --debug does not carry over to the next command.
    assert not run_failing(error).stderr.startswith("Traceback")


@pytest.mark.slow
def test_a_closed_pipe_is_not_an_error():
    run = subprocess.run(
        f"{sys.executable} -m mtlrun list datasets | true; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in run.stderr
    assert "error" not in run.stderr


def test_messages_contain_no_markup():
    text = "[bold]x[/bold] :smile: " + "long " * 60 + "end"
    assert run_failing(DataError(text)).stderr == f"error: {text}\n"


def test_list_prints_one_line_per_entry_outside_a_terminal(mtlrun):
    result = mtlrun("list")
    assert result.exit_code == 0
    assert any(
        line.startswith("dcrmtl/table2  ") for line in result.stdout.splitlines()
    )
    for kind in ("methods", "datasets"):
        lines = mtlrun("list", kind).stdout.splitlines()
        assert len(lines) == len({line.split()[0] for line in lines}) > 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({}, True),
        ({"CI": "1"}, False),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_colors_are_used_only_on_terminals_that_allow_them(
    environment, variables, coloured
):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mtlrun", "list"]
    env = {**environment, "TERM": "xterm-256color", **variables}
    with subprocess.Popen(
        command, env=env, stdout=theirs, stderr=subprocess.PIPE
    ) as process:
        os.close(theirs)
        text = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux reports the closed end
                break
            if not piece:
                break
            text += piece
    os.close(ours)
    assert process.returncode == 0
    assert b"dcrmtl/table2" in text
    assert (b"\x1b[" in text) == coloured


def test_commands_run_from_any_folder(shell, tmp_path):
    assert "dcrmtl/table2" in shell("list").stdout
    assert not list(Path(tmp_path).iterdir())


@pytest.mark.parametrize(
    "words", [["compare"], ["report"], ["data", "verify"], ["reproduce"]]
)
def test_flags_show_no_value_in_the_help(mtlrun, words):
    assert "<bool>" not in mtlrun(*words, "--help").stdout
