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
from mtlrun.lab.papers.atlas.sharing import (
    KEYS,
    PAIRS,
    REGION,
    effects_of,
    gains_as_in_compare,
    over_seeds,
    read_pairs,
)

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
    return read_pairs(PAIRS, (), KEYS)


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
    assert len(names) == 60
    assert says("Sixty public tables")


def count(label, name):
    return f"{values(label)[name]:.0f}"


def test_the_first_screen():
    few = []
    for label in ("smooth, groups", "linear, groups", "trees, groups"):
        few.append((effect(label, "_few"), count(label, "tables_few")))
    (smooth, n_smooth), (linear, n_linear), (trees, n_trees) = few
    assert says(
        f"has {smooth} less error than a model per task with smooth models on "
        f"{n_smooth} tables, {linear} with linear models on {n_linear}, {trees} with "
        f"boosted trees on {n_trees}, and {effect('logistic, groups', '_few')} with"
    )
    some = effect("smooth, groups", "_some")
    assert says(f"It is {some} with smooth models")
    assert says(f"and {effect('trees, groups', '_some')} with boosted trees")
    many = effect("linear", "_many")
    assert says(
        f"linear models is {many}, on {count('linear', 'tables_many')} tables of"
    )
    targets = effect("linear, targets", "_few")
    labels = effect("logistic, labels", "_few")
    assert says(f"changes the error by {targets} with 5 to 20 rows")
    assert says(f"that of logistic models by {labels}")
    over_full = effect("smooth, over full", "_few")
    assert says(f"partial sharing has {over_full} less error than one smooth model")
    assert says(f"of pooled ridge regression by {effect('new tasks')}")


def test_groups():
    for label, name in (
        ("smooth, groups", "with smooth models it has less error on"),
        ("linear, groups", "with linear models on"),
        ("trees, groups", "with boosted trees on"),
    ):
        better = count(label, "better")
        assert f"{name} {better} of {count(label, 'tables')}" in page().replace(
            "With", "with"
        )
    slope = values("linear")
    low, high = -slope["slope_high"], -slope["slope_low"]
    assert says(f"falls by {-slope['slope']:.2f} for every tenfold number of rows")
    assert says(f"({low:.2f} to {high:.2f}, over tables of all kinds)")


def test_all_schools_gain():
    lines = pairs()
    schools = lines[(lines["family"] == "schools") & (lines["test"] == "rows")]
    for learner in ("linear", "smooth"):
        part = schools[schools["learner"] == learner]
        settings = over_seeds(effects_of(part, "partial", "none"))
        few = settings[settings["rows"] <= 20].groupby("table")["effect"].min()
        assert len(few) == 10
        assert (few > 0).all()
    assert says(
        "All ten tables of schools gain at 5 to 20 rows, with linear and smooth"
    )


def test_several_targets_and_labels():
    for label in (
        "linear, targets",
        "smooth, targets",
        "trees, targets",
        "extra trees, targets",
        "logistic, labels",
        "trees, labels",
        "extra trees, labels",
    ):
        numbers = values(label)
        assert numbers["low_few"] < 0
        assert numbers["better"] <= numbers["tables"] / 2
    assert says("no learner has an interval above 0, and none gains on more than half")


@pytest.mark.parametrize(
    ("learner", "method"),
    [
        ("linear", "HierarchicalMTL"),
        ("linear", "partial"),
        ("smooth", "partial"),
        ("boosted trees", "partial"),
    ],
)
def test_where_sharing_harms(learner, method):
    lines = pairs()
    part = lines[
        (lines["learner"] == learner)
        & (lines["kind"] == "groups")
        & (lines["test"] == "rows")
    ]
    settings = over_seeds(effects_of(part, method, "none"))
    means = settings.groupby("table", sort=False)["effect"].mean()
    *first, last = [f"`{name}`" for name in means[means < -REGION].index]
    names = f"{', '.join(first)} and {last}" if first else last
    assert f"on {names}" in page()


def test_the_simulated_case():
    lines = pd.read_csv(published_path("atlas/pairs_simulated.csv"), comment="#")
    errors = lines[lines["rows"] == 50].set_index(["table", "method"])["error"]
    ratios = {}
    for table in ("unrelated scales", "unrelated tasks"):
        for method in ("HierarchicalMTL", "TraceNormMTL"):
            ridge = errors[table, "IndependentRidge"]
            ratios[table, method] = errors[table, method] / ridge
    hierarchical = ratios["unrelated scales", "HierarchicalMTL"]
    trace_norm = ratios["unrelated scales", "TraceNormMTL"]
    assert says(f"has {hierarchical:.2f} times the error of ridge regression per task")
    assert says(f"the trace norm {trace_norm:.2f} times (one run)")
    gain = 1 - ratios["unrelated tasks", "HierarchicalMTL"]
    assert says(f"the hierarchical model still has {100 * gain:.0f}% less error")


def test_cost_best_and_new_tasks():
    best = effect("best, groups", "_few")
    assert says(f"On groups with 5 to 20 rows, sharing has {best} less error.")
    assert says(f"did not have, it is {effect('best, fresh tables', '_few')}")
    assert says(f"its error changes by {effect('new tasks')} with linear models")
    assert says(f"gains most, {effect('HierarchicalMTL', '_few')}")


def test_verdicts_of_compare():
    every = values("verdicts")
    n_helps = every["verdicts"]
    low, high = (f"{100 * every[name]:.0f}" for name in ("hold_low", "hold_high"))
    assert says(f"Of {every['all_verdicts']:.0f} verdicts, {n_helps:.0f}, on")
    assert says(f"on {every['tables']:.0f} tables, say that multi-task learning helps")
    assert says(
        f"after {n_helps * every['hold']:.0f} of these {n_helps:.0f}: "
        f"{100 * every['hold']:.0f}% ({low} to {high})"
    )
    groups, targets, labels = (
        f"{100 * values(f'verdicts, {kind}')['covered']:.0f}%"
        for kind in ("groups", "targets", "labels")
    )
    assert says(f"{groups} of those on groups contain")
    assert says(f"only {targets} of those on several targets and {labels} of those on")


def test_agreement_of_the_seeds():
    names = ("smooth", "boosted trees", "linear", "best")
    smooth, trees, linear, best = (
        f"{values(name)['seeds']:.2f}".removeprefix("0") for name in names
    )
    assert says(f"It is {smooth} for smooth models and {trees} for boosted trees, but")
    assert says(f"but {linear} for linear models, for which .8 was predicted, and")
    assert says(f"and {best} for the best against the best")
