"""Text and numbers on a terminal: line breaks, and equal digits in columns."""

from __future__ import annotations

import io
import sys

import pandas as pd
import pytest
from rich.console import Console

from mtlrun.cli.console import MAX_PROSE_WIDTH, complain, prose_lines, say_columns
from mtlrun.model.fitted import to_csv
from mtlrun.show.report_table import ReportTable, fixed_kind, show

SENTENCE = (
    "  Multi-task learning: " + "fourteen percent better than separate models, " * 9
)
PATH = "/somewhere/" + "folder-with-a-long-name/" * 8


def terminal(width):
    return Console(file=io.StringIO(), force_terminal=True, width=width)


@pytest.fixture
def use_terminal(monkeypatch):
    """Return a function that makes a standard stream a terminal, or a file."""

    def use(name, width, is_terminal=True):
        stream = io.StringIO()
        stream.isatty = lambda: is_terminal
        monkeypatch.setattr(sys, name, stream)
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("CI", raising=False)
        monkeypatch.delenv("NO_COLOR", raising=False)
        return stream

    return use


@pytest.mark.parametrize("width", [40, 80, 300])
def test_lines_on_a_terminal_break_between_words(width):
    lines = prose_lines(SENTENCE, terminal(width))
    assert len(lines) > 1
    assert max(map(len, lines)) <= min(width, MAX_PROSE_WIDTH)
    assert " ".join(lines).split() == SENTENCE.split()
    assert lines[0].startswith("  Multi")
    assert all(line.startswith("    ") for line in lines[1:])


def test_a_file_or_a_pipe_gets_unwrapped_lines():
    assert prose_lines(SENTENCE, Console(file=io.StringIO(), width=40)) == [SENTENCE]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_only_a_terminal_breaks_the_last_column(use_terminal, is_terminal):
    stream = use_terminal("stdout", 50, is_terminal)
    say_columns([("name", 12, "two words " * 9), ("other", 3, "")])
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("name   12  two words two")
    assert lines[-1] == "other   3"
    if is_terminal:
        assert max(map(len, lines)) <= 50
        assert all(line.startswith(" " * 11 + "two") for line in lines[1:-1])
    else:
        assert len(lines) == 2


def test_a_path_is_never_broken():
    lines = prose_lines(f"report: {PATH}", terminal(40))
    assert PATH in [line.strip() for line in lines]


def test_errors_on_a_terminal_end_their_lines_between_words(use_terminal):
    stream = use_terminal("stderr", 40)
    complain(
        "first line\n" + SENTENCE.strip(), f"Name {PATH} instead, or leave it out."
    )
    lines = stream.getvalue().splitlines()
    assert lines[0] == "error: first line"
    assert all(len(line) <= 40 for line in lines if PATH not in line)
    assert PATH in [line.strip() for line in lines]


def test_a_caret_stays_below_its_place_on_a_narrow_terminal(use_terminal):
    stream = use_terminal("stderr", 40)
    source = "  12 | " + "one, two, " * 8 + "tree"
    caret = " " * (len(source) - 4) + "^^^^ did you mean 'three'?"
    complain(f"list.yaml:12:81: unknown number\n{source}\n{caret}")
    lines = stream.getvalue().splitlines()
    assert lines[-2:] == [source, caret]


def test_p_values_of_a_column_have_the_same_decimals():
    pvalues = [0.64, 0.0421, 0.0035, 0.00037, 1e-12, 0.0, 1.0]
    table = ReportTable.of("p:pvalue", rows=[[value] for value in pvalues])
    texts = [text for (text,) in table.texts()]
    assert texts[:3] == ["0.640", "0.042", "0.004"]
    assert texts[3:] == ["<0.001", "<0.001", "<0.001", "1.000"]


def test_numbers_of_a_column_have_the_same_decimals():
    for values, texts in [
        ([1.706, -0.02494, 0.6], ["1.706", "-0.025", "0.600"]),
        ([9.99996, 0.5], ["10.00", "0.50"]),
        ([120345.0, 0.6], ["120345", "1"]),
        ([0.00012347, float("nan"), 0.0], ["0.0001235", "-", "0.0000000"]),
        ([3e9, 0.25], ["3000000000", "0.25"]),
        ([0.0, 0.0], ["0", "0"]),
        ([-3e-6, 1.25], ["0.000", "1.250"]),
        ([float("inf")], ["inf"]),
        ([], []),
    ]:
        kind = fixed_kind(values)
        assert [show(value, kind) for value in values] == texts


def test_gains_in_a_column_have_the_same_number_of_decimals():
    gains = [0.034, -0.0006031, -8.2827, 1e-9]
    table = ReportTable.of("gain:gain", rows=[[gain] for gain in gains])
    decimals = {len(text.partition(".")[2]) for (text,) in table.texts()}
    assert decimals == {4}
    assert table.texts()[1] == ["-0.0006"]


@pytest.mark.parametrize("kind", ["gain", "score", "number", "count", "fixed-2"])
def test_a_rounded_zero_has_no_sign(kind):
    assert not show(-0.0, kind).startswith("-")
    assert show(-1e-6, "gain") == "0.0000"


def test_predictions_have_six_digits_on_a_terminal_and_all_of_them_in_files():
    table = pd.DataFrame({"row": [12345678], "t": [59.4064031800372]})
    assert to_csv(table, digits=6) == "row,t\n12345678,59.4064\n"
    assert to_csv(table) == "row,t\n12345678,59.4064031800372\n"
