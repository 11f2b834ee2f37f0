"""The numbers of docs/atlas.md are those of the runs below results/atlas."""

import csv
import re
import runpy
from functools import lru_cache
from pathlib import Path

import pandas as pd
import pytest

from mtlrun.comparison.atlas import SIMILAR, read_lines
from mtlrun.engine.analysis import published_path
from mtlrun.lab.papers.atlas.sharing import PAIRS, gains_as_in_compare

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results" / "atlas"
PAGE = ROOT / "docs" / "atlas.md"
pytestmark = pytest.mark.skipif(
    not (RESULTS.is_dir() and PAGE.is_file()), reason="needs a checkout"
)


@lru_cache
def script(name):
    return runpy.run_path(str(ROOT / "scripts" / f"{name}.py"))


@lru_cache
def page():
    """The page on one line."""
    return " ".join(PAGE.read_text("utf-8").split())


def says(text):
    return page().count(text) == 1


@lru_cache
def values(label):
    return script("atlas_page")["values_of"](label)


def effect(label, suffix=""):
    """Return an effect with its interval as the page writes it."""
    return script("atlas_page")["interval"](values(label), suffix)


@lru_cache
def pairs():
    return pd.read_csv(published_path(PAIRS), comment="#")


def test_the_tables_are_those_of_the_runs():
    text = PAGE.read_text("utf-8")
    assert set(re.findall(r"<!-- table: ([\w-]+) -->", text)) == set(
        script("atlas_page")["TABLES"]
    )
    assert script("atlas_page")["filled"](text) == text


def test_a_changed_number_is_written_anew():
    text = PAGE.read_text("utf-8")
    start = text.index("<!-- table: groups -->")
    spoiled = text[:start] + text[start:].replace("%", "", 1)
    assert spoiled != text
    assert script("atlas_page")["filled"](spoiled) == text


def test_the_figures_show_the_lines_of_today():
    shown = re.findall(r"!\[[^]]*\]\(pictures/([\w-]+)\.svg\)", PAGE.read_text("utf-8"))
    assert len(shown) >= 3
    digest = script("atlas_figures")["digest"]()
    for name in shown:
        drawing = (ROOT / "docs" / "pictures" / f"{name}.svg").read_text("utf-8")
        assert digest in drawing, f"{name}: run scripts/atlas_figures.py"


def test_the_gains_of_similar_tables_are_those_of_the_pairs():
    lines, day = read_lines(SIMILAR)
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", day)
    expected = gains_as_in_compare(pairs())
    assert len(lines) == len(expected)
    for line, row in zip(lines, expected.to_dict("records"), strict=True):
        assert (line["table"], float(line["rows"])) == (row["table"], row["rows"])
        gain = float(line["over_independent"])
        assert gain == pytest.approx(row["over_independent"], rel=1e-3, abs=1e-6)


def test_every_table_of_the_list_was_computed():
    with published_path("atlas/tables.csv").open(encoding="utf-8") as file:
        names = [line["table"] for line in csv.DictReader(file)]
    assert set(pairs()["table"]) == set(names)
    assert says(f"{len(names)} tables")
