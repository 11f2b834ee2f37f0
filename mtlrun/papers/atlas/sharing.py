"""Whether sharing helps, other things being equal: the analyses of ``atlas/sharing``.

They read a csv file that ``scripts/atlas_pairs.py`` makes of a run of ``atlas/pairs``,
with a line per table, seed, learner, number of rows and method. The unit of evidence is
the table. A setting is a table at one number of rows per task. Effects are log error
ratios,

    effect = log(error without sharing / error with sharing),

averaged over the seeds, so 0.01 is about 1% less error by sharing. Differences within
1% make no practical difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mtlrun.catalog.analysis import (
    AnalysisResult,
    analysis,
)
from mtlrun.comparison.verdict import HELPS
from mtlrun.papers.atlas.mixed import mixed_mean
from mtlrun.papers.atlas.pairs import (
    FOREST_OF_ALL,
    SELECTED,
    TREES_WITH_TASK,
    log_ratio,
)
from mtlrun.stats import holm, paired_test
from mtlrun.utils.io import published_path, read_text_file

Array = np.ndarray[Any, np.dtype[Any]]

#: Files of the lines of `atlas/pairs` and of `atlas/verdicts`.
PAIRS = "atlas/pairs.csv"
VERDICTS = "atlas/verdicts.csv"
#: Properties of each table that were known before anything was computed.
TABLES = "atlas/tables.csv"
#: Columns of `TABLES` that describe a table. Files of simulated tables have these
#: columns themselves.
DESCRIPTION = ("kind", "family", "source", "fresh")
#: Columns that are text; the others are numbers.
KEYS = ("table", "kind", "family", "source", "test", "learner", "method", "sharing")
VERDICT_KEYS = ("table", "kind", "family", "source", "decision")
#: Effects between these make no practical difference.
REGION = 0.01
#: Larger effects count as this one: an error of nearly 0 has a ratio without bounds.
MAX_RATIO = 2.0
MAX_EFFECT = math.log(MAX_RATIO)
#: Rows per task that are called few, some and many, as (first, last).
REGIMES = {"few": (5, 20), "some": (50, 200), "many": (500, 2000)}
#: Kinds of tables on which the first edition saw multi-task learning gain in most
#: settings. The rule comes from its tables, so it is tested on fresh tables only.
KINDS_THAT_GAIN = ("groups", "labels")
#: Level of the methods that `compare` counts differently: it takes a model with the
#: task as a category for one model for all tasks, and multi-output forests for neither.
LEVEL_IN_COMPARE = {TREES_WITH_TASK: "full", FOREST_OF_ALL: "native"}
#: Draws of tables for intervals of shares.
N_DRAWS = 2000
#: Fewer tables have no mean of their own.
MIN_TABLES = 3


@dataclass(frozen=True)
class EffectInterval:
    """Mean and the ends of its 95% interval, NaN where there are too few tables."""

    mean: float
    low: float
    high: float


def read_tables() -> pd.DataFrame:
    """Return what is known of every table, with the names of the tables as index."""
    return pd.read_csv(published_path(TABLES), dtype=str, index_col="table").astype(
        {"fresh": int}
    )


def read_pairs(name: str, kinds: Sequence[str], keys: Sequence[str]) -> pd.DataFrame:
    """Read the lines of a csv file of the atlas, and what is known of their tables.

    Parameters
    ----------
    name : str
        File, relative to the folder of the experiments.
    kinds : sequence of str
        Kinds of tables; empty for all.
    keys : sequence of str
        Columns that are text.

    Raises
    ------
    ConfigError
        If there is no such file.
    """
    rows = []
    for line in read_text_file(published_path(name)).split("\n"):
        if line and not line.startswith("#"):
            rows.append(line.split(","))
    frame = pd.DataFrame(rows[1:], columns=rows[0])
    for column in frame.columns.difference(list(keys)):
        frame[column] = pd.to_numeric(frame[column])
    if "kind" not in frame.columns:
        frame = frame.join(read_tables()[[*DESCRIPTION]], on="table")
    if not kinds:
        return frame
    return frame[frame["kind"].isin([*kinds])]


def nothing_computed(quantities: Mapping[str, str], name: str) -> AnalysisResult:
    """Return a result without numbers, which says what to compute."""
    line = (
        f"{name} has no such lines yet: compute atlas/pairs or atlas/verdicts, then run "
        "scripts/atlas_pairs.py."
    )
    return AnalysisResult(dict.fromkeys(quantities, math.nan), lines=[line])


def effects_of(lines: pd.DataFrame, with_sharing: str, without: str) -> pd.DataFrame:
    """Return the effects of one method over another, a row per table, rows and seed.

    Parameters
    ----------
    lines : DataFrame
        Lines of one learner.
    with_sharing, without : str
        Names of methods, or levels of sharing (``none``, ``partial``, ``full``). A
        level stands for its method that the inner scores select.
    """
    index = ["table", "kind", "family", "source", "fresh", "rows", "seed"]
    sides = {}
    for side, name in (("first", with_sharing), ("second", without)):
        is_level = (lines["method"] == SELECTED) & (lines["sharing"] == name)
        part = lines[is_level | (lines["method"] == name)]
        sides[side] = part.set_index(index)[["error", "seconds"]].add_suffix(f"_{side}")
    both = sides["first"].join(sides["second"], how="inner").dropna().reset_index()
    ratios = []
    for first, second in zip(both["error_first"], both["error_second"], strict=True):
        ratios.append(log_ratio(second, first))
    both["effect"] = ratios
    both["effect"] = both["effect"].clip(-MAX_EFFECT, MAX_EFFECT)
    cost = both["seconds_first"] / both["seconds_second"].clip(lower=1e-3)
    both["cost"] = np.log(cost.clip(lower=1e-3))
    return both


def over_seeds(effects: pd.DataFrame) -> pd.DataFrame:
    """Return the means over the seeds, a row per setting."""
    index = ["table", "kind", "family", "source", "fresh", "rows"]
    return effects.groupby(index, sort=False)[["effect", "cost"]].mean().reset_index()


def effect_interval(settings: pd.DataFrame) -> EffectInterval:
    """Return the mean effect over tables and its interval; NaN for too few tables."""
    if settings["table"].nunique() < MIN_TABLES:
        return EffectInterval(math.nan, math.nan, math.nan)
    mean = mixed_mean(
        settings["effect"].tolist(),
        settings["table"].tolist(),
        settings["source"].tolist(),
    )
    return EffectInterval(mean.mean, mean.low, mean.high)


def count_by_region(effects: pd.Series) -> dict[str, float]:
    """Count the effects above, within and below the region."""
    return {
        "better": float((effects > REGION).sum()),
        "same": float(effects.between(-REGION, REGION).sum()),
        "worse": float((effects < -REGION).sum()),
    }


def signed_rank(effects: pd.Series) -> float:
    """Return the p-value of Wilcoxon's test of effects; NaN for fewer than two."""
    pvalue = paired_test(effects, np.zeros(len(effects))).pvalue
    return math.nan if pvalue is None else pvalue


