"""The numbers of docs/atlas.md are those of the runs below results/atlas."""

import csv
import re
from functools import lru_cache
from pathlib import Path

import pandas as pd
import pytest

from mtlrun.lab.report.figures import measured_ranks
from mtlrun.lab.report.run import read_run, results_of
from mtlrun.stats import critical_difference

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results" / "atlas"
PAGE = ROOT / "docs" / "atlas.md"
pytestmark = pytest.mark.skipif(
    not (RESULTS.is_dir() and PAGE.is_file()), reason="needs a checkout"
)

KINDS = {
    "simulated": "simulated",
    "groups": "groups",
    "targets": "several targets",
    "labels": "several labels",
}
REAL = ("groups", "targets", "labels")


def percent(value, digits=0):
    return f"{100 * value:.{digits}f}%"


def points(value):
    return f"{100 * value:.1f}"


def interval(low, high, digits=2):
    return f"({low:.{digits}f} to {high:.{digits}f})"


@lru_cache
def page():
    """Return the page as a single line."""
    return " ".join(PAGE.read_text("utf-8").split())


def says(text):
    """Return whether the page has this text exactly once."""
    return page().count(text) == 1


def table(head):
    """Return the rows of the table on the page whose first column has this name."""
    lines = PAGE.read_text("utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {head} "))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


@lru_cache
def run(artefact):
    return read_run(RESULTS / artefact / "quick")


@lru_cache
def values(artefact):
    """Return the quantities of each method of a paper item."""
    with (RESULTS / artefact / "quick" / "table.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return {
        row["method"]: {
            name.removesuffix("_mean"): float(v)
            for name, v in row.items()
            if name.endswith("_mean") and v
        }
        for row in rows
    }


@lru_cache
def lines():
    """Return the table, options and quantities of each job of atlas/gain."""
    records = []
    kinds = (
        pd.read_csv(ROOT / "configs" / "atlas" / "gains.csv", comment="#")
        .groupby("table")["kind"]
        .first()
    )
    for label in run("gain").datasets:
        for method in run("gain").methods:
            for record in results_of(run("gain"), label, method):
                setting = {
                    "table": label,
                    "kind": kinds[label],
                    "rows": int(method.split()[0]),
                }
                records.append(
                    {
                        **setting,
                        "seed": record.inputs["split"]["trial"],
                        **record.metrics,
                    }
                )
    return pd.DataFrame(records)


@lru_cache
def settings():
    """Return the means over the seeds."""
    return lines().groupby(["table", "kind", "rows"], sort=False).mean().reset_index()


def real():
    return settings()[settings()["kind"].isin(REAL)]


@lru_cache
def of_methods():
    """Return each multi-task method in each job, with its gain over single tasks."""
    records = []
    for label in run("gain").datasets:
        for method in run("gain").methods:
            for record in results_of(run("gain"), label, method):
                listed = record.result["tables"]["methods"]
                for row in listed["rows"]:
                    cells = dict(zip(listed["columns"], row, strict=True))
                    if (
                        cells["family"] == "multi-task"
                        and cells["over alone"] is not None
                    ):
                        setting = (
                            label,
                            int(method.split()[0]),
                            record.inputs["split"]["trial"],
                        )
                        records.append(
                            (
                                *setting,
                                cells["method"].removesuffix("Classifier"),
                                cells["over alone"],
                            )
                        )
    frame = pd.DataFrame(
        records, columns=["table", "rows", "seed", "method", "over_alone"]
    )
    return frame.merge(settings()[["table", "kind"]].drop_duplicates(), on="table")


def method_means():
    return (
        of_methods()
        .groupby(["table", "kind", "rows", "method"], sort=False)["over_alone"]
        .mean()
        .reset_index()
    )


def gained(part):
    return int((part["gain"] > 0).sum()), len(part)


def test_the_shipped_gains_are_those_of_the_run():
    shipped = pd.read_csv(ROOT / "configs" / "atlas" / "gains.csv", comment="#")
    assert shipped["gain"].to_numpy() == pytest.approx(
        lines()["gain"].to_numpy(), rel=1e-3, abs=1e-8
    )


