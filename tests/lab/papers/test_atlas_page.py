"""The numbers of docs/atlas.md are those of the runs below results/atlas."""

import csv
import math
import re
import runpy
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from mtlrun.comparison.differences import SIMILAR, read_lines
from mtlrun.papers.atlas.sharing import (
    KEYS,
    MAX_EFFECT,
    PAIRS,
    REGION,
    VERDICT_KEYS,
    VERDICTS,
    effects_of,
    gains_as_in_compare,
    over_seeds,
    read_pairs,
)
from mtlrun.utils.io import published_path

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results" / "atlas"
PAGE = ROOT / "docs" / "atlas.md"
MEASURED = ROOT / "docs" / "compare-measured.md"
DETAILS = ROOT / "configs" / "atlas" / "README.md"
pytestmark = pytest.mark.skipif(
    not (RESULTS.is_dir() and PAGE.is_file()), reason="needs a checkout"
)


@lru_cache
def script(name):
    return runpy.run_path(str(ROOT / "scripts" / f"{name}.py"))


@lru_cache
def page():
    """The page and its details on one line."""
    text = PAGE.read_text("utf-8") + DETAILS.read_text("utf-8")
    return " ".join(text.split())


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
    names = []
    for path in (PAGE, DETAILS):
        text = path.read_text("utf-8")
        names += re.findall(r"<!-- table: ([\w-]+) -->", text)
        assert script("atlas_page")["filled"](text) == text
    assert sorted(names) == sorted(script("atlas_page")["TABLES"])


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
        f"linear models is {many}, on {count('linear', 'tables_many')} tables: "
        f"{count('linear, groups', 'tables_many')} with groups and "
        f"{count('linear, targets', 'tables_many')} with several targets"
    )
    targets = effect("linear, targets", "_few")
    labels = effect("logistic, labels", "_few")
    assert says(f"linear models has an effect of {targets}, which is more error, on")
    assert says(f"that of logistic models {labels} on")
    over_full = effect("smooth, over full", "_few")
    assert says(f"partial sharing has {over_full} less error than one smooth model")
    new_tasks = effect("new tasks")
    assert says(f"compared with pooled ridge regression, is {new_tasks} on 34 tables")
    best = effect("best, groups", "_few")
    assert says(f"sharing has {best} less error than the best of all others, on groups")


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
    fall = f"{-slope['slope']:.2f} ({low:.2f} to {high:.2f})"
    assert says(f"falls by {fall} for every tenfold number of rows")
    trees = values("boosted trees")
    ends = f"{trees['slope_low']:.2f} to {trees['slope_high']:.2f}"
    assert says(f"it rises by {trees['slope']:.2f} ({ends})")
    lines = pairs()
    part = lines[(lines["kind"] == "groups") & (lines["learner"] == "boosted trees")]
    few = effects_of(part[part["rows"] <= 20], "partial", "none")["effect"]
    share = (few >= MAX_EFFECT).mean()
    assert says(f"a factor of 2 in {100 * share:.0f}% of the runs with 5 to 20 rows")


def test_all_schools_gain():
    lines = pairs()
    schools = lines[(lines["family"] == "schools") & (lines["test"] == "rows")]
    for learner in ("linear", "smooth"):
        part = schools[schools["learner"] == learner]
        settings = over_seeds(effects_of(part, "partial", "none"))
        few = settings[settings["rows"] <= 20].groupby("table")["effect"].min()
        assert len(few) == 10
        assert (few > 0).all()
    assert says("all ten tables of schools gain with linear and with smooth models")


def test_largest_and_smallest_gains_of_smooth_models():
    lines = pairs()
    part = lines[(lines["kind"] == "groups") & (lines["learner"] == "smooth")]
    settings = over_seeds(effects_of(part, "partial", "none"))
    means = settings.groupby("table")["effect"].mean()
    few = settings[settings["rows"] <= 20].groupby("table")["effect"].mean()
    largest = {"dnase", "soybean", "dietox", "fatigue", "machines"}
    assert set(few.nlargest(5).index) == largest
    assert few.nlargest(5).min() > 0.9 * MAX_EFFECT
    assert means[["insteval", "chile"]].abs().max() < REGION


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
        assert numbers["low_few"] < 0 < numbers["high_few"]
        assert numbers["better"] <= numbers["tables"] / 2
    assert says("the interval of every learner contains 0")
    assert says("no learner gains on more than half of its tables")


