"""Draw the pictures of the user guide: ``python scripts/docs_pictures.py FOLDER``.

Real tables are those of examples/. ``docs/pictures`` as the folder stores all pictures
anew.
"""

from __future__ import annotations

import io
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import mtlrun
from mtlrun.estimators import (
    MTRL,
    FusedMTL,
    GraphMTL,
    GraphSVC,
    HierarchicalMTL,
    IndependentRidge,
    JointFeatureMTL,
    JointFeatureMTLCV,
    PooledRidge,
    RobustMTL,
    SmoothIndependent,
    SmoothMTL,
    SmoothPooled,
    SparseMTL,
    TraceNormMTL,
)
from mtlrun.show.palette import (
    BACKGROUND_COLOR,
    COLORS,
    DATA_COLOR,
    STRATEGIES,
    with_dark_colors,
)

#: Pictures are drawn by this many processes: the site must be built quickly on two
#: cores.
N_PROCESSES = 2
N_TASKS = 12
N_FEATURES = 10
RNG = np.random.default_rng
#: Folder of the tables that ship with the repository.
TABLES = Path(__file__).parents[1] / "examples"
#: One color per strategy, in all pictures.
SEPARATE = STRATEGIES["separate"].color
POOLED = STRATEGIES["pooled"].color
SHARED = STRATEGIES["multi-task"].color
#: Colors of what is no strategy: green, pink, light blue, black, red.
OTHERS = [COLORS[2], COLORS[4], COLORS[5], DATA_COLOR, COLORS[3]]
#: Size of a picture as wide as the text, in inches.
WIDTH = 6.8
MATRIX_COLORS = "RdBu"


@cache
def gapminder() -> pd.DataFrame:
    """Return the life expectancy and the income of 142 countries in twelve surveys."""
    return pd.read_csv(TABLES / "gapminder.csv")


def deviations() -> pd.DataFrame:
    """Return life expectancies minus the means of country and year, a row per year."""
    table = gapminder().pivot(index="year", columns="country", values="life_expectancy")
    table = table - table.mean()
    return table.sub(table.mean(axis=1), axis=0)


@cache
def penguins() -> pd.DataFrame:
    """Return the complete rows of the penguins, with their colony and flipper length.

    The flipper length is in centimeters above 20.
    """
    data = pd.read_csv(TABLES / "penguins.csv").dropna()
    data["colony"] = data.species + " " + data.island + " " + data.year.astype(str)
    data["flipper"] = data.flipper_length_mm / 10 - 20
    return data