def percent_less(effect: float) -> float:
    """Return the reduction of the error, in percent, of a log error ratio."""
    return 100 * (1 - math.exp(-effect))


def summarize(settings: pd.DataFrame) -> dict[str, float]:
    """Return mean, interval, counts and p-value of some settings."""
    interval = effect_interval(settings)
    of_tables = settings.groupby("table")["effect"].mean()
    return {
        "effect": interval.mean,
        "low": interval.low,
        "high": interval.high,
        "tables": float(settings["table"].nunique()),
        "settings": float(len(settings)),
        **count_by_region(of_tables),
        "pvalue": signed_rank(of_tables),
    }


#: Columns of the tables of effects.
EFFECT_COLUMNS = (
    "effect",
    "low",
    "high",
    "tables",
    "settings",
    "better",
    "same",
    "worse",
    "pvalue",
)


def effect_table(groups: Mapping[str, pd.DataFrame], column: str) -> dict[str, Any]:
    """Return a table of effects, a row per group, with p-values adjusted by Holm.

    Parameters
    ----------
    groups : dict of str to DataFrame
        Group -> its settings.
    column : str
        Name of the column of groups.
    """
    summaries = {name: summarize(part) for name, part in groups.items()}
    adjusted = holm([numbers["pvalue"] for numbers in summaries.values()])
    rows = []
    for (name, numbers), pvalue in zip(summaries.items(), adjusted, strict=True):
        row: list[Any] = [name]
        for key in EFFECT_COLUMNS:
            row.append(_rounded(numbers[key]))
        row.append(_rounded(pvalue))
        rows.append(row)
    return {"columns": [column, *EFFECT_COLUMNS, "Holm"], "rows": rows}