def test_the_page_counts_the_computed_jobs():
    done, planned = len(lines()), len(run("gain").planned)
    tables = settings().groupby("kind")["table"].nunique()
    assert says(
        f"{tables.sum()} tables ({tables[list(REAL)].sum()} real and {tables['simulated']} simulated)"
    )
    assert says(
        f"there are {len(settings())}, of which {len(real())} are of real tables"
    )
    assert (lines().groupby(["table", "rows"]).size() == 1).sum() == 1
    assert says("(one setting has only one of them)")
    failed = {
        (p.dataset, p.method)
        for p in run("gain").planned
        if run("gain").records[p.key].status != "ok"
    }
    assert planned - done == 5
    assert says(f"Five of {planned} cells failed, all on `sf1` with 5 to 20 rows")
    assert failed == {("sf1", f"{rows} rows") for rows in (5, 10, 20)}


def test_the_summary_of_groups_matches_the_run():
    groups = settings()[settings()["kind"] == "groups"]
    group_gains = of_methods()[
        (of_methods()["kind"] == "groups")
        & (of_methods()["method"] == "HierarchicalMTL")
    ]
    means = group_gains.groupby(["table", "rows"])["over_alone"].mean()
    assert (means > 0).all()
    assert says(
        f"larger in none of {len(means)} settings, that of a single seed in {(group_gains['over_alone'] < 0).sum()} of"
    )
    assert says(
        f"in {(group_gains['over_alone'] < 0).sum()} of {len(group_gains)}. With"
    )
    few, many = (
        gained(groups[groups["rows"] <= 10]),
        gained(groups[groups["rows"] >= 20]),
    )
    assert says(
        f"in {few[0]} of {few[1]} settings; with 20 or more, in {many[0]} of {many[1]}. The gains over"
    )
    clearly = int((groups["low"] > 0).sum())
    middle = percent(groups["gain"].median(), 1)
    assert says(
        f"{middle} in the median of all {len(groups)}, and clearly above 0 in {clearly}."
    )


def test_the_summary_of_targets_matches_the_run():
    targets = settings()[settings()["kind"] == "targets"]
    target_gains = method_means()[
        (method_means()["kind"] == "targets")
        & (method_means()["method"] == "HierarchicalMTL")
    ]
    assert says(
        f"gained in {percent((targets['gain'] > 0).mean())} of {len(targets)} settings"
    )
    assert says(
        f"single-task models in {(target_gains['over_alone'] < 0).sum()} of {len(target_gains)}."
    )


def test_gains_by_rows_per_task_match_the_run():
    wanted = []
    for rows, part in settings().groupby("rows"):
        halves = [part[part["kind"] != "simulated"], part[part["kind"] == "simulated"]]
        wanted.append(
            [str(rows), *("{} of {}".format(*gained(half)) for half in halves)]
        )
    assert table("rows per task") == wanted
    few, many = (
        gained(real()[real()["rows"] <= 10]),
        gained(real()[real()["rows"] >= 20]),
    )
    assert says(
        f"real tables gained in {few[0]} of {few[1]} settings; with 20 or more, in {many[0]} of {many[1]}."
    )


def test_gains_by_kind_of_table_match_the_run():
    wanted = []
    for kind, name in KINDS.items():
        stored, kind_settings = (
            values("curve")[name],
            settings()[settings()["kind"] == kind],
        )
        assert stored["median"] == pytest.approx(
            kind_settings["gain"].median(), rel=1e-3
        )
        shares = [percent(stored[q]) for q in ("gained", "clearly", "clearly_not")]
        wanted.append(
            [name, f"{stored['settings']:g}", *shares, percent(stored["median"], 1)]
        )
    assert table("kind") == wanted
    groups, targets = values("curve")["groups"], values("curve")["several targets"]
    few, some = (percent(groups[f"{regime}_alone"]) for regime in ("few", "some"))
    assert says(
        f"models of single tasks is {few} with 5 or 10 rows per task and {some} with 20 or 50"
    )
    assert says(f"it is {percent(groups['few'], 1)} and {percent(groups['some'], 1)}.")
    many, linear = percent(targets["many"], 1), percent(targets["many_linear"], 1)
    assert says(
        f"the median gain is {linear} over the best linear method without sharing, and {many} over the best"
    )


