"""Interpretations of a paper side by side, with each table and each number once."""

from __future__ import annotations

import pytest

from mtlrun.lab.report.interpretations import side_by_side
from mtlrun.lab.report.printed import PrintedNumber
from mtlrun.show.report_table import Column, ReportTable, Section

AXES = ("data set", "method")


def table(title, **rows):
    """Return a printed table of two methods; `rows` has their numbers by data set."""
    grid = ReportTable([Column("data set"), Column("A", "score"), Column("B", "score")])
    for name, values in rows.items():
        cells = [value and PrintedNumber(str(value), value=value) for value in values]
        grid.rows.append([name, *cells])
    return Section(title, grids=[grid])


def names_and_texts(section):
    (grid,) = section.grids
    return [column.name for column in grid.columns], grid.texts()


def test_a_table_occurs_once_with_a_column_per_interpretation():
    tables = {
        "plain": [table("AUC", enron=[0.7, 0.8])],
        "other": [table("AUC", enron=[0.6, 0.9])],
    }
    (section,) = side_by_side(tables, AXES)
    assert section.title == "AUC"
    columns, rows = names_and_texts(section)
    assert columns == ["data set", "method", "plain (main)", "other"]
    assert rows == [["enron", "A", "0.7", "0.6"], ["enron", "B", "0.8", "0.9"]]


def test_interpretations_with_the_same_numbers_share_a_column():
    same = [table("AUC", enron=[0.7, 0.8])]
    tables = {"plain": same, "one": [table("AUC", enron=[0.1, 0.2])], "two": same}
    tables["three"] = tables["one"]
    (section,) = side_by_side(tables, AXES)
    columns, _ = names_and_texts(section)
    assert columns[2:] == ["plain (main); two", "one; three"]


def test_a_table_unique_to_one_interpretation_is_not_repeated():
    tables = {
        "plain": [table("AUC", enron=[0.7, 0.8]), table("seconds", enron=[1.0, 2.0])],
        "other": [table("AUC", enron=[0.6, 0.9]), table("rank", enron=[1.0, 2.0])],
    }
    auc, rank = side_by_side(tables, AXES)
    assert (auc.title, rank.title) == ("AUC", "rank")
    columns, rows = names_and_texts(rank)
    assert columns == ["data set", "A", "B"], "it keeps its printed form"
    assert rows == [["enron", "1.0", "2.0"]]
    assert "'other'" in rank.lines[0]


def test_a_table_that_no_interpretation_changes_is_not_repeated():
    same = [table("AUC", enron=[0.7, 0.8])]
    assert side_by_side({"plain": same, "other": same}, AXES) == []


@pytest.mark.parametrize("empty", [{}, {"plain": [table("AUC", enron=[0.7, 0.8])]}])
def test_a_single_interpretation_needs_no_comparison(empty):
    assert side_by_side(empty, AXES) == []


def test_rows_missing_in_an_interpretation_stay_empty():
    tables = {
        "plain": [table("AUC", enron=[0.7, 0.8], bibtex=[0.5, None])],
        "other": [table("AUC", enron=[0.6, None])],
    }
    _, rows = names_and_texts(side_by_side(tables, AXES)[0])
    assert rows == [
        ["enron", "A", "0.7", "0.6"],
        ["enron", "B", "0.8", "-"],
        ["bibtex", "A", "0.5", "-"],
    ]


def test_the_number_of_the_paper_has_a_column_and_no_interpretation_is_bold():
    printed = table("AUC", enron=[0.7, 0.8])
    row = printed.grids[0].rows[0]
    row[1] = PrintedNumber("0.7", bold=True, value=0.7, printed="0.65", published=0.65)
    tables = {"plain": [printed], "other": [table("AUC", enron=[0.6, 0.9])]}
    (grid,) = side_by_side(tables, AXES)[0].grids
    assert [column.name for column in grid.columns][2:] == [
        "paper",
        "plain (main)",
        "other",
    ]
    assert [row[2] for row in grid.rows] == ["0.65", None]
    assert not any(row[3].bold or row[3].printed for row in grid.rows)
