"""What the gains of the atlas say: by kind of table and rows, by method, and whether they could have been foretold.

The measures read csv files that ``scripts/atlas_tables.py`` makes of the run of ``atlas/gain``: ``gains.csv`` with a
line per table, number of training rows and seed, ``methods.csv`` with a line per table, number of rows and method.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mtlrun.comparison.atlas import GAINS, read_lines
from mtlrun.engine.analysis import (
    AnalysisResult,
    Curve,
    Matrix,
    MethodScores,
    analysis,
)
from mtlrun.errors import ConfigError
from mtlrun.stats import critical_difference, rank_table

Array = np.ndarray[Any, np.dtype[Any]]

#: Gains of all methods.
METHODS = "atlas/methods.csv"
#: Columns of `GAINS` that are text.
TEXT = ("table", "kind")
#: Kinds of tables: what is simulated, tasks with rows of their own, several targets or labels on the same rows.
KINDS = ("simulated", "groups", "targets", "labels")
#: Numbers of training rows per task that are called few, some and many, as (first, last).
REGIMES = {"few": (5, 10), "some": (20, 50), "many": (100, 200)}
ALL = "all"
#: Methods are ranked where that many tables have them, and compared if that part of the settings has them.
FEWEST_TABLES, PART = 5, 0.9
#: Properties of a table that predict the gain; the first three enter as logarithms.
PROPERTIES = ("rows_per_task", "tasks", "features", "tasks_share", "noise", "rank")
LOGARITHMS = PROPERTIES[:3]
#: Gains beyond these are counted as these: a relative error has no lower end.
LARGEST = 0.5
#: Strength of the ridge regression, of standardized properties, in numbers of settings.
STRENGTH = 5.0
DRAWS = 1000


def read_gains(name: str = GAINS, seed: int | None = None) -> pd.DataFrame:
    """Return the gains with a row per table and number of rows: of one seed (0, 1 ...), or the means over the seeds."""
    frame = _frame(name, TEXT)
    if seed is not None:
        frame = frame[frame["seed"] == seed]
    if frame.empty:
        raise ConfigError(f"{name}: no gains of seed {seed}", "Seeds count from 0.")
    return frame.groupby(["table", "kind", "rows"], sort=False).mean().reset_index()


def _frame(name: str, text: Sequence[str]) -> pd.DataFrame:
    frame = pd.DataFrame(read_lines(name)[0])
    return frame.apply(
        lambda column: column if column.name in text else pd.to_numeric(column)
    )


def _of_kinds(frame: pd.DataFrame, kinds: Sequence[str], name: str) -> pd.DataFrame:
    found = frame[frame["kind"].isin(kinds)]
    if found.empty:
        raise ConfigError(
            f"{name}: no tables of kind {' or '.join(kinds)}",
            f"Kinds are {', '.join(KINDS)}.",
        )
    return found


# ---------------------------------------------------------------- by kind of table and number of rows


@analysis(
    {
        "tables": "tables",
        "settings": "tables at some number of training rows per task",
        "gained": "share of the settings with less error by multi-task learning than by the best method without",
        "clearly": "share of the settings whose interval lies above 0",
        "clearly_not": "share of the settings whose interval lies below 0",
        "median": "median gain",
        "few": "median gain with 5 or 10 rows per task",
        "some": "median gain with 20 or 50 rows per task",
        "many": "median gain with 100 or 200 rows per task",
        "few_linear": "median gain over the best linear method that does not share, 5 or 10 rows",
        "some_linear": "the same with 20 or 50 rows",
        "many_linear": "the same with 100 or 200 rows",
        "few_alone": "median gain over the best independent method, 5 or 10 rows",
        "some_alone": "the same with 20 or 50 rows",
        "many_alone": "the same with 100 or 200 rows",
        "seeds": "correlation of the gains of the first two seeds, by ranks",
        "same_sign": "share of the settings whose gain has the same sign under the first two seeds",
    },
    needs_data=False,
)
def summary(
    _: None, *, seed: int, published: str = GAINS, kinds: Sequence[str] = KINDS
) -> AnalysisResult:
    """Summarize the gains of some kinds of tables, by the number of training rows per task.

    Parameters
    ----------
    published : str
        File of the gains, below the folder of the experiments.
    kinds : sequence of {"simulated", "groups", "targets", "labels"}
    """
    found = _of_kinds(read_gains(published), kinds, published)
    first, second = _two_seeds(published, kinds)
    values = {
        "tables": float(found["table"].nunique()),
        "settings": float(len(found)),
        "gained": float((found["gain"] > 0).mean()),
        "clearly": float((found["low"] > 0).mean()),
        "clearly_not": float((found["high"] < 0).mean()),
        "median": float(found["gain"].median()),
        "seeds": _correlation(first, second),
        "same_sign": float(((first > 0) == (second > 0)).mean()),
    }
    for name, (low, high) in REGIMES.items():
        part = found[found["rows"].between(low, high)]
        columns = {"": "gain", "_linear": "over_linear", "_alone": "over_independent"}
        values |= {
            name + end: float(part[column].median()) for end, column in columns.items()
        }
    everything = set(kinds) == set(KINDS)
    return AnalysisResult(
        values,
        curves=_curves(found),
        matrices={"gain": _map(found)} if everything else {},
    )


def _two_seeds(published: str, kinds: Sequence[str]) -> tuple[pd.Series, pd.Series]:
    """Return the gains of the first two seeds in the settings that have both."""
    found = _frame(published, TEXT)
    wide = found[found["kind"].isin(kinds)].pivot_table(
        index=["table", "rows"], columns="seed", values="gain"
    )
    both = wide.reindex(columns=[0, 1]).dropna()
    return both[0], both[1]


def _curves(found: pd.DataFrame) -> dict[str, Curve]:
    """Return medians over the tables, and how many of them gain, by the number of rows."""
    titles = {
        "gain": "gain over the best without",
        "over_linear": "gain over the best linear without",
        "over_independent": "gain over single-task models",
    }
    curves = {}
    for column, title in titles.items():
        by = found.groupby("rows")[column].median()
        curves[title] = Curve(
            [float(x) for x in by.index],
            by.tolist(),
            "training rows per task",
            "median gain",
            "x",
        )
    by = (found["gain"] > 0).groupby(found["rows"]).mean()
    x = [float(rows) for rows in by.index]
    return curves | {
        "tables that gain": Curve(
            x, by.tolist(), "training rows per task", "share of the tables", "x"
        )
    }


def _map(found: pd.DataFrame) -> Matrix:
    """Return the gains of all tables as a heat map, cut at `LARGEST`."""
    wide = found.pivot_table(
        index="table", columns="rows", values="gain", sort=False
    ).sort_index(axis=1)
    return _matrix(wide.rename(columns="{:g}".format))


def _matrix(gains: pd.DataFrame) -> Matrix:
    gains = gains.clip(-LARGEST, LARGEST).round(3) + 0.0  # no -0
    return Matrix(
        gains.to_numpy().tolist(), list(gains.index), list(gains.columns), 0.0
    )


# ---------------------------------------------------------------- by method


@analysis(
    {
        "methods": "methods that share",
        "negative": "share of the settings in which a method that shares has more error than the best independent one",
        "negative_loss": "median loss in these settings",
        "best_negative": "the same share for the method that inner cross-validation chooses",
        "worst": "largest share of a method",
        "least": "smallest share of a method",
        "difference": "difference of average ranks that Nemenyi's test calls different",
    },
    lower=["negative", "best_negative"],
    needs_data=False,
    changes=[
        "methods are ranked by regime, tables are the blocks, and the ranks are drawn"
    ],
)
def methods(
    _: None,
    *,
    seed: int,
    published: Sequence[str] = (METHODS, GAINS),
    kinds: Sequence[str] = KINDS,
) -> AnalysisResult:
    """Return negative transfer and average ranks of the methods, by regime and by kind of table.

    Negative transfer is a larger error than that of the best independent method, which inner cross-validation chooses
    in every fold.

    Parameters
    ----------
    published : (str, str)
        Files of the methods and of the gains, below the folder of the experiments.
    kinds : sequence of {"simulated", "groups", "targets", "labels"}
    """
    found = _of_kinds(
        _frame(published[0], (*TEXT, "method", "family")), kinds, published[0]
    )
    found = found[found["family"] != "trivial"]
    gains = _of_kinds(read_gains(published[1]), kinds, published[1])
    sharing = found[found["family"] == "multi-task"]
    negative = sharing["over_alone"] < 0
    by_method = negative.groupby(sharing["method"]).mean()
    every, *regimes = _rankings(found)
    difference = (
        critical_difference(len(every.methods), len(every.blocks))
        if every.blocks
        else math.nan
    )
    rows = []
    for name, part in sharing.groupby("method", sort=False):
        lost = part["over_alone"][part["over_alone"] < 0]
        middle = float(-lost.median()) if len(lost) else None
        share = [
            float((part["over_alone"][part["rows"].between(*ends)] < 0).mean())
            for ends in REGIMES.values()
        ]
        numbers = [
            len(part),
            *(None if math.isnan(v) else round(v, 3) for v in share),
            round(by_method[name], 3),
        ]
        rows.append([name, *numbers, None if middle is None else round(middle, 4)])
    columns = [
        "method",
        "settings",
        *(f"{name} rows" for name in REGIMES),
        "all",
        "median loss where negative",
    ]
    values = {
        "methods": float(sharing["method"].nunique()),
        "negative": float(negative.mean()),
        "negative_loss": float(-sharing["over_alone"][negative].median()),
        "best_negative": float((gains["over_independent"] < 0).mean()),
        "worst": float(by_method.max()),
        "least": float(by_method.min()),
        "difference": difference,
    }
    tables = {
        "Negative transfer by method": {"columns": columns, "rows": rows},
        "Average ranks": _ranks([every, *regimes]),
    }
    shown = _method_map(sharing) if len(set(kinds)) > 1 else _table_map(sharing)
    matrices = {"gain over single-task models": shown}
    drawn = [
        replace(r, label=f"{r.label} per task: {len(r.blocks)} tables")
        for r in regimes
        if r.blocks
    ]
    return AnalysisResult(values, tables=tables, matrices=matrices, rankings=drawn)


def _rankings(found: pd.DataFrame) -> list[MethodScores]:
    """Return the ranks of the methods within tables, means over their settings: of all settings, then by regime.

    Left out are methods that less than nine of ten settings have, then settings without all others. Logistic regression
    counts as ridge regression, whose place it takes where labels are predicted. With few tables there are no ranks.
    """
    named = found.assign(method=found["method"].str.replace("Logistic", "Ridge"))
    wide = named.pivot_table(
        index=["table", "rows"], columns="method", values="error", sort=False
    )
    rows = wide.index.get_level_values("rows")
    rankings = []
    for name, (low, high) in {
        ALL: (0, math.inf),
        **{f"{a} or {b} rows": (a, b) for a, b in REGIMES.values()},
    }.items():
        part = wide[(rows >= low) & (rows <= high)]
        part = part.dropna(axis=1, thresh=math.ceil(PART * len(part))).dropna()
        ranks = pd.DataFrame(
            rank_table(part, greater_is_better=False),
            index=part.index,
            columns=part.columns,
        )
        mean = ranks.groupby(level="table", sort=False).mean()
        if len(mean) < FEWEST_TABLES:
            mean = mean.iloc[:0]
        values = mean.to_numpy().tolist()
        rankings.append(
            MethodScores(
                name, values, list(mean.index), list(mean.columns), "rank of the error"
            )
        )
    return rankings


def _ranks(rankings: Sequence[MethodScores]) -> dict[str, Any]:
    """Return a table of average ranks."""
    columns = {
        scores.label: pd.Series(
            rank_table(scores.values, greater_is_better=False).mean(axis=0),
            index=scores.methods,
        )
        for scores in rankings
        if scores.blocks
    }
    frame = (
        pd.DataFrame(columns).sort_values(list(columns), kind="stable")
        if columns
        else pd.DataFrame()
    )
    rows = [
        [name, *(None if math.isnan(value) else round(value, 2) for value in row)]
        for name, row in zip(frame.index, frame.to_numpy(), strict=True)
    ]
    return {"columns": ["method", *columns], "rows": rows}


def _table_map(sharing: pd.DataFrame) -> Matrix:
    """Return medians over the numbers of rows, by table and method."""
    return _matrix(
        sharing.pivot_table(
            index="table",
            columns="method",
            values="over_alone",
            aggfunc="median",
            sort=False,
        )
    )


def _method_map(sharing: pd.DataFrame) -> Matrix:
    """Return medians over the tables, by method and kind of table and regime."""
    columns, names = {}, list(sharing["method"].unique())
    for kind in KINDS:
        for regime, ends in REGIMES.items():
            part = sharing[(sharing["kind"] == kind) & sharing["rows"].between(*ends)]
            if len(part):
                columns[f"{kind}, {regime}"] = (
                    part.groupby("method")["over_alone"].median().reindex(names)
                )
    return _matrix(pd.DataFrame(columns))


# ---------------------------------------------------------------- foretelling the gain


@analysis(
    {
        "rank_correlation": "Spearman's correlation of foretold and measured gains of tables left out",
        "correlation_low": "lower end of its 95% interval, tables drawn anew",
        "correlation_high": "upper end of its 95% interval",
        "sign_right": "share of the settings in which the sign is foretold rightly",
        "sign_low": "lower end of its 95% interval, tables drawn anew",
        "sign_high": "upper end of its 95% interval",
        "sign_no": "share of the settings in which always saying no is right",
        "sign_over_no": "the difference of the two",
        "explained": "share of the variance of the gains that is foretold",
        "settings": "settings that are foretold",
        "tables": "tables that are left out in turn",
    },
    higher=["rank_correlation", "sign_right", "sign_over_no", "explained"],
    needs_data=False,
)
def prediction(
    _: None,
    *,
    seed: int,
    published: str = GAINS,
    outcome: str = "gain",
    of_seed: int | None = None,
    real: bool = False,
) -> AnalysisResult:
    """Foretell the gain from properties measured before: a ridge regression, scored on tables that are left out.

    All settings of a table are left out together. Properties are standardized, gains cut at +-0.5.

    Parameters
    ----------
    published : str
        File of the gains, below the folder of the experiments.
    outcome : {"gain", "over_linear", "over_independent"}
    of_seed : int, optional
        Seed of the gains; default: their means over the seeds.
    real : bool
        Whether only real tables are foretold; simulated ones are learnt from in any case.
    """
    found = read_gains(published, of_seed).dropna(subset=[outcome, *PROPERTIES])
    X, y = design(found), found[outcome].clip(-LARGEST, LARGEST).to_numpy()
    tables = found["table"].to_numpy()
    told = np.empty(len(y))
    for name in np.unique(tables):
        out = tables == name
        told[out] = _ridge(X[~out], y[~out])(X[out])
    scored = (
        (found["kind"] != "simulated").to_numpy()
        if real
        else np.ones(len(y), dtype=bool)
    )
    y, told, tables = y[scored], told[scored], tables[scored]
    right = (told > 0) == (y > 0)
    rng = np.random.default_rng(seed)
    names = np.unique(tables)
    places = {name: np.flatnonzero(tables == name) for name in names}
    draws = [
        np.concatenate([places[n] for n in rng.choice(names, len(names))])
        for _ in range(DRAWS)
    ]
    correlations = np.array([_correlation(told[d], y[d]) for d in draws])
    ends = np.nanquantile(correlations, [0.025, 0.975])
    sign_ends = np.quantile([right[d].mean() for d in draws], [0.025, 0.975])
    values = {
        "rank_correlation": _correlation(told, y),
        **dict(
            zip(("correlation_low", "correlation_high"), ends.tolist(), strict=True)
        ),
        "sign_right": float(right.mean()),
        **dict(zip(("sign_low", "sign_high"), sign_ends.tolist(), strict=True)),
        "sign_no": float((y <= 0).mean()),
        "sign_over_no": float(right.mean() - (y <= 0).mean()),
        "explained": float(1 - np.sum((y - told) ** 2) / np.sum((y - y.mean()) ** 2)),
        "settings": float(len(y)),
        "tables": float(len(names)),
    }
    return AnalysisResult(
        values, tables={"Coefficients": _coefficients(found, outcome, rng)}
    )


def design(found: pd.DataFrame) -> Array:
    """Return the properties of settings as columns, in the order of `PROPERTIES`."""
    columns = [
        np.log(found[name]) if name in LOGARITHMS else found[name]
        for name in PROPERTIES
    ]
    return np.column_stack(columns).astype(float)


def _ridge(X: Array, y: Array) -> Any:
    """Return the predictions of a ridge regression on standardized columns, as a function."""
    return make_pipeline(StandardScaler(), Ridge(STRENGTH)).fit(X, y).predict


def _coefficients(
    found: pd.DataFrame, outcome: str, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the change of the gain per standard deviation of a property, with intervals over tables drawn anew."""

    def fitted(part: pd.DataFrame) -> Array:
        X, y = design(part), part[outcome].clip(-LARGEST, LARGEST).to_numpy()
        told = _ridge(X, y)
        return np.asarray(told(steps) - told(middle[np.newaxis]))

    X = design(found)
    middle = X.mean(axis=0)
    steps = middle + np.diag(X.std(axis=0))
    groups = dict(list(found.groupby("table")))
    draws = [
        pd.concat([groups[n] for n in rng.choice(list(groups), len(groups))])
        for _ in range(DRAWS // 5)
    ]
    low, high = np.quantile([fitted(part) for part in draws], [0.025, 0.975], axis=0)
    numbers = zip(PROPERTIES, fitted(found), low, high, strict=True)
    rows = [
        [name, *(round(float(v), 4) for v in (value, a, b))]
        for name, value, a, b in numbers
    ]
    return {
        "columns": [
            "property",
            "change of the gain per standard deviation",
            "low",
            "high",
        ],
        "rows": rows,
    }


def _correlation(a: Array, b: Array) -> float:
    found = pd.DataFrame({"a": np.asarray(a), "b": np.asarray(b)}).dropna()
    if len(found) < 3 or found.nunique().min() < 2:
        return math.nan
    return float(spearmanr(found["a"], found["b"]).statistic)