def test_targets_on_which_the_hierarchical_model_loses():
    lines = pairs()
    part = lines[(lines["learner"] == "linear") & (lines["test"] == "rows")]
    settings = over_seeds(effects_of(part, "HierarchicalMTL", "none"))
    means = settings.groupby(["table", "kind"])["effect"].mean().reset_index()
    losses = means[means["effect"] < -REGION]["kind"]
    n_targets = (losses == "targets").sum()
    assert says(f"loses on {len(losses)} tables, of which {n_targets} have several")
    for name in ("TraceNormMTL", "JointFeatureMTL"):
        numbers = values(name)
        for regime in ("some", "many"):
            assert numbers[f"effect_{regime}"] > 0 > numbers[f"low_{regime}"]


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
    if learner != "boosted trees":
        assert f"on {names}" in page()
    more_error = 100 * np.expm1(-means)
    if learner == "smooth":
        assert 3.5 < more_error.max() < 4.5
    if learner == "boosted trees":
        (first, cake, ticks) = more_error.nlargest(3)
        assert says("six of 41 tables")
        assert (np.sum(means < -REGION), len(means)) == (6, 41)
        assert says(f"most on `sleepstudy` ({first:.0f}% more error), `cake`")
        assert says(f"`cake` ({cake:.0f}%) and `grouseticks` ({ticks:.0f}%)")


def test_the_simulated_case():
    lines = pd.read_csv(published_path("atlas/pairs_simulated.csv"), comment="#")

    def ratio(table, method, rows):
        errors = lines[lines["rows"] == rows].set_index(["table", "method"])["error"]
        return errors[table, method] / errors[table, "IndependentRidge"]

    few, many = (ratio("unrelated scales", "HierarchicalMTL", n) for n in (5, 50))
    assert says(f"has {few:.2f} times the error of ridge regression per task there")
    assert says(f"with 5 rows per task, and {many:.2f} times with 50")
    few, many = (ratio("unrelated scales", "TraceNormMTL", n) for n in (5, 50))
    assert says(f"the trace norm has {few:.2f} and {many:.2f} times (one run)")
    gain = 1 - ratio("unrelated tasks", "HierarchicalMTL", 50)
    assert says(f"the hierarchical model still has {100 * gain:.0f}% less error")


def test_cost_best_and_new_tasks():
    best = effect("best, groups", "_few")
    assert says(f"On groups with 5 to 20 rows, sharing has {best} less error.")
    assert says(f"did not have, it is {effect('best, fresh tables', '_few')}")
    new_tasks = effect("new tasks")
    assert says(f"its effect is {new_tasks}, which is more error, with linear models")
    assert says(f"gains most, {effect('HierarchicalMTL', '_few')} on 48 tables")


def verdicts_and_other_seeds():
    """Return the verdicts with the mean gain of the other seeds."""
    lines = read_pairs(VERDICTS, (), VERDICT_KEYS)
    gains = lines.groupby(["table", "rows"])["gain"]
    n_others = gains.transform("size") - 1
    other = (gains.transform("sum") - lines["gain"]) / n_others
    inside = other.between(lines["low"], lines["high"])
    return lines.assign(other=other, inside=inside)


def test_verdicts_of_compare():
    lines = verdicts_and_other_seeds()
    n = lines["decision"].value_counts()
    assert says(f"Of {len(lines)} verdicts, {n['cannot tell']} say that one cannot")
    worse = lines[lines["decision"] == "worse"]
    helps = lines[lines["decision"] == "helps"]
    tables = f"(on {worse['table'].nunique()} tables)"
    assert says(f"{len(worse)} {tables} that multi-task learning is worse")
    safe = lines[lines["decision"] == "safe"]
    tables = f"(on {safe['table'].nunique()} tables)"
    assert says(f"{len(safe)} {tables} that it is safe")
    assert says(f"{n['no practical difference']} that it makes no practical difference")
    tables = f"(on {helps['table'].nunique()} tables)"
    assert says(f"{len(helps)} {tables} that it helps")
    same = lines[lines["decision"] == "no practical difference"]
    n_right = sum(worse["other"] < 0) + sum(helps["other"] > 0)
    n_right += sum(safe["other"] > -0.02) + sum(same["other"].abs() <= 0.01)
    n_decided = len(lines) - n["cannot tell"]
    assert says(f"in {n_right} of the {n_decided} cases that decide something")