@cache
def concrete() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return standardized features and targets of the concrete mixtures."""
    data = pd.read_csv(TABLES / "concrete.csv")
    data = (data - data.mean()) / data.std(ddof=0)
    return data.iloc[:, :7], data.iloc[:, 7:]


# -- what.md: matrices of coefficients under five assumptions


def draw_what() -> Figure:
    """Draw W under five assumptions: a column per task, a row per feature."""
    around_mean = RNG(0).normal(size=N_FEATURES)
    around_mean = around_mean + 0.4 * RNG(7).normal(size=(N_TASKS, N_FEATURES))
    shared_rows = np.zeros((N_TASKS, N_FEATURES))
    shared_rows[:, [1, 4, 5]] = RNG(0).normal(size=(N_TASKS, 3)) + 1
    factors = RNG(2).normal(size=(N_TASKS, 2)) @ RNG(3).normal(size=(2, N_FEATURES))
    panels = {
        "separate": RNG(0).normal(size=(N_TASKS, N_FEATURES)),
        "pooled": np.repeat(RNG(1).normal(size=(1, N_FEATURES)), N_TASKS, axis=0),
        "partially pooled": around_mean,
        "shared features": shared_rows,
        "low rank": factors / 2.5,
    }
    limit = max(np.abs(W).max() for W in panels.values())
    fig, axes = plt.subplots(2, 3, figsize=(4.2, 3.2), layout="constrained")
    axes[1, 2].remove()
    for ax, (name, W) in zip(axes.flat, panels.items(), strict=False):
        ax.imshow(W.T, cmap=MATRIX_COLORS, vmin=-limit, vmax=limit, aspect="auto")
        ax.set_title(name, fontsize=9)
        ax.set(xticks=[], yticks=[])
        ax.set_xlabel("tasks", fontsize=9)
    for row in axes:
        row[0].set_ylabel("features", fontsize=9)
    return fig


# -- Data of the tables that run through the guide


def draw_penguins() -> Figure:
    """Draw body mass by flipper length, a panel per colony, with three kinds of lines."""
    data = penguins()
    # The separate line shows on both sides of the partially pooled one above it.
    models = {
        "pooled": (PooledRidge(1e-6), POOLED, "-.", 1.3),
        "separate": (IndependentRidge(1e-6), SEPARATE, "-", 3.2),
        "partially pooled": (HierarchicalMTL("full"), SHARED, "-", 1.3),
    }
    for model, *_ in models.values():
        model.fit(data[["flipper"]], data.body_mass_g, task_id=data.colony)
    fig, axes = plt.subplots(
        5, 3, figsize=(4.8, 6.4), sharex=True, sharey=True, layout="constrained"
    )
    for t, (colony, rows) in enumerate(data.groupby("colony")):
        ax = axes.flat[t]
        length = rows.flipper_length_mm / 10
        ax.plot(length, rows.body_mass_g / 1000, "o", color=DATA_COLOR, ms=2.5)
        ends = np.array([length.min(), length.max()])
        for name, (model, color, style, width) in models.items():
            line = model.intercept_[t] + model.coef_[t, 0] * (ends - 20)
            ax.plot(ends, line / 1000, style, color=color, lw=width, label=name)
        ax.set_title(colony, fontsize=8)
        ax.tick_params(labelsize=8)
    fig.supxlabel("flipper length in cm", fontsize=9)
    fig.supylabel("body mass in kg", fontsize=9)
    add_legend(fig, axes[0, 0], columns=3, place="outside upper center")
    return fig


#: Countries whose courses differ most from all others, with the color of their lines.
UNUSUAL = dict(
    zip(
        ["Rwanda", "Zimbabwe", "Cambodia", "Swaziland", "Lesotho", "Botswana"],
        [*OTHERS, SHARED],
        strict=True,
    )
)


def draw_deviations() -> Figure:
    """Draw the courses of all countries, those of six countries in color."""
    table = deviations()
    fig, ax = plt.subplots(figsize=(4.8, 3.4), layout="constrained")
    ax.plot(table.index, table, color=BACKGROUND_COLOR, lw=0.5)
    styles = ["-", "--", "-.", ":", "-", "--"]
    for (name, color), style in zip(UNUSUAL.items(), styles, strict=True):
        ax.plot(table.index, table[name], style, color=color, lw=1.8, label=name)
    ax.set(xlabel="year", ylabel="years of life, deviation")
    add_legend(fig, ax, columns=3)
    return fig


def draw_income() -> Figure:
    """Draw life expectancy by income in four surveys."""
    data = gapminder()
    fig, axes = plt.subplots(
        2, 2, figsize=(4.8, 3.8), sharex=True, sharey=True, layout="constrained"
    )
    for ax, year in zip(axes.flat, (1952, 1972, 1987, 2007), strict=True):
        rows = data[data.year == year]
        ax.plot(10**rows.log_gdp, rows.life_expectancy, "o", ms=2.5, color=DATA_COLOR)
        ax.set_title(str(year), fontsize=9)
        ax.set(xscale="log")
    fig.supxlabel("income per person in dollars", fontsize=9)
    fig.supylabel("life expectancy in years", fontsize=9)
    return fig


def draw_concrete() -> Figure:
    """Draw three properties of concrete against each other."""
    data = pd.read_csv(TABLES / "concrete.csv")
    fig, axes = plt.subplots(1, 2, figsize=(4.8, 2.6), layout="constrained")
    for ax, name, unit in zip(axes, ("flow", "strength"), ("cm", "MPa"), strict=True):
        ax.plot(data.slump, data[name], "o", ms=3, color=DATA_COLOR)
        ax.set(xlabel="slump in cm", ylabel=f"{name} in {unit}")
    return fig


# -- Pictures of what a chapter is about


def draw_pooling() -> Figure:
    """Draw arrows from separate to partially pooled levels and slopes."""
    data = penguins()
    separate = IndependentRidge(1e-6)
    partial = HierarchicalMTL("full")
    for model in (separate, partial):
        model.fit(data[["flipper"]], data.body_mass_g, task_id=data.colony)
    start = np.column_stack([separate.intercept_, separate.coef_[:, 0]])
    end = np.column_stack([partial.intercept_, partial.coef_[:, 0]])
    fig, ax = plt.subplots(figsize=(4.8, 3.6), layout="constrained")
    for tail, head in zip(start, end, strict=True):
        arrow = {"arrowstyle": "->", "color": "0.6", "shrinkA": 3, "shrinkB": 3}
        ax.annotate("", head, tail, arrowprops=arrow)
    ax.plot(*start.T, "o", color=SEPARATE, mfc="white", label="separate")
    ax.plot(*end.T, "o", color=SHARED, label="partially pooled")
    mean = (partial.mean_intercept_, partial.mean_coef_[0])
    ax.plot(*mean, "+", color=DATA_COLOR, ms=14, mew=2, label="mean of all colonies")
    for name, position in (("Adelie Biscoe 2007", (8, -3)),):
        t = list(partial.tasks_).index(name)
        ax.annotate(name, start[t], position, textcoords="offset points", fontsize=8)
    ax.set(xlabel="body mass in g at a flipper of 20 cm", ylabel="slope in g per cm")
    add_legend(fig, ax, columns=2)
    return fig


def draw_shared_features() -> Figure:
    """Draw coefficients of concrete that the l1 and the joint penalty keep."""
    X, Y = concrete()
    fits = {
        "l1: single entries\n(SparseMTL)": SparseMTL(30).fit(X, Y),
        "joint: whole rows\n(JointFeatureMTL)": JointFeatureMTL(30).fit(X, Y),
    }
    fig, axes = plt.subplots(
        1, 2, figsize=(4.8, 3.4), sharey=True, layout="constrained"
    )
    for ax, (name, model) in zip(axes, fits.items(), strict=True):
        W = model.coef_.T
        ax.imshow(W, cmap=MATRIX_COLORS, vmin=-0.7, vmax=0.7, aspect="auto")
        write_values(ax, W, dark_from=0.5)
        ax.set_title(name, fontsize=9)
        ax.set_xticks(range(3), Y.columns, fontsize=8)
    names = X.columns.str.replace("_", " ")
    axes[0].set_yticks(range(len(names)), names, fontsize=8)
    return fig


def draw_low_rank() -> Figure:
    """Draw the two largest factors over the years, and the countries in their plane."""
    table = deviations()
    model = TraceNormMTL(alpha=20).fit(np.eye(len(table)), table)
    U, sigma, V = np.linalg.svd(model.coef_, full_matrices=False)
    # Signs of singular vectors are arbitrary: both end above zero here.
    signs = np.sign(V[:2, -1])
    weights = signs * U[:, :2] * sigma[:2]
    fig, (left, right) = plt.subplots(
        2, 1, figsize=(4.8, 5.6), height_ratios=(1, 1.5), layout="constrained"
    )
    for factor, style in enumerate(("-", "--")):
        curve = signs[factor] * V[factor]
        color = OTHERS[factor]
        left.plot(table.index, curve, style, color=color, label=f"factor {factor + 1}")
    left.axhline(0, color=BACKGROUND_COLOR, lw=1, zorder=0)
    left.set(xlabel="year", ylabel="course (length 1)")
    left.legend(fontsize=8)
    right.plot(*weights.T, "o", ms=3, color=BACKGROUND_COLOR)
    for name in ("Rwanda", "Zimbabwe", "Botswana", "Oman", "Vietnam", "Cambodia"):
        place = weights[table.columns.get_loc(name)]
        right.plot(*place, "o", ms=5, color=SHARED)
        right.annotate(
            name, place, (0, 6), textcoords="offset points", ha="center", fontsize=8
        )
    right.margins(0.15)
    right.set(xlabel="factor 1: catching up", ylabel="factor 2: fall, then rise")
    return fig


def draw_clusters() -> Figure:
    """Draw levels and slopes of the countries, separate and pulled to clusters."""
    data = gapminder()
    decade = (data[["year"]] - 1980) / 10
    model = HierarchicalMTL(prior="clusters")
    separate = IndependentRidge(1e-6)
    for fit in (model, separate):
        fit.fit(decade, data.life_expectancy, task_id=data.country)
    fig, ax = plt.subplots(figsize=(4.8, 4.0), layout="constrained")
    start = np.column_stack([separate.intercept_, separate.coef_[:, 0]])
    end = np.column_stack([model.intercept_, model.coef_[:, 0]])
    for tail, head in zip(start, end, strict=True):
        ax.plot(*np.transpose([tail, head]), color=SEPARATE, lw=1, zorder=1)
    for cluster, marker in zip(np.unique(model.labels_), "vo^D", strict=True):
        is_member = model.labels_ == cluster
        slopes = end[is_member, 1]
        label = f"{len(slopes)} countries: {slopes.min():.1f} to {slopes.max():.1f}"
        ax.plot(*end[is_member].T, marker, ms=4, color=OTHERS[cluster], label=label)
    ax.plot([], [], color=SEPARATE, lw=1, label="from the separate estimate")
    ax.set(xlabel="life expectancy in 1980, in years", ylabel="years per decade")
    add_legend(fig, ax, columns=2)
    return fig


def draw_outliers() -> Figure:
    """Draw the outlier part of every country against the penalty on outliers."""
    table = deviations()
    surveys = np.eye(len(table))
    penalties = np.linspace(0.2, 0.5, 13)
    sizes = []
    for lam in penalties:
        model = RobustMTL(lam=lam, beta=0.01, tol=1e-6).fit(surveys, table)
        sizes.append(np.linalg.norm(model.outlier_, axis=1))
    sizes = np.array(sizes)
    fig, ax = plt.subplots(figsize=(4.8, 3.4), layout="constrained")
    ax.plot(penalties, sizes, color=BACKGROUND_COLOR, lw=0.8)
    styles = ["-", "--", "-.", ":", "-", "--"]
    for (name, color), style in zip(UNUSUAL.items(), styles, strict=True):
        values = sizes[:, table.columns.get_loc(name)]
        ax.plot(penalties, values, style, color=color, lw=1.8, label=name)
    ax.set(xlabel="lam, the penalty on outliers", ylabel="outlier part in years")
    add_legend(fig, ax, columns=3)
    return fig


def draw_relations() -> Figure:
    """Draw correlations of targets, and learned relations of coefficients."""
    X, Y = concrete()
    model = MTRL(lam1=0.1, lam2=5).fit(X, Y)
    scale = np.sqrt(np.diag(model.task_covariance_))
    residuals = Y - model.predict(X)
    panels = {
        "targets": np.corrcoef(Y.T),
        "coefficients\n(learned)": model.task_covariance_ / np.outer(scale, scale),
        "residuals": np.corrcoef(residuals.T),
    }
    fig, axes = plt.subplots(
        1, 3, figsize=(4.8, 2.2), sharey=True, layout="constrained"
    )
    for ax, (title, matrix) in zip(axes, panels.items(), strict=True):
        ax.imshow(matrix, cmap=MATRIX_COLORS, vmin=-1, vmax=1)
        write_values(ax, matrix, dark_from=0.7)
        ax.set_title(title, fontsize=9)
        ax.set_xticks(range(3), Y.columns, fontsize=8, rotation=45)
    axes[0].set_yticks(range(3), Y.columns, fontsize=8)
    return fig


def draw_graphs_time() -> Figure:
    """Draw the effect of income and the level in every survey, by three models."""
    data = gapminder()
    income = data[["log_gdp"]] - np.log10(5000)
    models = {
        "separate": (IndependentRidge(1e-6), SEPARATE, "o:"),
        "GraphMTL": (GraphMTL(alpha=50, graph="chain"), SHARED, "-"),
        "FusedMTL": (FusedMTL(alpha=0.1, fusion=20), OTHERS[1], "-"),
    }
    fig, axes = plt.subplots(
        2, 1, figsize=(4.8, 4.4), sharex=True, layout="constrained"
    )
    for name, (model, color, style) in models.items():
        model.fit(income, data.life_expectancy, task_id=data.year)
        drawstyle = "steps-mid" if name == "FusedMTL" else "default"
        options = {"color": color, "ms": 3, "drawstyle": drawstyle, "label": name}
        axes[0].plot(model.tasks_, model.coef_[:, 0], style, **options)
        axes[1].plot(model.tasks_, model.intercept_, style, **options)
    axes[0].set_ylabel("years of life for\nten times the income", fontsize=9)
    axes[1].set_ylabel("years of life with\n5,000 dollars", fontsize=9)
    axes[1].set(xlabel="year")
    add_legend(fig, axes[0], columns=3)
    return fig


def draw_svm() -> Figure:
    """Draw the accuracy on other penguins by coupling and number of known penguins."""
    data = penguins()
    X = data.iloc[:, 2:6].to_numpy()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    species = data.species.to_numpy()
    is_male = (data.sex == "male").to_numpy()
    couplings = [0, 0.3, 1, 3, 10, 100]
    fig, ax = plt.subplots(figsize=(4.8, 3.2), layout="constrained")
    for n_known, color, marker in zip((6, 10, 20, 40), OTHERS, "os^D", strict=False):
        accuracy = np.zeros((10, len(couplings)))
        for seed in range(10):
            sample = data.groupby("species").sample(n_known, random_state=seed).index
            train = data.index.isin(sample)
            for column, coupling in enumerate(couplings):
                model = GraphSVC(C=1, coupling=coupling, graph="all")
                model.fit(X[train], is_male[train], task_id=species[train])
                predicted = model.predict(X[~train], task_id=species[~train])
                accuracy[seed, column] = np.mean(predicted == is_male[~train])
        label = f"{n_known} known per species"
        values = 100 * accuracy.mean(axis=0)
        positions = range(len(couplings))
        ax.plot(positions, values, f"{marker}-", color=color, ms=4, label=label)
    ax.set_xticks(range(len(couplings)), [str(coupling) for coupling in couplings])
    ax.set(xlabel="coupling", ylabel="% of the sexes right")
    add_legend(fig, ax, columns=2)
    return fig


def draw_paths() -> Figure:
    """Draw the size of each feature's coefficients, and the error, along the path."""
    X, Y = concrete()
    search = JointFeatureMTLCV().fit(X, Y)
    norms = np.array(
        [
            np.linalg.norm(JointFeatureMTL(alpha).fit(X, Y).coef_, axis=0)
            for alpha in search.alphas_
        ]
    )
    errors = search.scores_path_.mean(axis=1)
    fig, (left, right) = plt.subplots(
        2, 1, figsize=(4.8, 5.4), height_ratios=(1.4, 1), layout="constrained"
    )
    styles = iter(["-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1))])
    for feature in np.argsort(-norms[-1]):
        is_large = norms[-1, feature] > 0.3
        left.plot(
            search.alphas_,
            norms[:, feature],
            lw=1.8 if is_large else 0.8,
            color=None if is_large else "0.75",
            ls=next(styles, "-") if is_large else "-",
            label=X.columns[feature].replace("_", " ") if is_large else None,
        )
    right.plot(search.alphas_, errors, color="0.2")
    for ax in (left, right):
        ax.axvline(search.alpha_, color=SHARED, ls="--", lw=1.2)
        ax.set(xscale="log", xlabel="alpha")
        ax.invert_xaxis()
    left.set_ylabel("norm of the row of a feature")
    right.set_ylabel("cross-validated error")
    left.legend(fontsize=8)
    return fig


def draw_evaluation() -> Figure:
    """Draw gains with intervals on the table of penguins."""
    columns = ["body_mass_g", "flipper_length_mm", "sex", "colony"]
    result = mtlrun.compare(
        penguins()[columns],
        target="body_mass_g",
        task="colony",
        methods=["HierarchicalMTL"],
    )
    # Narrow enough to be read on a phone.
    fig, ax = plt.subplots(figsize=(4.8, 2.8), layout="constrained")
    result.plot(ax)
    ax.set_title("gain over IndependentRidge, 95% intervals", fontsize=9)
    return fig


def draw_verdict() -> Figure:
    """Draw the verdict and the methods of the comparison on the home page.

    Both are drawn as on the page of the comparison.
    """
    result = mtlrun.compare(
        TABLES / "gapminder.csv",
        target="life_expectancy",
        task="country",
        methods=["SmoothMTL"],
    )
    # Narrow enough to be read on a phone.
    fig, (top, bottom) = plt.subplots(2, figsize=(4.8, 4.8), layout="constrained")
    result.plot_verdict(top)
    result.plot(bottom)
    fig.suptitle(
        textwrap.fill(result.board.answer.headline, 60), fontsize=9, fontweight="bold"
    )
    return fig


def draw_countries() -> Figure:
    """Draw life expectancies of four countries with separate, pooled and shared curves."""
    frame = gapminder()
    columns = ["year", "log_gdp"]
    scale = frame[columns].std()
    X = ((frame[columns] - frame[columns].mean()) / scale).to_numpy()
    y = frame["life_expectancy"].to_numpy()
    country = frame["country"].to_numpy()
    models = {
        "pooled": (SmoothPooled(), POOLED, "-.", 1.3),
        "separate": (SmoothIndependent(), SEPARATE, "--", 3.0),
        "partially pooled": (SmoothMTL(), SHARED, "-", 1.5),
    }
    names = ["Kenya", "Japan", "Rwanda", "Botswana"]
    fig, axes = plt.subplots(
        2, 2, figsize=(4.8, 3.8), sharex=True, sharey=True, layout="constrained"
    )
    for label, (model, color, style, width) in models.items():
        model.fit(X, y, task_id=country)
        for ax, name in zip(axes.flat, names, strict=True):
            is_country = country == name
            ids = country[is_country]
            years = frame["year"][is_country]
            curve = model.predict(X[is_country], task_id=ids)
            ax.plot(years, curve, style, color=color, lw=width, label=label)
    for ax, name in zip(axes.flat, names, strict=True):
        is_country = country == name
        ax.plot(frame["year"][is_country], y[is_country], "o", color=DATA_COLOR, ms=3)
        ax.set_title(name, fontsize=9)
    axes[0, 0].legend(fontsize=8)
    fig.supylabel("life expectancy in years", fontsize=9)
    return fig


def draw_layouts() -> Figure:
    """Draw the table of targets in three layouts: rows by tasks."""
    rng = RNG(0)
    n_tasks = 3
    values = rng.normal(size=(12, n_tasks))
    owner = np.repeat(np.arange(n_tasks), 4)
    is_owner = owner[:, np.newaxis] == np.arange(n_tasks)
    is_missing = rng.random(values.shape) < 0.3
    panels = {
        "ragged:\ntask_id": np.where(is_owner, values, np.nan),
        "shared:\n2-D y": values,
        "shared with\ngaps: NaN": np.where(is_missing, np.nan, values),
    }
    colors = plt.colormaps[MATRIX_COLORS].with_extremes(bad="0.85")
    fig, axes = plt.subplots(1, 3, figsize=(4.8, 2.6), layout="constrained")
    for ax, (title, matrix) in zip(axes, panels.items(), strict=True):
        image = ax.imshow(matrix, cmap=colors, aspect="auto", vmin=-2, vmax=2)
        ax.set_title(title, fontsize=9)
        ax.set(xticks=range(n_tasks), yticks=[])
        ax.set_xticklabels([str(t + 1) for t in range(n_tasks)], fontsize=8)
        ax.set_xlabel("task", fontsize=8)
        ax.set_yticks(np.arange(0.5, 11), minor=True)
        ax.set_xticks(np.arange(0.5, n_tasks - 1), minor=True)
        ax.grid(which="minor", color="white", lw=1.5)
        ax.tick_params(which="both", length=0)
    axes[0].set_ylabel("rows", fontsize=9)
    bar = fig.colorbar(image, ax=axes, shrink=0.8, aspect=12)
    bar.set_label("target (gray: none)", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    return fig


def draw_certificates() -> Figure:
    """Draw the certified gap and the true distance from the optimum by iterations."""
    X, Y = concrete()
    optimum = TraceNormMTL(5, tol=1e-12, max_iter=100_000).fit(X, Y).objective_[-1]
    fig, ax = plt.subplots(figsize=(WIDTH * 0.8, 3.0), layout="constrained")
    for solver, color in zip(("fista", "admm"), OTHERS, strict=False):
        counts = []
        gaps = []
        distances = []
        for tol in np.logspace(-0.5, -8, 16):
            model = TraceNormMTL(5, solver=solver, tol=tol, max_iter=100_000)
            model.fit(X, Y)
            counts.append(model.n_iter_)
            gaps.append(model.gap_)
            distances.append(max(model.objective_[-1] / optimum - 1, 1e-12))
        ax.plot(counts, gaps, "o-", color=color, ms=4, label=f"{solver}: gap")
        ax.plot(
            counts, distances, "x:", color=color, ms=4,
            label=f"{solver}: true distance",
        )  # fmt: skip
    ax.set(
        yscale="log",
        xlabel="iterations",
        ylabel="relative to the objective",
        ylim=(1e-11, 1),
    )
    ax.legend(fontsize=8)
    return fig


#: Processor seconds of one fit by number of rows (20 features, 50 tasks) on one core of
#: an AMD EPYC. Measured with time.process_time, after a first fit for compilation.
FIT_SECONDS = {
    "SmoothMTL (needs the rows)": {1_000: 1.135, 10_000: 8.079},
    "HierarchicalMTL": {1_000: 0.013, 10_000: 0.017, 100_000: 0.180, 1_000_000: 1.727},
    "TraceNormMTL": {1_000: 0.006, 10_000: 0.008, 100_000: 0.038, 1_000_000: 0.342},
}


def draw_large_data() -> Figure:
    """Draw the seconds of a fit against the number of rows, as measured."""
    fig, ax = plt.subplots(figsize=(WIDTH * 0.8, 3.0), layout="constrained")
    for marker, color, (name, seconds) in zip(
        "osv", OTHERS[:3], FIT_SECONDS.items(), strict=True
    ):
        ax.plot(
            list(seconds), list(seconds.values()), f"{marker}-", color=color, label=name
        )
    ax.set(xscale="log", yscale="log", xlabel="rows", ylabel="processor seconds")
    ax.legend(fontsize=8)
    return fig


def draw_networks() -> Figure:
    """Draw a small network: features, a shared body, and one output per task."""
    layers = {"features": 4, "shared body": 6, "outputs": 3}
    fig, ax = plt.subplots(figsize=(4.0, 2.4), layout="constrained")
    heights = {
        name: np.linspace(-1, 1, count) * (count - 1) / 6
        for name, count in layers.items()
    }
    names = list(layers)
    for position, (name, following) in enumerate(pairwise(names)):
        for start in heights[name]:
            for end in heights[following]:
                ax.plot([position, position + 1], [start, end], color="0.75", lw=0.6)
    for position, name in enumerate(names):
        colors = OTHERS[:3] if name == "outputs" else "0.35"
        positions = np.full(layers[name], position)
        ax.scatter(positions, heights[name], s=90, c=colors, zorder=2)
        ax.text(position, -1.15, name, ha="center", fontsize=9)
    for task, height in enumerate(heights["outputs"], start=1):
        ax.text(2.12, height, f"task {task}", va="center", fontsize=9)
    ax.set(xlim=(-0.4, 2.7), ylim=(-1.3, 1.0))
    ax.axis("off")
    return fig


def draw_smooth() -> Figure:
    """Draw curves of three countries with their bands, and beyond their last rows."""
    data = gapminder()
    year = data[["year"]].to_numpy()
    life = data.life_expectancy.to_numpy()
    country = data.country.to_numpy()
    train = RNG(1).random(len(life)) < 0.5
    model = SmoothMTL()
    model.fit(year[train], life[train], task_id=country[train])
    grid = np.linspace(1952, 2022, 60)
    common = model.partial_dependence(0, values=grid)
    fig, axes = plt.subplots(
        1, 3, figsize=(4.8, 3.0), sharey=True, layout="constrained"
    )
    for ax, name in zip(axes, ("Japan", "Kenya", "Botswana"), strict=True):
        curve = model.partial_dependence(0, task=name, values=grid)
        ax.axvspan(2007, 2022, color="0.93", lw=0)
        ax.fill_between(grid, *curve.interval(), color=SHARED, alpha=0.25, lw=0)
        ax.plot(grid, curve.mean, color=SHARED, label="this country, 95% band")
        ax.plot(grid, common.mean, "-.", color=POOLED, label="all countries")
        for rows, face, label in (
            (train, DATA_COLOR, "training"),
            (~train, "none", "held out"),
        ):
            shown = rows & (country == name)
            ax.scatter(
                year[shown, 0],
                life[shown],
                16,
                face,
                edgecolor=DATA_COLOR,
                label=label,
            )
        ax.text(2014.5, 34, "no\nrows", ha="center", va="center", fontsize=8)
        ax.set_title(name, fontsize=9)
        ax.set(xlabel="year", xlim=(1950, 2022), ylim=(28, 95), xticks=[1970, 2000])
    axes[0].set_ylabel("life expectancy in years")
    add_legend(fig, axes[0], columns=2)
    return fig


def write_values(
    ax: Axes, matrix: np.ndarray, dark_from: float, decimals: int = 2
) -> None:
    """Write the entries of a matrix into its cells, white on dark; tiny ones are
    left out.
    """
    for (row, column), value in np.ndenumerate(matrix):
        is_shown = decimals == 0 or abs(value) > 0.005
        if is_shown:
            color = "white" if abs(value) > dark_from else "black"
            text = f"{value:.{decimals}f}"
            ax.text(
                column, row, text, ha="center", va="center", color=color, fontsize=8
            )


def add_legend(
    fig: Figure, ax: Axes, columns: int, place: str = "outside lower center"
) -> None:
    """Add one legend for all panels, outside of them."""
    fig.legend(
        *ax.get_legend_handles_labels(),
        loc=place,
        ncols=columns,
        fontsize=9,
        frameon=False,
    )


PICTURES: dict[str, Callable[[], Figure]] = {
    "what": draw_what,
    "data-penguins": draw_penguins,
    "data-deviations": draw_deviations,
    "data-income": draw_income,
    "data-concrete": draw_concrete,
    "pooling": draw_pooling,
    "shared-features": draw_shared_features,
    "low-rank": draw_low_rank,
    "graphs-time": draw_graphs_time,
    "clusters": draw_clusters,
    "outliers": draw_outliers,
    "relations": draw_relations,
    "svm": draw_svm,
    "paths": draw_paths,
    "evaluation": draw_evaluation,
    "verdict": draw_verdict,
    "countries": draw_countries,
    "layouts": draw_layouts,
    "certificates": draw_certificates,
    "large-data": draw_large_data,
    "networks": draw_networks,
    "smooth": draw_smooth,
}


#: A comparison of 20 processor seconds: the site shows the stored picture.
SLOW = ("verdict",)


def save(fig: Figure, path: Path) -> None:
    """Write a figure as a small SVG without a date, so that a rebuilt page does not
    change.

    Numbers keep two decimals, a hundredth of a point; comments and metadata are left
    out.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = io.StringIO()
    fig.savefig(stream, format="svg", dpi=110)
    plt.close(fig)
    text = re.sub(
        r"<metadata>.*?</metadata>|<!--.*?-->", "", stream.getvalue(), flags=re.S
    )
    text = re.sub(r"(\d\.\d\d)\d+", r"\1", text)
    text = with_dark_colors(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def draw(name: str, folder: Path) -> None:
    """Draw one picture."""
    plt.switch_backend("svg")
    # Letters stay text: files are small, and words in pictures can be searched.
    plt.rcParams.update({"svg.hashsalt": "mtlrun", "svg.fonttype": "none"})
    plt.rcParams["figure.constrained_layout.h_pad"] = 0.07
    plt.rcParams["axes.prop_cycle"] = plt.cycler(color=OTHERS)
    save(PICTURES[name](), folder / f"{name}.svg")


def main(folder: Path, names: Sequence[str] = ()) -> None:
    """Draw all pictures, or those named, into a folder.

    Of all pictures, those of `SLOW` are drawn only into docs/pictures.
    """
    if not names:
        is_stored = folder.resolve() == TABLES.parent / "docs" / "pictures"
        names = [name for name in PICTURES if is_stored or name not in SLOW]
    with ProcessPoolExecutor(N_PROCESSES) as pool:
        jobs = [pool.submit(draw, name, folder) for name in names]
        for job in jobs:
            job.result()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