def test_claims_about_gains_match_the_run():
    unrelated = (
        lines()[lines()["table"] == "unrelated tasks"].groupby("rows")["helps"].sum()
    )
    assert unrelated.to_dict() == {5: 0, 10: 1, 20: 1, 50: 2, 100: 0, 200: 0}
    assert says("under one of two seeds with 10 and with 20 rows, under both with 50")
    equal = settings()[settings()["table"] == "equal tasks"].set_index("rows")[
        "over_pooled"
    ]
    assert equal[equal >= 0.02].index.tolist() == [5]
    assert says(f"with 5 rows was {percent(equal[5], 1)}, not below 2%")
    structured = lines()[
        lines()["table"].isin(
            ["low rank", "shared features", "clusters", "flipped signs"]
        )
    ]
    assert (structured[structured["rows"] == 10]["low"] > 0).all()
    few = settings()[(settings()["kind"] == "groups") & (settings()["rows"] <= 10)]
    claimed = few[few["table"] != "contraception"]
    assert (claimed["over_independent"] > 0).all()
    assert says(f"in all {len(claimed)} comparisons")


def test_negative_transfer_matches_the_run():
    means = method_means()[method_means()["kind"].isin(REAL)]
    wanted = []
    for name, part in means.groupby("method"):
        lost = part["over_alone"][part["over_alone"] < 0]
        wanted.append(
            (
                len(lost) / len(part),
                [name, len(part), percent(len(lost) / len(part)), -lost.median()],
            )
        )
    rows = {row[0]: row[1:] for row in table("method")}
    for _, (name, count, share, loss) in wanted:
        assert rows[name][:2] == [str(count), share]
        assert float(rows[name][2].strip("%")) == pytest.approx(100 * loss, abs=0.06)
    shares = {row[1][0]: row[0] for row in wanted}
    assert [shares[row[0]] for row in table("method")] == sorted(shares.values())
    best = (real()["over_independent"] < 0).mean()
    assert (settings()[settings()["kind"] == "groups"]["over_independent"] > 0).all()
    assert says(f"the share was {percent(best)}, and 0% on groups")
    groups = (
        means[means["kind"] == "groups"]
        .groupby("method")["over_alone"]
        .agg(lambda v: (v < 0).mean())
    )
    others = groups.drop("HierarchicalMTL")
    assert groups["HierarchicalMTL"] == 0
    assert says(
        f"the other methods {100 * others.min():.0f} to {percent(others.max())}; all of its losses are on several"
    )
    losses = means[(means["method"] == "HierarchicalMTL") & (means["over_alone"] < 0)]
    assert set(losses["kind"]) == {"targets"}


@lru_cache
def rankings(kind):
    """Return the rankings of a kind of table, by regime."""
    (by_regime,) = [
        d.rankings
        for d in measured_ranks(run("methods"))
        if d.name == f"published-methods--{kind}-ranks"
    ]
    return by_regime


def told_apart(ranking):
    """Return the pairs that Nemenyi's test separates, the better method first."""
    difference = critical_difference(len(ranking.methods), len(ranking.values))
    ranks = ranking.average
    return {(a, b) for a in ranks for b in ranks if ranks[b] - ranks[a] >= difference}


def test_ranks_with_groups_match_the_run():
    few, some = rankings("groups")
    assert says(
        f"{few.average['HierarchicalMTL']:.1f} of {len(few.methods)} methods with 5 or 10 rows"
    )
    assert says(
        f"{some.average['HierarchicalMTL']:.1f} of {len(some.methods)} with 20 or 50"
    )
    for ranking in (few, some):
        assert min(ranking.average, key=ranking.average.get) == "HierarchicalMTL"
        behind = {b for a, b in told_apart(ranking) if a == "HierarchicalMTL"}
        assert {"IndependentRidge", "IndependentRidgeCV"} <= behind
        assert not {"PooledRidge+Task", "GradientBoosting+Task"} & behind


