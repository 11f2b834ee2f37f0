"""Gains of the atlas: by kind of table and rows, by method, and their prediction.

The analyses read csv files that ``scripts/atlas_tables.py`` makes of the run of
``atlas/gain``. ``gains.csv`` has a line per table, number of training rows and seed;
``methods.csv`` has a line per table, number of rows and method. A setting is a table at
one number of training rows per task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mtlrun.catalog.analysis import (
    AnalysisResult,
    Curve,
    Matrix,
    analysis,
)
from mtlrun.comparison.differences import GAINS, read_lines
from mtlrun.errors import ConfigError
from mtlrun.papers.atlas.pairs import SMALLEST_ERROR
from mtlrun.papers.atlas.sharing import count_by_region, signed_rank
from mtlrun.stats import holm, rank_table

Array = np.ndarray[Any, np.dtype[Any]]

#: Gains of all methods, relative to the folder of the experiments.
METHODS = "atlas/methods.csv"
#: Columns of `GAINS` that are text.
TEXT_COLUMNS = ("table", "kind")
#: Kinds of tables: simulated, tasks with rows of their own, several targets on the same
#: rows, several labels on the same rows.
KINDS = ("simulated", "groups", "targets", "labels")
#: Numbers of training rows per task that are called few, some and many, as (first,
#: last).
REGIMES = {"few": (5, 10), "some": (20, 50), "many": (100, 200)}
#: Label of the ranking over all numbers of rows.
ALL = "all"
#: Methods are ranked if there are this many tables.
MIN_RANKED_TABLES = 5
#: Level of the tests of methods, after Holm's adjustment.
LEVEL = 0.05
#: Methods are ranked if this share of the settings has them.
MIN_SETTINGS_SHARE = 0.9
#: Properties of a table that predict the gain.
PROPERTIES = ("rows_per_task", "tasks", "features", "tasks_share", "noise", "rank")
#: Properties that enter as logarithms.
LOGARITHMIC = ("rows_per_task", "tasks", "features")
#: Larger gains and losses count as this, since a relative error has no upper bound.
MAX_GAIN = 0.5
#: Strength of the ridge regression on standardized properties, as a number of settings.
RIDGE_STRENGTH = 5.0
#: Draws of tables for intervals.
N_DRAWS = 1000
#: Ends of a 95% interval.
_INTERVAL = [0.025, 0.975]


def read_gains(name: str = GAINS, seed: int | None = None) -> pd.DataFrame:
    """Return the gains, a row per setting.

    Parameters
    ----------
    name : str
        File, relative to the folder of the experiments.
    seed : int, optional
        Seed of the gains, counted from 0. Default: means over the seeds.

    Raises
    ------
    ConfigError
        If there is no such file or seed.
    """
    frame = _read_frame(name, TEXT_COLUMNS)
    if seed is not None:
        frame = frame[frame["seed"] == seed]
    if frame.empty:
        raise ConfigError(f"{name}: no gains of seed {seed}", "Seeds count from 0.")
    return frame.groupby(["table", "kind", "rows"], sort=False).mean().reset_index()


def _read_frame(name: str, text_columns: Sequence[str]) -> pd.DataFrame:
    """Return the lines of a file; columns that are no text become numbers."""
    lines, _ = read_lines(name)
    frame = pd.DataFrame(lines)
    for column in frame.columns.difference(list(text_columns)):
        frame[column] = pd.to_numeric(frame[column])
    return frame


def _of_kinds(frame: pd.DataFrame, kinds: Sequence[str], name: str) -> pd.DataFrame:
    """Return the lines of some kinds of tables."""
    lines = frame[frame["kind"].isin(kinds)]
    if lines.empty:
        raise ConfigError(
            f"{name}: no tables of kind {' or '.join(kinds)}",
            f"Kinds are {', '.join(KINDS)}.",
        )
    return lines


# ------------------------------------------ by kind of table and number of rows


@analysis(
    {
        "tables": "tables",
        "settings": "tables at some number of training rows per task",
        "gained": "share of the settings with less error by multi-task learning than "
        "by the best method without",
        "clearly": "share of the settings whose interval lies above 0",
        "clearly_not": "share of the settings whose interval lies below 0",
        "median": "median gain",
        "few": "median gain with 5 or 10 rows per task",
        "some": "median gain with 20 or 50 rows per task",
        "many": "median gain with 100 or 200 rows per task",
        "few_linear": "median gain over the best linear method that does not share, 5 "
        "or 10 rows",
        "some_linear": "the same with 20 or 50 rows",
        "many_linear": "the same with 100 or 200 rows",
        "few_alone": "median gain over the best independent method, 5 or 10 rows",
        "some_alone": "the same with 20 or 50 rows",
        "many_alone": "the same with 100 or 200 rows",
        "seeds": "correlation of the gains of the first two seeds, by ranks",
        "same_sign": "share of the settings whose gain has the same sign under the "
        "first two seeds",
    },
    name="atlas-summary",
    needs_data=False,
)
def summary(
    _: None, *, seed: int, published: str = GAINS, kinds: Sequence[str] = KINDS
) -> AnalysisResult:
    """Summarize the gains of some kinds of tables.

    Parameters
    ----------
    seed : int
        Without effect.
    published : str
        File of the gains, relative to the folder of the experiments.
    kinds : sequence of {"simulated", "groups", "targets", "labels"}, default all

    Returns
    -------
    AnalysisResult
        Has curves over the number of training rows per task.
    """
    settings = _of_kinds(read_gains(published), kinds, published)
    # The gains of the first two seeds in the settings that have both.
    settings_by_seed = _read_frame(published, TEXT_COLUMNS)
    settings_by_seed = settings_by_seed[settings_by_seed["kind"].isin(kinds)]
    gains = settings_by_seed.pivot_table(
        index=["table", "rows"], columns="seed", values="gain"
    )
    gains = gains.reindex(columns=[0, 1]).dropna()
    first = gains[0]
    second = gains[1]
    values = {
        "tables": float(settings["table"].nunique()),
        "settings": float(len(settings)),
        "gained": float((settings["gain"] > 0).mean()),
        "clearly": float((settings["low"] > 0).mean()),
        "clearly_not": float((settings["high"] < 0).mean()),
        "median": float(settings["gain"].median()),
        "seeds": _rank_correlation(first, second),
        "same_sign": float(((first > 0) == (second > 0)).mean()),
    }
    for regime, (low, high) in REGIMES.items():
        part = settings[settings["rows"].between(low, high)]
        values[regime] = float(part["gain"].median())
        values[f"{regime}_linear"] = float(part["over_linear"].median())
        values[f"{regime}_alone"] = float(part["over_independent"].median())
    matrices = {}
    if set(kinds) == set(KINDS):
        by_rows = settings.pivot_table(
            index="table", columns="rows", values="gain", sort=False
        )
        by_rows = by_rows.sort_index(axis=1).rename(columns="{:g}".format)
        matrices = {"gain": _matrix(by_rows)}
    return AnalysisResult(values, curves=_curves(settings), matrices=matrices)


def _curves(settings: pd.DataFrame) -> dict[str, Curve]:
    """Return medians over the tables and the share that gains, by the number of
    rows.
    """
    titles = {
        "gain": "gain over the best without",
        "over_linear": "gain over the best linear without",
        "over_independent": "gain over single-task models",
    }
    curves = {}
    for column, title in titles.items():
        medians = settings.groupby("rows")[column].median()
        curves[title] = _curve_over_rows(medians, "median gain")
    shares = (settings["gain"] > 0).groupby(settings["rows"]).mean()
    curves["tables that gain"] = _curve_over_rows(shares, "share of the tables")
    return curves


def _curve_over_rows(by_rows: pd.Series, label: str) -> Curve:
    rows = [float(number) for number in by_rows.index]
    return Curve(rows, by_rows.tolist(), "training rows per task", label, "x")


def _matrix(gains: pd.DataFrame) -> Matrix:
    """Return a heat map of gains, clipped at `MAX_GAIN`."""
    # Adding 0 turns -0 into 0.
    rounded = gains.clip(-MAX_GAIN, MAX_GAIN).round(3) + 0.0
    return Matrix(
        rounded.to_numpy().tolist(), list(rounded.index), list(rounded.columns), 0.0
    )


# ---------------------------------------------------------------- by method


@analysis(
    {
        "methods": "methods that share",
        "negative": "share of the settings in which a method that shares has more "
        "error than the best independent one",
        "negative_loss": "median loss in these settings",
        "best_negative": "the same share for the method that inner cross-validation "
        "chooses",
        "worst": "largest share of a method",
        "least": "smallest share of a method",
        "rivals": "methods that are compared with the one that ranks first, over all "
        "numbers of rows per task",
        "separated": "those of them from which signed ranks with Holm's adjustment "
        "separate it",
    },
    name="atlas-methods",
    lower=["negative", "best_negative"],
    needs_data=False,
    changes=[
        "methods are ranked by regime, tables are the blocks, and the ranks are drawn",
        "signed ranks with Holm's adjustment replace Nemenyi's test of average ranks, "
        "whose outcome for two methods depends on all others",
    ],
)
def methods(
    _: None,
    *,
    seed: int,
    published: Sequence[str] = (METHODS, GAINS),
    kinds: Sequence[str] = KINDS,
) -> AnalysisResult:
    """Return negative transfer and ranks of the methods.

    Negative transfer is a larger error than the best independent method has, which
    inner cross-validation selects in each fold.

    Parameters
    ----------
    seed : int
        Without effect.
    published : (str, str)
        Files of the methods and of the gains, relative to the folder of the
        experiments.
    kinds : sequence of {"simulated", "groups", "targets", "labels"}, default all

    Returns
    -------
    AnalysisResult
        Has tables by regime, and a heat map of gains.
    """
    methods_file, gains_file = published
    text_columns = (*TEXT_COLUMNS, "method", "family")
    lines = _of_kinds(_read_frame(methods_file, text_columns), kinds, methods_file)
    lines = lines[lines["family"] != "trivial"]
    gains = _of_kinds(read_gains(gains_file), kinds, gains_file)
    multitask = lines[lines["family"] == "multi-task"]
    is_negative = multitask["over_alone"] < 0
    negative_shares = is_negative.groupby(multitask["method"]).mean()
    ranked = {
        regime.label: _signed_ranks(regime) for regime in _errors_by_regime(lines)
    }
    adjusted = [row[-1] for row in ranked[ALL]["rows"][1:]]
    values = {
        "methods": float(multitask["method"].nunique()),
        "negative": float(is_negative.mean()),
        "negative_loss": float(-multitask["over_alone"][is_negative].median()),
        "best_negative": float((gains["over_independent"] < 0).mean()),
        "worst": float(negative_shares.max()),
        "least": float(negative_shares.min()),
        "rivals": float(len(adjusted)),
        "separated": float(sum(pvalue <= LEVEL for pvalue in adjusted)),
    }
    tables = {
        "Negative transfer by method": _negative_table(multitask, negative_shares)
    }
    for label, table in ranked.items():
        if table["rows"]:
            tables[f"Signed ranks, {label} per task"] = table
    if len(set(kinds)) > 1:
        gain_map = _map_by_kind(multitask)
    else:
        medians = multitask.pivot_table(
            index="table",
            columns="method",
            values="over_alone",
            aggfunc="median",
            sort=False,
        )
        gain_map = _matrix(medians)
    return AnalysisResult(
        values, tables=tables, matrices={"gain over single-task models": gain_map}
    )


def _negative_table(
    multitask: pd.DataFrame, negative_shares: pd.Series
) -> dict[str, list[Any]]:
    """Return the share of settings with negative transfer, by method and regime."""
    regime_heads = [f"{regime} rows" for regime in REGIMES]
    heads = ["method", "settings", *regime_heads, "all", "median loss where negative"]
    rows = []
    for method, part in multitask.groupby("method", sort=False):
        over_alone = part["over_alone"]
        row: list[Any] = [method, len(part)]
        for low, high in REGIMES.values():
            share = (over_alone[part["rows"].between(low, high)] < 0).mean()
            row.append(_rounded(float(share), 3))
        row.append(round(negative_shares[method], 3))
        losses = over_alone[over_alone < 0]
        median_loss = round(float(-losses.median()), 4) if len(losses) else None
        row.append(median_loss)
        rows.append(row)
    return {"columns": heads, "rows": rows}


def _rounded(value: float, digits: int) -> float | None:
    """Return a rounded number for a table; None for NaN."""
    return None if math.isnan(value) else round(value, digits)


@dataclass(frozen=True)
class RegimeErrors:
    """Errors of the methods that nine of ten settings of a regime have.

    Attributes
    ----------
    label : str
        Numbers of rows.
    log_errors : DataFrame
        Tables by methods, means over the settings of a table.
    average_ranks : Series
        By method, 1 is best: means over the settings of a table, then over the tables.
    """

    label: str
    log_errors: pd.DataFrame
    average_ranks: pd.Series


def _errors_by_regime(lines: pd.DataFrame) -> list[RegimeErrors]:
    """Return the errors of the methods over all settings and by regime.

    Logistic regression counts as ridge regression, whose role it has where labels are
    predicted.
    """
    named = lines.assign(method=lines["method"].str.replace("Logistic", "Ridge"))
    errors = named.pivot_table(
        index=["table", "rows"], columns="method", values="error", sort=False
    )
    n_rows = errors.index.get_level_values("rows")
    regimes = [_regime_errors(ALL, errors)]
    for first, last in REGIMES.values():
        part = errors[(n_rows >= first) & (n_rows <= last)]
        regimes.append(_regime_errors(f"{first} or {last} rows", part))
    return regimes


def _regime_errors(label: str, errors: pd.DataFrame) -> RegimeErrors:
    """Return the errors of the methods of one regime.

    Methods that less than nine of ten settings have are left out, then settings without
    one of the others.

    Parameters
    ----------
    label : str
    errors : DataFrame
        Settings by methods; NaN where a setting does not have a method.
    """
    min_settings = math.ceil(MIN_SETTINGS_SHARE * len(errors))
    errors = errors.dropna(axis=1, thresh=min_settings).dropna()
    ranks = pd.DataFrame(
        rank_table(errors, greater_is_better=False),
        index=errors.index,
        columns=errors.columns,
    )
    average_ranks = ranks.groupby(level="table", sort=False).mean().mean()
    log_errors = np.log(errors.clip(lower=SMALLEST_ERROR))
    return RegimeErrors(
        label,
        log_errors.groupby(level="table", sort=False).mean(),
        average_ranks.sort_values(kind="stable"),
    )


def _signed_ranks(regime: RegimeErrors) -> dict[str, Any]:
    """Compare the method that ranks first with all others, table by table.

    The first row is that method. There are no rows if there are too few tables.
    """
    heads = ["method", "average rank", "effect", "better", "same", "worse", "p", "Holm"]
    rows: list[list[Any]] = []
    if len(regime.log_errors) < MIN_RANKED_TABLES or len(regime.average_ranks) < 2:
        return {"columns": heads, "rows": rows}
    first, *others = regime.average_ranks.index
    pvalues = []
    for method in others:
        effects = regime.log_errors[method] - regime.log_errors[first]
        pvalues.append(signed_rank(effects))
        rows.append(
            [
                method,
                round(float(regime.average_ranks[method]), 2),
                round(float(effects.mean()), 4),
                *map(int, count_by_region(effects).values()),
                float(f"{pvalues[-1]:.3g}"),
            ]
        )
    for row, adjusted in zip(rows, holm(pvalues), strict=True):
        row.append(float(f"{adjusted:.3g}"))
    rank_of_first = round(float(regime.average_ranks[first]), 2)
    best = [first, rank_of_first, None, None, None, None, None, None]
    return {"columns": heads, "rows": [best, *rows]}


def _map_by_kind(multitask: pd.DataFrame) -> Matrix:
    """Return medians of the gains over the tables, by method, kind and regime."""
    methods = list(multitask["method"].unique())
    columns = {}
    for kind in KINDS:
        for regime, (low, high) in REGIMES.items():
            is_in_regime = multitask["rows"].between(low, high)
            part = multitask[(multitask["kind"] == kind) & is_in_regime]
            if len(part):
                medians = part.groupby("method")["over_alone"].median()
                columns[f"{kind}, {regime}"] = medians.reindex(methods)
    return _matrix(pd.DataFrame(columns))


# --------------------------------------------------------------- prediction of the gain


@analysis(
    {
        "rank_correlation": "Spearman's correlation of predicted and measured gains of "
        "tables left out",
        "correlation_low": "lower end of its 95% interval, tables drawn anew",
        "correlation_high": "upper end of its 95% interval",
        "sign_right": "share of the settings in which the sign is predicted right",
        "sign_low": "lower end of its 95% interval, tables drawn anew",
        "sign_high": "upper end of its 95% interval",
        "sign_no": "share of the settings in which always saying no is right",
        "sign_over_no": "the difference of the two",
        "over_no_low": "lower end of its 95% interval, tables drawn anew",
        "over_no_high": "upper end of its 95% interval",
        "explained": "share of the variance of the gains that is predicted",
        "settings": "settings that are predicted",
        "tables": "tables that are left out in turn",
    },
    name="atlas-prediction",
    higher=["rank_correlation", "sign_right", "sign_over_no", "explained"],
    needs_data=False,
    changes=["the share of right signs has an interval of its difference, too"],
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
    """Predict the gain of tables from properties that are measured in advance.

    A ridge regression is scored on tables that are left out: all settings of a table
    together. Properties are standardized, gains clipped at +-0.5.

    Parameters
    ----------
    seed : int
        Seed of the draws of tables.
    published : str
        File of the gains, relative to the folder of the experiments.
    outcome : {"gain", "over_linear", "over_independent"}, default "gain"
    of_seed : int, optional
        Seed of the gains. Default: their means over the seeds.
    real : bool, default False
        Whether only real tables are scored. The regression learns from simulated ones
        in any case.

    Returns
    -------
    AnalysisResult
        Has the coefficients of the regression.
    """
    gains = read_gains(published, of_seed)
    settings = gains.dropna(subset=[outcome, *PROPERTIES])
    X = design(settings)
    y = _clipped(settings, outcome)
    tables = settings["table"].to_numpy()
    predicted = np.empty(len(y))
    for table in np.unique(tables):
        is_left_out = tables == table
        predict = _fit_ridge(X[~is_left_out], y[~is_left_out])
        predicted[is_left_out] = predict(X[is_left_out])
    if real:
        is_scored = (settings["kind"] != "simulated").to_numpy()
        y = y[is_scored]
        predicted = predicted[is_scored]
        tables = tables[is_scored]
    is_right = (predicted > 0) == (y > 0)
    rng = np.random.default_rng(seed)
    # Tables are drawn with replacement; a draw is the rows of their settings.
    names = np.unique(tables)
    rows_by_table = {name: np.flatnonzero(tables == name) for name in names}
    draws: list[Array] = []
    while len(draws) < N_DRAWS:
        drawn = rng.choice(names, len(names))
        draws.append(np.concatenate([rows_by_table[name] for name in drawn]))
    correlations = [_rank_correlation(predicted[rows], y[rows]) for rows in draws]
    correlation_low, correlation_high = np.nanquantile(correlations, _INTERVAL).tolist()
    shares_right = [is_right[rows].mean() for rows in draws]
    sign_low, sign_high = np.quantile(shares_right, _INTERVAL).tolist()
    over_no = is_right.astype(float) - (y <= 0)
    differences = [over_no[rows].mean() for rows in draws]
    over_no_low, over_no_high = np.quantile(differences, _INTERVAL).tolist()
    unexplained = np.sum((y - predicted) ** 2) / np.sum((y - y.mean()) ** 2)
    values = {
        "rank_correlation": _rank_correlation(predicted, y),
        "correlation_low": correlation_low,
        "correlation_high": correlation_high,
        "sign_right": float(is_right.mean()),
        "sign_low": sign_low,
        "sign_high": sign_high,
        "sign_no": float((y <= 0).mean()),
        "sign_over_no": float(over_no.mean()),
        "over_no_low": over_no_low,
        "over_no_high": over_no_high,
        "explained": float(1 - unexplained),
        "settings": float(len(y)),
        "tables": float(len(names)),
    }
    coefficients = _coefficient_table(settings, outcome, rng)
    return AnalysisResult(values, tables={"Coefficients": coefficients})


def design(settings: pd.DataFrame) -> Array:
    """Return the properties of settings as columns, in the order of `PROPERTIES`."""
    columns = []
    for name in PROPERTIES:
        column = settings[name]
        columns.append(np.log(column) if name in LOGARITHMIC else column)
    return np.column_stack(columns).astype(float)


def _clipped(settings: pd.DataFrame, outcome: str) -> Array:
    """Return the gains of settings, clipped at `MAX_GAIN`."""
    return np.asarray(settings[outcome].clip(-MAX_GAIN, MAX_GAIN).to_numpy())


def _fit_ridge(X: Array, y: Array) -> Callable[[Array], Array]:
    """Fit a ridge regression on standardized columns; return its predictions."""
    model = make_pipeline(StandardScaler(), Ridge(RIDGE_STRENGTH)).fit(X, y)

    def predict(X_new: Array) -> Array:
        return np.asarray(model.predict(X_new))

    return predict


def _coefficient_table(
    settings: pd.DataFrame, outcome: str, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the change of the gain per standard deviation of each property.

    The intervals come from tables drawn with replacement.
    """
    X = design(settings)
    center = X.mean(axis=0)
    # One standard deviation from the center along each property.
    steps = center + np.diag(X.std(axis=0))

    def changes(part: pd.DataFrame) -> Array:
        predict = _fit_ridge(design(part), _clipped(part, outcome))
        return predict(steps) - predict(center[np.newaxis])

    by_table = dict(list(settings.groupby("table")))
    names = list(by_table)
    draws = []
    for _ in range(N_DRAWS // 5):
        drawn = rng.choice(names, len(names))
        draws.append(pd.concat([by_table[name] for name in drawn]))
    changes_drawn = [changes(part) for part in draws]
    low, high = np.quantile(changes_drawn, _INTERVAL, axis=0)
    rows = []
    for name, *numbers in zip(PROPERTIES, changes(settings), low, high, strict=True):
        rows.append([name, *[round(float(number), 4) for number in numbers]])
    heads = ["property", "change of the gain per standard deviation", "low", "high"]
    return {"columns": heads, "rows": rows}


def _rank_correlation(a: Array | pd.Series, b: Array | pd.Series) -> float:
    """Return Spearman's correlation of the pairs without NaN.

    NaN for fewer than three pairs, or if one side is constant.
    """
    pairs = pd.DataFrame({"a": np.asarray(a), "b": np.asarray(b)}).dropna()
    if len(pairs) < 3 or pairs.nunique().min() < 2:
        return math.nan
    return float(spearmanr(pairs["a"], pairs["b"]).statistic)
