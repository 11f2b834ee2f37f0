"""Text and numbers on a terminal: lines break between words, and columns have
consistent digits.
"""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mtlrun.cli.console import MAX_PROSE_WIDTH, prose_lines
from mtlrun.tables.report_table import ReportTable

SENTENCE = (
    "  Multi-task learning: " + "fourteen percent better than separate models, " * 9
)
PATH = "/somewhere/" + "folder-with-a-long-name/" * 8


def terminal(width):
    return Console(file=io.StringIO(), force_terminal=True, width=width)


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


def test_a_path_is_never_broken():
    lines = prose_lines(f"report: {PATH}", terminal(40))
    assert PATH in [line.strip() for line in lines]


def test_gains_in_a_column_have_the_same_number_of_decimals():
    gains = [0.034, -0.0006031, -8.2827, 1e-9]
    table = ReportTable.of("gain:gain", rows=[[gain] for gain in gains])
    decimals = {len(text.partition(".")[2]) for (text,) in table.texts()}
    assert decimals == {4}
    assert table.texts()[1] == ["-0.0006"]