def test_ranks_with_several_targets_and_of_simulated_tables_match_the_run():
    regimes = rankings("several-targets")
    assert [told_apart(ranking) for ranking in regimes] == [
        set(),
        set(),
        {("RobustMTL", "PooledRidge")},
    ]
    assert {len(ranking.values) for ranking in regimes} == {7, 9}
    assert {len(ranking.methods) for ranking in regimes} == {13, 14}
    simulated = rankings("simulated")
    assert len(simulated) == 3
    assert {min(ranking.average, key=ranking.average.get) for ranking in simulated} == {
        "HierarchicalMTL"
    }


@lru_cache
def mixed():
    """Return the runs of the statistical packages, and their common ones, by model."""
    frame = pd.read_csv(RESULTS / "mixed_models.csv", comment="#").set_index(
        ["table", "rows", "seed"]
    )
    return {model: frame[frame["model"] == model] for model in ("intercept", "slopes")}


def fitted_by_all(model):
    """Return the runs that every package fitted."""
    is_finished = mixed()[model]["error"].notna().groupby(level=[0, 1, 2]).all()
    return mixed()[model].loc[is_finished[is_finished].index]


def asked_of(model):
    """Return the attempted runs: not slopes of many columns."""
    return mixed()[model][
        ~mixed()[model]["note"].astype(str).str.startswith("more than 5")
    ]


def test_mixed_models_match_the_run():
    wanted = []
    for model, name in (("intercept", "random intercept"), ("slopes", "random slopes")):
        attempted, finished = asked_of(model), fitted_by_all(model)
        for tool in ("mtlrun", "statsmodels", "lme4"):
            finished_runs, tool_runs = (
                finished[finished["tool"] == tool],
                attempted[attempted["tool"] == tool],
            )
            wanted.append(
                [name, tool, f"{tool_runs['error'].notna().sum()} of {len(tool_runs)}"]
            )
            wanted[-1] += [
                percent(finished_runs["gain"].median(), 1),
                f"{finished_runs['seconds'].median():.2f}",
            ]
    assert table("model") == wanted
    chosen = [
        fitted_by_all(model).groupby(level=[0, 1, 2])["ours_gain"].first()
        for model in mixed()
    ]
    assert says(
        f"its median gain on the same {len(chosen[0])} and {len(chosen[1])} runs is"
    )
    assert says(
        f"runs is {percent(chosen[0].median(), 1)} and {percent(chosen[1].median(), 1)}."
    )
    for model in mixed():
        errors = mixed()[model].pivot_table(
            index=["table", "rows", "seed"], columns="tool", values="error"
        )
        apart = (errors["lme4"] / errors["mtlrun"] - 1).abs().max()
        assert apart < 0.003
    assert says("The errors of lme4 differ from ours by less than 0.3%")
    errors = [
        m.pivot_table(index=["table", "rows", "seed"], columns="tool", values="error")
        for m in mixed().values()
    ]
    above = max((e["statsmodels"] / e["mtlrun"] - 1).max() for e in errors)
    assert says(f"up to {percent(above)} above ours")
    lost = {
        (m, t): int(part["error"].isna().sum())
        for m in mixed()
        for t, part in asked_of(m).groupby("tool")
    }
    assert says(
        f"failed in {lost['intercept', 'statsmodels']} runs with a random intercept and in"
    )
    assert says(
        f"in {lost['slopes', 'statsmodels']} with slopes, at singular covariances. lme4 refuses"
    )
    assert says(f"refuses {lost['slopes', 'lme4']} runs with no more rows")
    assert lost["intercept", "lme4"] == 0
    settings = mixed()["intercept"].index
    tables, runs = len(settings.unique(level=0)), len(settings.unique())
    assert says(
        f"of the {tables} tables with groups and a number to predict, in {runs} runs"
    )


def test_the_errors_of_our_model_are_those_of_the_run():
    method_gains = of_methods()
    method_gains = method_gains[method_gains["method"] == "HierarchicalMTL"].set_index(
        ["table", "rows", "seed"]
    )
    assert set(mixed()["intercept"].index) <= set(method_gains.index)
    best = lines().set_index(["table", "rows", "seed"])["error"]
    baseline = mixed()["intercept"]["best_without"]
    assert baseline.to_numpy() == pytest.approx(
        best.loc[baseline.index].to_numpy(), rel=1e-3
    )


