"""The numbers of docs/atlas-first.md are those of the runs below results/atlas."""

import csv
import re
from functools import lru_cache
from pathlib import Path

import pandas as pd
import pytest

from mtlrun.lab.report.run import read_run, results_of

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results" / "atlas"
PAGE = ROOT / "docs" / "atlas-first.md"
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
    """The page on one line."""
    return " ".join(PAGE.read_text("utf-8").split())


def says(text):
    """Whether the page has this text, and says it once."""
    return page().count(text) == 1


def table(head):
    """Return the rows of the table of the page whose first column has this name."""
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
    """Return the quantities of every method of an artefact."""
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
    """Return table, kind, number of rows, seed and the quantities of every finished cell of atlas/gain."""
    found = []
    kinds = (
        pd.read_csv(ROOT / "configs" / "atlas" / "gains.csv", comment="#")
        .groupby("table")["kind"]
        .first()
    )
    for label in run("gain").datasets:
        for method in run("gain").methods:
            for record in results_of(run("gain"), label, method):
                place = {
                    "table": label,
                    "kind": kinds[label],
                    "rows": int(method.split()[0]),
                }
                found.append(
                    {**place, "seed": record.inputs["split"]["trial"], **record.metrics}
                )
    return pd.DataFrame(found)


@lru_cache
def settings():
    """Return the means over the seeds."""
    return lines().groupby(["table", "kind", "rows"], sort=False).mean().reset_index()


def real():
    return settings()[settings()["kind"].isin(REAL)]


