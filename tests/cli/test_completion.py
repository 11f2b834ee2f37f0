"""Completion of values, asked for as the shells do, in a process of its own."""

import os
import subprocess
import sys

import pytest

SHELLS = {
    "bash": lambda words: {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)},
    "zsh": lambda words: {"_TYPER_COMPLETE_ARGS": words},
    "fish": lambda words: {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


def _complete(words, folder, shell="bash", python=()):
    environment = {**os.environ, "_MTLRUN_COMPLETE": f"complete_{shell}", **SHELLS[shell](words)}
    command = [sys.executable, *python, "-m", "mtlrun"]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in run.stderr
    return run


@pytest.mark.parametrize(
    ("words", "offered", "withheld"),
    [
        ("mtlrun reproduce tab", "table2", "train/school"),
        ("mtlrun reproduce mtsvm/f", "mtsvm/fig1", "table2"),
        ("mtlrun reproduce al", "all", "table2"),
        ("mtlrun train train/s", "train/school", "table2"),
        ("mtlrun report table2 --profile d", "demo", "smoke"),
        ("mtlrun reproduce table2 --profile sc", "scale", "smoke"),
        ("mtlrun status table2 --reading a", "all", "quick"),
        ("mtlrun init school --method Trace", "TraceNormMTL", "GraphMTL"),
        ("mtlrun list methods Gra", "GraphMTL", "TraceNormMTL"),
        ("mtlrun data info sch", "school", "enron"),
        ("mtlrun compare x.csv --metric r", "rmse", "auc"),
        ("mtlrun compare x.csv --methods GraphMTL,Trace", "GraphMTL,TraceNormMTL", "GraphMTL"),
        ("mtlrun plot table2 --kind tr", "trace", "path"),
    ],
)
def test_values_are_offered(words, offered, withheld, tmp_path):
    found = _complete(words, tmp_path).stdout.split()
    assert offered in found
    assert withheld not in found


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_the_targets(shell, tmp_path):
    assert "mtsvm/fig1" in _complete("mtlrun reproduce mtsvm/f", tmp_path, shell).stdout


def test_own_files_are_offered_and_damaged_ones_offer_nothing(tmp_path):
    (tmp_path / "mine.yaml").write_text("profiles: [")
    assert "mine.yaml" in _complete("mtlrun reproduce mi", tmp_path).stdout.split()
    assert _complete("mtlrun reproduce mine.yaml --profile d", tmp_path).stdout.split() == []


@pytest.mark.parametrize("words", ["mtlrun reproduce t", "mtlrun init school --method T", "mtlrun data info s"])
def test_nothing_heavy_is_imported(words, tmp_path):
    told = _complete(words, tmp_path, python=("-X", "importtime")).stderr
    loaded = {line.rpartition("|")[2].strip() for line in told.splitlines()}
    assert "mtlrun.cli.complete" in loaded
    assert loaded.isdisjoint({"numpy", "scipy", "pandas", "sklearn", "matplotlib", "numba"})