def test_bounds_of_the_verdicts():
    lines = verdicts_and_other_seeds()
    shares = 100 * lines.groupby("kind")["inside"].mean()
    with_50 = 100 * lines[lines["rows"] == 50].groupby("kind")["inside"].mean()
    groups, targets, labels = shares[["groups", "targets", "labels"]]
    measured = " ".join(MEASURED.read_text("utf-8").split())
    assert (
        f"in {groups:.0f}% of the cases on groups, {targets:.0f}% on several targets "
        f"and {labels:.0f}% on several labels"
    ) in measured
    groups, targets, labels = with_50[["groups", "targets", "labels"]]
    assert says(
        f"in {groups:.0f}% of the cases on groups, {targets:.0f}% on targets and "
        f"{labels:.0f}% on labels"
    )


def test_agreement_of_the_seeds():
    names = ("smooth", "boosted trees", "linear", "best")
    smooth, trees, linear, best = (
        f"{values(name)['seeds']:.2f}".removeprefix("0") for name in names
    )
    assert says(f"It is {smooth} for smooth models and {trees} for boosted trees, but")
    assert says(f"but {linear} for linear models, for which .8 was predicted, and")
    assert says(f"and {best} for the best against the best")


@pytest.mark.parametrize(
    ("sentence", "intervals"),
    [
        (
            "multi-task learning is 0.2% worse to 2.8% better than one model for all "
            "tasks, and 11 to 25% better than separate models (9 rows). One model for "
            "all tasks has 17% less error (9.9 to 24%) than separate models.",
            [(-0.002, 0.028), (0.11, 0.25)],
        ),
        (
            "It has 8% more error (-1.5 to 17%) than separate models, and 60% less "
            "error (100%) than one model for all tasks.",
            [(-0.17, 0.015), (1.0, 1.0)],
        ),
        (
            "Multi-task learning raises the AUC by 0.020 (0.010 to 0.030) compared with "
            "separate models, and by 0.050 (0.030 to 0.070) compared with one model for "
            "all tasks.",
            [(0.01, 0.03), (0.03, 0.07)],
        ),
    ],
)
def test_printed_intervals_are_read(sentence, intervals):
    read = script("atlas_bounds")["printed_intervals"](sentence)
    assert read == [pytest.approx(interval) for interval in intervals]


def test_bounds_of_an_earlier_version_get_the_factor_of_their_sizes():
    record = SimpleNamespace(
        metrics={"gain": 0.02, "low": -0.06, "high": 0.1},
        versions={"atlas-verdict": 1},
        params={"rows": 10},
        counts={"n_samples": 500, "n_tasks": 3},
        result={
            "lines": [
                "It is 6% worse to 10% better than separate models, and 30 to 50% "
                "better than one model for all tasks (500 rows)."
            ]
        },
    )
    verdict = script("atlas_bounds")["numbers_of"](record, "targets", "cannot tell")
    # 10 training and 100 test rows: the factor is sqrt(41) instead of 2.
    error = 0.08 / student.ppf(0.975, 499) * math.sqrt(41) / 2
    assert verdict.low == pytest.approx(0.02 - student.ppf(0.95, 499) * error)
    assert verdict.high == pytest.approx(0.02 + student.ppf(0.975, 499) * error)
    record.versions = {"atlas-verdict": 2}
    verdict = script("atlas_bounds")["numbers_of"](record, "targets", "safe")
    assert (verdict.decision, verdict.low, verdict.high) == ("safe", -0.06, 0.1)


def test_the_page_on_reliability_has_the_verdicts_on_real_tables():
    text = (ROOT / "docs" / "compare-measured.md").read_text("utf-8")
    text = " ".join(text.split())
    lines = verdicts_and_other_seeds()
    holds = {
        "worse": lines["other"] < 0,
        "helps": lines["other"] > 0,
        "safe": lines["other"] > -0.02,
        "no practical difference": lines["other"].abs() <= 0.01,
    }
    for decision, does_hold in holds.items():
        members = lines[lines["decision"] == decision]
        row = f"| {decision} | {len(members)} | {members['table'].nunique()} |"
        assert row in text
        after = text.partition(row)[2].split("|")
        assert int(after[1]) == does_hold[members.index].sum()
    members = lines[lines["decision"] == "cannot tell"]
    assert f"| cannot tell | {len(members)} | {members['table'].nunique()} |" in text
    shares = 100 * lines.groupby("kind")["inside"].mean()
    groups, targets, labels = shares[["groups", "targets", "labels"]]
    assert (
        f"{groups:.0f}% of the cases on groups, {targets:.0f}% on several targets and "
        f"{labels:.0f}% on several labels"
    ) in text