@lru_cache
def of_methods():
    """Return every method that shares in every cell, with its gain over single-task models."""
    found = []
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
                        place = (
                            label,
                            int(method.split()[0]),
                            record.inputs["split"]["trial"],
                        )
                        found.append(
                            (
                                *place,
                                cells["method"].removesuffix("Classifier"),
                                cells["over alone"],
                            )
                        )
    frame = pd.DataFrame(
        found, columns=["table", "rows", "seed", "method", "over_alone"]
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


def test_what_was_computed():
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


def test_groups_in_short():
    groups = settings()[settings()["kind"] == "groups"]
    mine = of_methods()[
        (of_methods()["kind"] == "groups")
        & (of_methods()["method"] == "HierarchicalMTL")
    ]
    means = mine.groupby(["table", "rows"])["over_alone"].mean()
    assert (means > 0).all()
    assert says(
        f"larger in none of {len(means)} settings, that of a single seed in {(mine['over_alone'] < 0).sum()} of"
    )
    assert says(f"in {(mine['over_alone'] < 0).sum()} of {len(mine)}. With")
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


def test_targets_in_short():
    targets = settings()[settings()["kind"] == "targets"]
    mine = method_means()[
        (method_means()["kind"] == "targets")
        & (method_means()["method"] == "HierarchicalMTL")
    ]
    assert says(
        f"gained in {percent((targets['gain'] > 0).mean())} of {len(targets)} settings"
    )
    assert says(
        f"single-task models in {(mine['over_alone'] < 0).sum()} of {len(mine)}."
    )


def test_by_rows_per_task():
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


def test_by_kind_of_table():
    wanted = []
    for kind, name in KINDS.items():
        found, mine = values("curve")[name], settings()[settings()["kind"] == kind]
        assert found["median"] == pytest.approx(mine["gain"].median(), rel=1e-3)
        shares = [percent(found[q]) for q in ("gained", "clearly", "clearly_not")]
        wanted.append(
            [name, f"{found['settings']:g}", *shares, percent(found["median"], 1)]
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


def test_claims_on_gains():
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


def test_negative_transfer():
    found = method_means()[method_means()["kind"].isin(REAL)]
    wanted = []
    for name, part in found.groupby("method"):
        lost = part["over_alone"][part["over_alone"] < 0]
        wanted.append(
            (
                len(lost) / len(part),
                [name, len(part), percent(len(lost) / len(part)), -lost.median()],
            )
        )
    shown = {row[0]: row[1:] for row in table("method")}
    for _, (name, count, share, loss) in wanted:
        assert shown[name][:2] == [str(count), share]
        assert float(shown[name][2].strip("%")) == pytest.approx(100 * loss, abs=0.06)
    shares = {row[1][0]: row[0] for row in wanted}
    assert [shares[row[0]] for row in table("method")] == sorted(shares.values())
    best = (real()["over_independent"] < 0).mean()
    assert (settings()[settings()["kind"] == "groups"]["over_independent"] > 0).all()
    assert says(f"the share was {percent(best)}, and 0% on groups")
    groups = (
        found[found["kind"] == "groups"]
        .groupby("method")["over_alone"]
        .agg(lambda v: (v < 0).mean())
    )
    others = groups.drop("HierarchicalMTL")
    assert groups["HierarchicalMTL"] == 0
    assert says(
        f"the other methods {100 * others.min():.0f} to {percent(others.max())}; all of its losses are on several"
    )
    mine = found[(found["method"] == "HierarchicalMTL") & (found["over_alone"] < 0)]
    assert set(mine["kind"]) == {"targets"}


@lru_cache
def signed_ranks(kind):
    """Return the tables of signed ranks of a kind of table, by numbers of rows."""
    (record,) = results_of(run("methods"), "published", f"methods, {kind}")
    tables = {}
    for title, table in record.result["tables"].items():
        if title.startswith("Signed ranks"):
            rows = [
                dict(zip(table["columns"], row, strict=True)) for row in table["rows"]
            ]
            tables[title.removeprefix("Signed ranks, ").removesuffix(" per task")] = (
                rows
            )
    # Records keep their tables in the order of the titles.
    regimes = ("5 or 10 rows", "20 or 50 rows", "100 or 200 rows")
    return {regime: tables[regime] for regime in regimes if regime in tables}


def test_ranks_with_groups():
    tables = signed_ranks("groups")
    assert list(tables) == ["5 or 10 rows", "20 or 50 rows"]
    first, *rivals = tables["5 or 10 rows"]
    assert first["method"] == "HierarchicalMTL"
    separated = {row["method"] for row in rivals if row["Holm"] <= 0.05}
    assert "GradientBoosting+Task" in separated
    (other,) = {row["method"] for row in rivals} - separated
    assert other == "PooledRidge+Task"
    assert says(
        f"ranks first of {len(rivals) + 1} methods ({first['average rank']:.1f})"
    )
    worst = max(row["Holm"] for row in rivals if row["method"] in separated)
    n_tables = sum(rivals[0][name] for name in ("better", "same", "worse"))
    assert says(
        f"separated from {len(separated)} of its {len(rivals)} rivals on {n_tables} tables "
        f"(p = {worst:.3f})"
    )
    assert says(f"p = {next(r['Holm'] for r in rivals if r['method'] == other):.2f}).")
    first, second, *_ = tables["20 or 50 rows"]
    rivals = tables["20 or 50 rows"][1:]
    assert (first["method"], second["method"]) == (
        "GradientBoosting+Task",
        "HierarchicalMTL",
    )
    assert says(
        f"({first['average rank']:.1f}) and `HierarchicalMTL` ({second['average rank']:.1f})"
    )
    smallest = min(row["Holm"] for row in rivals)
    assert smallest == pytest.approx(2 * 2**-6 * len(rivals), abs=1e-3)
    assert says(f"p-value that they can give is {smallest:.2f} after adjustment")


def test_ranks_with_several_targets_and_of_simulated_tables():
    tables = signed_ranks("several targets")
    firsts = [rows[0]["method"] for rows in tables.values()]
    assert firsts == ["IndependentKernelRidge", "RobustMTL", "RobustMTL"]
    assert all(row["Holm"] > 0.05 for rows in tables.values() for row in rows[1:])
    simulated = signed_ranks("simulated")
    assert [rows[0]["method"] for rows in simulated.values()] == ["HierarchicalMTL"] * 3
    smallest = [min(row["Holm"] for row in rows[1:]) for rows in simulated.values()]
    assert [f"{value:.2f}" for value in sorted(smallest)] == ["0.09", "0.10", "0.10"]


def test_the_sizes_of_gains_with_groups():
    groups = settings()[settings()["kind"] == "groups"]
    assert groups["table"].nunique() == 13
    above = (groups["gain"] > 0.01).mean()
    below = (groups["gain"] < -0.01).mean()
    shares = [percent(above), percent(1 - above - below), percent(below)]
    assert says(
        "{} gain more than 1%, {} lie within 1%, and {} lose more".format(*shares)
    )
    schools = {"exam", "school", "scotssec", "hsb82", "egsingle"}
    assert schools <= set(groups["table"])


@lru_cache
def mixed():
    """Return the runs of the statistician's tools, and those of them that all tools fitted, by model."""
    found = pd.read_csv(RESULTS / "mixed_models.csv", comment="#").set_index(
        ["table", "rows", "seed"]
    )
    return {model: found[found["model"] == model] for model in ("intercept", "slopes")}


def fitted_by_all(model):
    """Return the runs that every tool fitted."""
    known = mixed()[model]["error"].notna().groupby(level=[0, 1, 2]).all()
    return mixed()[model].loc[known[known].index]


def asked_of(model):
    """Return the runs that were tried: not slopes of many columns."""
    return mixed()[model][
        ~mixed()[model]["note"].astype(str).str.startswith("more than 5")
    ]


def test_mixed_models():
    wanted = []
    for model, name in (("intercept", "random intercept"), ("slopes", "random slopes")):
        asked, whole = asked_of(model), fitted_by_all(model)
        for tool in ("mtlrun", "statsmodels", "lme4"):
            mine, own = whole[whole["tool"] == tool], asked[asked["tool"] == tool]
            wanted.append([name, tool, f"{own['error'].notna().sum()} of {len(own)}"])
            wanted[-1] += [
                percent(mine["gain"].median(), 1),
                f"{mine['seconds'].median():.2f}",
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
    places = mixed()["intercept"].index
    tables, runs = len(places.unique(level=0)), len(places.unique())
    assert says(
        f"of the {tables} tables with groups and a number to predict, in {runs} runs"
    )


def test_the_errors_of_our_model_are_those_of_the_run():
    known = of_methods()
    known = known[known["method"] == "HierarchicalMTL"].set_index(
        ["table", "rows", "seed"]
    )
    assert set(mixed()["intercept"].index) <= set(known.index)
    best = lines().set_index(["table", "rows", "seed"])["error"]
    shown = mixed()["intercept"]["best_without"]
    assert shown.to_numpy() == pytest.approx(best.loc[shown.index].to_numpy(), rel=1e-3)


def test_foretelling():
    head = "gain of real tables over"
    names = ["foretold", "foretold over linear", "foretold over single-task models"]
    found = [values("methods")[f"{name}, real tables"] for name in names]
    for row, v in zip(table(head), found, strict=True):
        ends = f"({100 * v['sign_low']:.0f} to {percent(v['sign_high'])})"
        correlation = f"{v['rank_correlation']:.2f} {interval(v['correlation_low'], v['correlation_high'])}"
        assert row[1:] == [
            correlation,
            f"{percent(v['sign_right'])} {ends}",
            percent(v["sign_no"]),
        ]
    best, _, alone = found
    assert says(
        f"right in {percent(best['sign_right'])} of the settings against {percent(best['sign_no'])} for always"
    )
    assert best["sign_no"] == 0.5
    over_no = [
        100 * best[name] for name in ("sign_over_no", "over_no_low", "over_no_high")
    ]
    assert says(
        "the difference is {:.0f} points, with an interval from {:.0f} to {:.0f}.".format(
            *over_no
        )
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


def test_the_share_of_the_noise():
    def noise(method):
        (record,) = results_of(run("methods"), "published", method)
        rows = {
            row[0]: row[1:] for row in record.result["tables"]["Coefficients"]["rows"]
        }
        assert max(abs(row[0]) for row in rows.values()) == rows["noise"][0]
        return [points(v) for v in rows["noise"]]

    one, other = noise("foretold, real tables"), noise("foretold")
    assert one[0] == other[0]
    assert says(f"without: {one[0]} points per standard deviation")
    assert says(f"Its interval is {one[1]} to {one[2]} with one set")
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


def test_what_the_second_seed_changes():
    found = values("curve")
    assert says(
        f"their rank correlation is {found['all tables']['seeds']:.2f}, not 0.8."
    )
    numbers = [f"{found[name]['seeds']:.2f}" for name in KINDS.values()]
    assert says(
        "It is {} on simulated tables, {} on groups, {} on several targets and {} on several".format(
            *numbers
        )
    )
    same = [percent(found[name]["same_sign"]) for name in KINDS.values()]
    assert says(
        f"{percent(found['all tables']['same_sign'])} of the settings ({same[0]}, {same[1]}, {same[2]} and {same[3]})"
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


def test_the_figures_are_there():
    shown = re.findall(r"!\[[^]]*\]\(([^)]*)\)", PAGE.read_text("utf-8"))
    assert len(shown) >= 3
    assert [path for path in shown if not (PAGE.parent / path).is_file()] == []
