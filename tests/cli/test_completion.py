"""Shell completion of values, requested in the way that shells do."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from mtlrun.cli.app import app

SHELLS = {
    "bash": lambda words: {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    },
    "zsh": lambda words: {"_TYPER_COMPLETE_ARGS": words},
    "fish": lambda words: {
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    },
}


@pytest.fixture
def complete(tmp_path, monkeypatch):
    """Request the completions of a line as a shell does, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def ask(words, shell="bash"):
        environment = {"_MTLRUN_COMPLETE": f"complete_{shell}", **SHELLS[shell](words)}
        result = CliRunner().invoke(app, [], env=environment, prog_name="mtlrun")
        assert "Traceback" not in result.output
        return result.stdout

    return ask


@pytest.mark.parametrize(
    ("words", "offered", "withheld"),
    [
        ("mtlrun reproduce tab", "table2", "train/school"),
        ("mtlrun reproduce mtsvm/f", "mtsvm/fig1", "table2"),
        ("mtlrun reproduce al", "all", "table2"),
        ("mtlrun train train/s", "train/school", "table2"),
        ("mtlrun report table2 --profile d", "demo", "smoke"),
        ("mtlrun reproduce table2 --profile re", "real", "smoke"),
        ("mtlrun status table2 --interpretation a", "all", "quick"),
        ("mtlrun init school --method Trace", "TraceNormMTL", "GraphMTL"),
        ("mtlrun list methods Gra", "GraphMTL", "TraceNormMTL"),
        ("mtlrun data info sch", "school", "enron"),
        ("mtlrun compare x.csv --metric r", "rmse", "auc"),
        (
            "mtlrun compare x.csv --methods GraphMTL,Trace",
            "GraphMTL,TraceNormMTL",
            "GraphMTL",
        ),
        ("mtlrun plot table2 --kind tr", "trace", "path"),
    ],
)
def test_values_are_completed(words, offered, withheld, complete):
    completions = complete(words).split()
    assert offered in completions
    assert withheld not in completions


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_completes_targets(shell, complete):
    assert "mtsvm/fig1" in complete("mtlrun reproduce mtsvm/f", shell)


def test_files_of_the_user_are_completed_and_invalid_ones_have_no_profiles(
    complete, tmp_path
):
    (tmp_path / "mine.yaml").write_text("profiles: [")
    assert "mine.yaml" in complete("mtlrun reproduce mi").split()
    assert complete("mtlrun reproduce mine.yaml --profile d").split() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    ["mtlrun reproduce t", "mtlrun init school --method T", "mtlrun data info s"],
)
def test_completion_imports_no_heavy_packages(words, tmp_path):
    environment = {
        **os.environ,
        "_MTLRUN_COMPLETE": "complete_bash",
        **SHELLS["bash"](words),
    }
    command = [sys.executable, "-X", "importtime", "-m", "mtlrun"]
    run = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stdout
    loaded = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert "mtlrun.cli.options" in loaded
    assert loaded.isdisjoint(
        {"numpy", "scipy", "pandas", "sklearn", "matplotlib", "numba"}
    )