def effect_tables(settings: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the effects by number of rows, by kind of table and by family."""
    by_rows = {f"{rows:g}": part for rows, part in settings.groupby("rows")}
    return {
        "By rows per task": effect_table(by_rows, "rows"),
        "By kind of table": effect_table(_by(settings, "kind"), "kind"),
        "By family": effect_table(_by(settings, "family"), "family"),
    }


def _rounded(value: float) -> float | None:
    """Return a number with four significant digits; None for NaN."""
    return None if math.isnan(value) else float(f"{value:.4g}")


def _by(settings: pd.DataFrame, column: str) -> dict[str, pd.DataFrame]:
    """Return the settings by the value of a column, in the order of the file."""
    groups = settings.groupby(column, sort=False)
    return {str(name): part for name, part in groups}


EFFECT_QUANTITIES = {
    "effect": "mean of log(error without / error with) over tables, by a mixed model "
    "with table and source as random effects; 0.01 is 1% less error",
    "low": "lower end of the 95% interval",
    "high": "upper end of the 95% interval",
    "tables": "tables",
    "settings": "tables at some number of training rows per task",
    "better": "tables with more than 1% less error",
    "same": "tables within 1%",
    "worse": "tables with more than 1% more error",
    "pvalue": "p-value of Wilcoxon's signed-rank test over tables",
}


#: Quantities that are also reported for each regime.
REGIME_KEYS = ("effect", "low", "high", "tables")
REGIME_QUANTITIES = {
    f"{key}_{name}": f"{key} with {first} to {last} rows per task"
    for name, (first, last) in REGIMES.items()
    for key in REGIME_KEYS
}
SHARING_QUANTITIES = {
    **EFFECT_QUANTITIES,
    **REGIME_QUANTITIES,
    "slope": "change of the effect per tenfold number of rows, mean over tables",
    "slope_low": "lower end of its 95% interval",
    "slope_high": "upper end of its 95% interval",
    "cost": "processor seconds with sharing over those without, geometric mean",
    "seeds": "rank correlation of the effects of the first two seeds",
    "same_sign": "share of the settings with the same sign under both seeds",
}


@analysis(
    SHARING_QUANTITIES,
    name="atlas-sharing",
    higher=["effect", "low", "high", "better"],
    lower=["worse"],
    needs_data=False,
    # Processors without AVX-512 agree to 3.7 digits.
    digits=3,
)
def sharing(
    _: None,
    *,
    seed: int,
    learner: str,
    with_sharing: str = "partial",
    without: str = "none",
    published: str = PAIRS,
    kinds: Sequence[str] = (),
    test: str = "rows",
) -> AnalysisResult:
    """Measure the effect of one way of sharing on the error of a learner.

    Parameters
    ----------
    seed : int
        Without effect.
    learner : str
    with_sharing, without : str, default "partial" and "none"
        Levels of sharing, or names of methods.
    published : str
        File of the lines, relative to the folder of the experiments.
    kinds : sequence of str, default all
        Kinds of tables.
    test : {"rows", "new tasks"}, default "rows"
        Whether rows of known tasks are tested, or tasks without training rows.
    """
    lines = read_pairs(published, kinds, KEYS)
    lines = lines[(lines["learner"] == learner) & (lines["test"] == test)]
    effects = effects_of(lines, with_sharing, without)
    if effects.empty:
        return nothing_computed(SHARING_QUANTITIES, published)
    settings = over_seeds(effects)
    slopes = _slopes(settings)
    values = {
        **summarize(settings),
        "cost": float(np.exp(settings["cost"].mean())),
        **_agreement(effects),
    }
    values |= _by_regime(settings)
    slope = effect_interval(slopes)
    values["slope"] = slope.mean
    values["slope_low"] = slope.low
    values["slope_high"] = slope.high
    tables = effect_tables(settings)
    return AnalysisResult(values, tables=tables)


def _by_regime(settings: pd.DataFrame) -> dict[str, float]:
    """Return the quantities `REGIME_KEYS` of the settings of each regime."""
    values = {}
    for name, (first, last) in REGIMES.items():
        part = summarize(settings[settings["rows"].between(first, last)])
        for key in REGIME_KEYS:
            values[f"{key}_{name}"] = part[key]
    return values


def _slopes(settings: pd.DataFrame) -> pd.DataFrame:
    """Return the slope of the effect in log10(rows) for each table with two numbers."""
    slopes = []
    for (table, source), part in settings.groupby(["table", "source"], sort=False):
        if part["rows"].nunique() < 2:
            continue
        slope = np.polyfit(np.log10(part["rows"]), part["effect"], 1)[0]
        slopes.append({"table": table, "source": source, "effect": float(slope)})
    return pd.DataFrame(slopes, columns=["table", "source", "effect"])


def _agreement(effects: pd.DataFrame) -> dict[str, float]:
    """Compare the first two seeds in the settings that have both."""
    wide = effects.pivot_table(index=["table", "rows"], columns="seed", values="effect")
    both = wide.reindex(columns=[0, 1]).dropna()
    correlation = math.nan
    same_sign = math.nan
    n_tables = both.index.get_level_values("table").nunique()
    if n_tables >= MIN_TABLES and both.nunique().min() > 1:
        correlation = float(both[0].corr(both[1], method="spearman"))
        same_sign = float(((both[0] > 0) == (both[1] > 0)).mean())
    return {"seeds": correlation, "same_sign": same_sign}


# ---------------------------------------------------------------- best against best


BEST_QUANTITIES = {
    **EFFECT_QUANTITIES,
    **REGIME_QUANTITIES,
    "seeds": "rank correlation of the effects of the first two seeds",
    "same_sign": "share of the settings with the same sign under both seeds",
    "right": "share of the settings whose sign the kind of table predicts, mean over "
    "tables",
    "right_low": "lower end of its 95% interval, tables drawn anew",
    "right_high": "upper end of its 95% interval",
    "right_no": "the same share where no gain is predicted for all tables",
    "over_no": "the difference of the two shares",
    "over_no_low": "lower end of its 95% interval, tables drawn anew",
    "over_no_high": "upper end of its 95% interval",
}


@analysis(
    BEST_QUANTITIES,
    name="atlas-best",
    higher=["effect", "low", "high", "better", "right", "over_no"],
    lower=["worse"],
    needs_data=False,
)
def best(
    _: None,
    *,
    seed: int,
    published: str = PAIRS,
    kinds: Sequence[str] = (),
    fresh: bool = False,
    with_levels: Sequence[str] = ("partial",),
    without_levels: Sequence[str] = ("none", "full"),
) -> AnalysisResult:
    """Compare the best method with partial sharing to the best one without it.

    Both are selected among all learners by their inner scores, for each table, seed and
    number of rows. Seeds without one of the learners of a table do not count. The kind
    of table alone predicts the sign of the effect: tables with groups or labels gain,
    targets do not.

    Parameters
    ----------
    seed : int
        Seed of the draws of tables.
    published : str
        File of the lines, relative to the folder of the experiments.
    kinds : sequence of str, default all
        Kinds of tables.
    fresh : bool, default False
        Whether to take only tables that the first edition did not have.
    with_levels, without_levels : sequence of str
        Levels of sharing on both sides.
    """
    lines = read_pairs(published, kinds, KEYS)
    lines = lines[(lines["test"] == "rows") & (lines["method"] != SELECTED)]
    lines = complete_seeds(lines)
    if fresh:
        lines = lines[lines["fresh"] == 1]
    best_with = _select(lines[lines["sharing"].isin([*with_levels])], "with")
    best_without = _select(lines[lines["sharing"].isin([*without_levels])], "without")
    effects = effects_of(pd.concat([best_with, best_without]), "with", "without")
    if effects.empty:
        return nothing_computed(BEST_QUANTITIES, published)
    settings = over_seeds(effects)
    tables = effect_tables(settings)
    values = {
        **summarize(settings),
        **_by_regime(settings),
        **_agreement(effects),
        **_test_rule(settings, seed),
    }
    return AnalysisResult(values, tables=tables)


def complete_seeds(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of the seeds for which all learners of a table were computed.

    Otherwise the best of all learners would be the best of a few in an unfinished run.
    """
    n_learners = lines.groupby(["table", "seed"])["learner"].transform("nunique")
    n_of_table = lines.groupby("table")["learner"].transform("nunique")
    return lines[n_learners == n_of_table]


def _select(lines: pd.DataFrame, side: str) -> pd.DataFrame:
    """Return the line with the best inner score for each table, seed and rows.

    Inner scores are losses, or scores with their sign turned: lower is better. The
    lines get `side` as their level of sharing.
    """
    complete = lines.dropna(subset=["inner", "error"])
    if complete.empty:
        return complete
    index = ["table", "rows", "seed"]
    selected = complete.loc[complete.groupby(index)["inner"].idxmin()]
    return selected.assign(method=SELECTED, sharing=side)


def gains_as_in_compare(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the gains that `compare` would report, a row per table, rows and seed.

    The best method of each family is selected by its inner scores among all learners.
    The columns ``over_independent`` and ``over_pooled`` are relative reductions of the
    error, NaN where a table has no such method. As in the effects, a ratio of errors
    beyond a factor of 2 counts as a factor of 2.
    """
    index = ["table", "kind", "rows", "seed"]
    is_method = (lines["test"] == "rows") & (lines["method"] != SELECTED)
    levels = lines["method"].map(LEVEL_IN_COMPARE).fillna(lines["sharing"])
    methods = complete_seeds(lines[is_method].assign(sharing=levels))
    errors = {}
    for level in ("none", "partial", "full"):
        selected = _select(methods[methods["sharing"] == level], level)
        errors[level] = selected.set_index(index)["error"]
    frame = pd.DataFrame(errors).dropna(subset=["none", "partial"])
    gains = pd.DataFrame(index=frame.index)
    for name, level in (("over_independent", "none"), ("over_pooled", "full")):
        ratios = frame["partial"] / frame[level]
        gains[name] = 1 - ratios.clip(1 / MAX_RATIO, MAX_RATIO)
    return gains.reset_index()


def _test_rule(settings: pd.DataFrame, seed: int) -> dict[str, float]:
    """Return how often the kind of table predicts the sign of the effect."""
    is_predicted = settings["kind"].isin(KINDS_THAT_GAIN)
    gains = settings["effect"] > 0
    scores = pd.DataFrame(
        {
            "table": settings["table"],
            "right": (is_predicted == gains).astype(float),
            "right_no": (~gains).astype(float),
        }
    )
    by_table = scores.groupby("table").mean()
    by_table["over_no"] = by_table["right"] - by_table["right_no"]
    rng = np.random.default_rng(seed)
    draws = rng.integers(len(by_table), size=(N_DRAWS, len(by_table)))
    values = {"right_no": float(by_table["right_no"].mean())}
    for name in ("right", "over_no"):
        column = by_table[name].to_numpy()
        low, high = np.quantile(column[draws].mean(axis=1), [0.025, 0.975])
        values[name] = float(column.mean())
        values[f"{name}_low"] = float(low)
        values[f"{name}_high"] = float(high)
    return values


# ---------------------------------------------------------------- cost


COST_COLUMNS = [
    "learner",
    "method",
    "sharing",
    "seconds over reference",
    "effect",
    "low",
    "high",
    "tables",
    "on the front",
]


COST_QUANTITIES = {
    "methods": "methods",
    "on_front": "methods that no other one beats in both error and seconds",
    "front_sharing": "those of them with partial sharing",
}


@analysis(COST_QUANTITIES, name="atlas-cost", needs_data=False)
def cost(
    _: None,
    *,
    seed: int,
    published: str = PAIRS,
    kinds: Sequence[str] = (),
    reference: str = "IndependentRidge",
) -> AnalysisResult:
    """Compare the methods by their errors and processor seconds.

    Both are relative to a reference method, over the settings that a method has in
    common with it, and averaged over tables.

    Parameters
    ----------
    seed : int
        Without effect.
    published : str
        File of the lines, relative to the folder of the experiments.
    kinds : sequence of str, default all
        Kinds of tables.
    reference : str, default "IndependentRidge"
        Method that the others are compared to.
    """
    lines = read_pairs(published, kinds, KEYS)
    lines = lines[(lines["test"] == "rows") & (lines["method"] != SELECTED)]
    base = lines[lines["method"] == reference]
    if base.empty:
        return nothing_computed(COST_QUANTITIES, published)
    # The reference is a point of the figure, too.
    compared: list[dict[str, Any]] = [
        {
            "learner": base["learner"].iloc[0],
            "method": reference,
            "sharing": base["sharing"].iloc[0],
            "seconds over reference": 1.0,
            "effect": 0.0,
            "low": math.nan,
            "high": math.nan,
            "tables": float(base["table"].nunique()),
        }
    ]
    for (learner, method, level), part in lines.groupby(
        ["learner", "method", "sharing"], sort=False
    ):
        if method == reference:
            continue
        effects = effects_of(pd.concat([part, base]), method, reference)
        if effects.empty:
            continue
        settings = over_seeds(effects)
        interval = effect_interval(settings)
        log_cost = settings.groupby("table")["cost"].mean().mean()
        compared.append(
            {
                "learner": learner,
                "method": method,
                "sharing": level,
                "seconds over reference": float(np.exp(log_cost)),
                "effect": interval.mean,
                "low": interval.low,
                "high": interval.high,
                "tables": float(settings["table"].nunique()),
            }
        )
    # More error is a smaller effect: lower is better on both axes.
    points = [(line["seconds over reference"], -line["effect"]) for line in compared]
    front = pareto_front(points)
    rows = []
    n_front_sharing = 0
    for index, line in enumerate(compared):
        line["on the front"] = "yes" if index in front else "no"
        rows.append([_cell(line[column]) for column in COST_COLUMNS])
        if index in front and line["sharing"] == "partial":
            n_front_sharing += 1
    values = {
        "methods": float(len(compared)),
        "on_front": float(len(front)),
        "front_sharing": float(n_front_sharing),
    }
    table = {"columns": COST_COLUMNS, "rows": rows}
    return AnalysisResult(values, tables={"Cost and gain": table})


def _cell(value: str | float) -> str | float | None:
    """Return a cell of a table: text as it is, numbers rounded."""
    if isinstance(value, str):
        return value
    return _rounded(value)


def pareto_front(points: Sequence[tuple[float, float]]) -> set[int]:
    """Return the indices of points that no other point beats in both coordinates.

    Lower is better. Points with an undefined coordinate are never on the front.
    """

    def is_beaten(point: tuple[float, float]) -> bool:
        return any(
            other[0] <= point[0] and other[1] <= point[1] and other != point
            for other in points
        )

    front = set()
    for index, (x, y) in enumerate(points):
        is_defined = not math.isnan(x) and not math.isnan(y)
        if is_defined and not is_beaten((x, y)):
            front.add(index)
    return front


# ---------------------------------------------------------------- verdicts of compare


CALIBRATION_QUANTITIES = {
    "verdicts": "verdicts that multi-task learning helps",
    "hold": "share of them after which the mean gain over the other seeds is above 0",
    "hold_low": "lower end of its 95% interval, tables drawn anew",
    "hold_high": "upper end of its 95% interval",
    "useful": "share of them after which that mean gain is at least 1%",
    "covered": "share of all verdicts whose bounds hold that mean gain",
    "tables": "tables with such a verdict",
    "all_verdicts": "all verdicts",
}


@analysis(
    CALIBRATION_QUANTITIES,
    name="atlas-calibration",
    higher=["hold", "useful", "covered"],
    changes=["the interval of a share of 0 or 1 is exact"],
    needs_data=False,
)
def calibration(
    _: None,
    *,
    seed: int,
    published: str = VERDICTS,
    kinds: Sequence[str] = (),
) -> AnalysisResult:
    """Compare the verdicts of `compare` to the other seeds of the same table.

    A verdict holds if the mean of the gains of the other seeds is above 0.

    Parameters
    ----------
    seed : int
        Seed of the draws of tables.
    published : str
        File of the verdicts, relative to the folder of the experiments.
    kinds : sequence of str, default all
        Kinds of tables.
    """
    lines = read_pairs(published, kinds, VERDICT_KEYS)
    if lines.empty:
        return nothing_computed(CALIBRATION_QUANTITIES, published)
    groups = lines.groupby(["table", "rows"])["gain"]
    n_seeds = groups.transform("size")
    others_sum = groups.transform("sum") - lines["gain"]
    lines = lines.assign(other=others_sum / (n_seeds - 1))
    lines = lines[n_seeds > 1]
    is_covered = lines["other"].between(lines["low"], lines["high"])
    helps = lines[lines["decision"] == HELPS]
    values = {
        "verdicts": float(len(helps)),
        "tables": float(helps["table"].nunique()),
        "all_verdicts": float(len(lines)),
        "covered": float(is_covered.mean()) if len(lines) else math.nan,
        "hold": math.nan,
        # Shares of too few tables have no interval.
        "hold_low": math.nan,
        "hold_high": math.nan,
        "useful": math.nan,
    }
    if len(helps):
        values["hold"] = float((helps["other"] > 0).mean())
        values["useful"] = float((helps["other"] >= REGION).mean())
    if helps["table"].nunique() >= MIN_TABLES:
        low, high = _share_interval(helps, seed)
        values["hold_low"] = low
        values["hold_high"] = high
    counts = lines.groupby(["kind", "decision"], sort=False).size()
    rows = [[kind, decision, int(count)] for (kind, decision), count in counts.items()]
    table = {"columns": ["kind", "verdict", "times"], "rows": rows}
    return AnalysisResult(values, tables={"Verdicts": table})


def _share_interval(lines: pd.DataFrame, seed: int) -> tuple[float, float]:
    """Return the interval of the share that holds, with the tables drawn anew.

    If all of them hold, or none, every draw is equal. Then it is the exact interval for
    tables of which all hold, or none.
    """
    holds = (lines["other"] > 0).astype(float)
    by_table = holds.groupby(lines["table"])
    if holds.nunique() == 1:
        margin = 0.025 ** (1 / by_table.ngroups)
        if holds.iloc[0] > 0:
            return margin, 1.0
        return 0.0, 1 - margin
    sums = by_table.sum().to_numpy()
    counts = by_table.size().to_numpy()
    rng = np.random.default_rng(seed)
    draws = rng.integers(len(sums), size=(N_DRAWS, len(sums)))
    shares = sums[draws].sum(axis=1) / counts[draws].sum(axis=1)
    low, high = np.quantile(shares, [0.025, 0.975])
    return float(low), float(high)