def test_predictions_of_gains_match_the_run():
    head = "gain of real tables over"
    names = ["foretold", "foretold over linear", "foretold over single-task models"]
    stored = [values("methods")[f"{name}, real tables"] for name in names]
    for row, v in zip(table(head), stored, strict=True):
        ends = f"({100 * v['sign_low']:.0f} to {percent(v['sign_high'])})"
        correlation = f"{v['rank_correlation']:.2f} {interval(v['correlation_low'], v['correlation_high'])}"
        assert row[1:] == [
            correlation,
            f"{percent(v['sign_right'])} {ends}",
            percent(v["sign_no"]),
        ]
    best, _, alone = stored
    assert says(
        f"right in {percent(best['sign_right'])} of the settings against {percent(best['sign_no'])} for always"
    )
    assert best["sign_no"] == 0.5
    wide = best["sign_high"] - best["sign_low"]
    assert says(
        f"by {100 * best['sign_over_no']:.0f} points; the interval is {100 * wide:.0f} points wide"
    )
    yes = (real()["over_independent"] > 0).mean()
    assert says(
        f"right in {percent(alone['sign_right'])}, where always saying yes would be in {percent(yes)}."
    )
    assert all(
        v["explained"] < 0
        for name, v in values("methods").items()
        if name.startswith("foretold")
    )
    for seed in ("first", "second"):
        v = values("methods")[f"foretold, real tables, {seed} seed"]
        assert says(
            f"{v['rank_correlation']:.2f} {interval(v['correlation_low'], v['correlation_high'])}"
        )


def test_the_share_of_the_noise_matches_the_run():
    def noise(method):
        (record,) = results_of(run("methods"), "published", method)
        rows = {
            row[0]: row[1:] for row in record.result["tables"]["Coefficients"]["rows"]
        }
        assert max(abs(row[0]) for row in rows.values()) == rows["noise"][0]
        return [points(v) for v in rows["noise"]]

    real, other = noise("foretold, real tables"), noise("foretold")
    assert real[0] == other[0]
    assert says(f"without: {real[0]} points per standard deviation")
    assert says(f"Its interval is {real[1]} to {real[2]} with one set")
    assert says(f"{other[1]} to {other[2]} with another")
    first = noise("foretold, real tables, first seed")
    (record,) = results_of(
        run("methods"), "published", "foretold, real tables, second seed"
    )
    second = next(
        row
        for row in record.result["tables"]["Coefficients"]["rows"]
        if row[0] == "noise"
    )
    assert says(f"it is {first[1]} to {first[2]} with the first seed alone, and")
    assert says(f"{points(second[2])} to {points(second[3])} with the second.")


def test_the_effect_of_the_second_seed_matches_the_run():
    stored = values("curve")
    assert says(
        f"their rank correlation is {stored['all tables']['seeds']:.2f}, not 0.8."
    )
    numbers = [f"{stored[name]['seeds']:.2f}" for name in KINDS.values()]
    assert says(
        "It is {} on simulated tables, {} on groups, {} on several targets and {} on several".format(
            *numbers
        )
    )
    same = [percent(stored[name]["same_sign"]) for name in KINDS.values()]
    assert says(
        f"{percent(stored['all tables']['same_sign'])} of the settings ({same[0]}, {same[1]}, {same[2]} and {same[3]})"
    )
    seeds = [
        lines()[lines()["kind"].isin(REAL) & (lines()["seed"] == seed)]
        for seed in (0, 1)
    ]
    (a, n), (b, m) = map(gained, seeds)
    assert says(f"{a} of {n} gain under the first seed and {b} of {m} under the second")
    (a, n), (b, m) = (gained(part[part["rows"] == 5]) for part in seeds)
    assert n == m
    assert says(f"with 5 rows it is {a} and {b} of {n}.")


def test_the_figures_exist():
    figures = re.findall(r"!\[[^]]*\]\(([^)]*)\)", PAGE.read_text("utf-8"))
    assert len(figures) >= 3
    assert [path for path in figures if not (PAGE.parent / path).is_file()] == []
