"""Draw the pictures of the user guide: ``python scripts/docs_pictures.py FOLDER``.

Pictures of real tables need the files of the tables (``MTLRUN_DATA``). Where a table is
missing, the picture stored in docs/pictures/ stays in place. ``docs/pictures`` as the
folder stores all pictures anew.
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
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import mtlrun
from mtlrun.data import Dataset, load_card, load_dataset
from mtlrun.data.sets.files import missing_files
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
    TraceNormMTLClassifier,
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
#: The table of the home page.
HOME_TABLE = Path(__file__).parents[1] / "examples" / "gapminder.csv"
#: One color per strategy, in all pictures.
SEPARATE = STRATEGIES["separate"].color
POOLED = STRATEGIES["pooled"].color
SHARED = STRATEGIES["multi-task"].color
#: Colors of what is no strategy: green, pink, light blue, black, red.
OTHERS = [COLORS[2], COLORS[4], COLORS[5], DATA_COLOR, COLORS[3]]
#: Size of a picture as wide as the text, in inches.
WIDTH = 6.8
MATRIX_COLORS = "RdBu"


class Picture(NamedTuple):
    """A function that draws a figure, and the data sets that it needs."""

    draw: Callable[[], Figure]
    data_sets: tuple[str, ...] = ()


@cache
def table(name: str) -> Dataset:
    """Return a data set; several pictures use the same one."""
    return load_dataset(name)


def standardized(values: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and standard deviation 1."""
    return np.asarray((values - values.mean(axis=0)) / values.std(axis=0))


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


# -- Raw data of the tables that run through the guide


def draw_sleepstudy() -> Figure:
    """Draw reaction times by day, a panel per subject, with three kinds of lines."""
    data = table("sleepstudy")
    days = np.array([0.0, 9.0])
    # The separate line shows on both sides of the partially pooled one above it.
    models = {
        "pooled": (PooledRidge(1e-6), POOLED, "-.", 1.3),
        "separate": (IndependentRidge(1e-6), SEPARATE, "-", 3.2),
        "partially pooled": (HierarchicalMTL("full"), SHARED, "-", 1.3),
    }
    for model, *_ in models.values():
        model.fit(data.X, data.y, task_id=data.task_id)
    fig, axes = plt.subplots(
        3, 6, figsize=(WIDTH, 4.4), sharex=True, sharey=True, layout="constrained"
    )
    for t, ax in enumerate(axes.flat):
        rows = data.task_id == t
        ax.plot(data.X[rows, 0], data.y[rows], "o", color="0.2", ms=2.5)
        for name, (model, color, style, width) in models.items():
            line = model.intercept_[t] + model.coef_[t, 0] * days
            ax.plot(days, line, style, color=color, lw=width, label=name)
        ax.set_title(f"subject {data.tasks[t]}", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.set(xticks=[0, 3, 6, 9])
    fig.supxlabel("days of sleep deprivation", fontsize=9)
    fig.supylabel("reaction time in ms", fontsize=9)
    add_legend(fig, axes[0, 0], columns=3, place="outside upper center")
    return fig


def draw_jura() -> Figure:
    """Draw the places of the samples, colored by the concentration of each metal."""
    data = table("jura")
    fig, axes = plt.subplots(1, 3, figsize=(WIDTH, 2.9), layout="constrained")
    for t, ax in enumerate(axes):
        values = data.y[:, t]
        order = np.argsort(values)
        points = ax.scatter(
            data.X[order, 0],
            data.X[order, 1],
            9,
            values[order],
            cmap="viridis",
            vmax=np.quantile(values, 0.98),
            rasterized=True,
        )
        ax.set_title({"Cd": "cadmium", "Co": "cobalt", "Cu": "copper"}[data.tasks[t]])
        ax.set_aspect("equal")
        ax.tick_params(labelsize=7)
        bar = fig.colorbar(points, ax=ax, location="bottom", shrink=0.9)
        bar.set_label("mg per kg", fontsize=8)
        bar.ax.tick_params(labelsize=7)
    axes[0].set_ylabel("km north", fontsize=8)
    axes[1].set_xlabel("km east", fontsize=8)
    return fig


EMOTIONS = ("amazed", "happy", "relaxing", "quiet", "sad", "angry")


def draw_emotions() -> Figure:
    """Draw how many songs have a label, and how often two labels come together."""
    labels = table("emotions").y > 0
    together = (labels.T.astype(float) @ labels) / labels.sum(axis=0)[:, np.newaxis]
    fig, (left, right) = plt.subplots(
        1, 2, figsize=(WIDTH, 2.9), width_ratios=(1, 1.25), layout="constrained"
    )
    left.barh(EMOTIONS, labels.sum(axis=0), color="0.5")
    left.invert_yaxis()
    left.set_xlabel("songs with the label (of 593)", fontsize=8)
    right.imshow(100 * together, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    write_values(right, 100 * together, dark_from=60, decimals=0)
    right.set_xticks(range(6), EMOTIONS, rotation=35, ha="right")
    right.set_yticks(range(6), EMOTIONS)
    right.set_title("% of the songs of a row that have the label", fontsize=8)
    for ax in (left, right):
        ax.tick_params(labelsize=8)
    return fig


def draw_machines() -> Figure:
    """Draw the scores of six workers on three machines."""
    data = table("machines")
    fig, ax = plt.subplots(figsize=(WIDTH * 0.8, 2.8), layout="constrained")
    for machine, marker in enumerate("os^"):
        rows = data.X[:, 0] == machine
        shift = 0.2 * (machine - 1)
        ax.plot(
            data.task_id[rows] + 1 + shift,
            data.y[rows],
            marker,
            ms=5,
            label=f"machine {data.categories['Machine'][machine]}",
        )
    ax.set(xlabel="worker", ylabel="score", xticks=range(1, 7))
    ax.legend(fontsize=8, ncols=3, loc="lower left")
    return fig


def draw_milk() -> Figure:
    """Draw protein by week, a line per cow and a panel per diet."""
    data = table("milk")
    weeks = data.X[:, 0]
    diets = data.categories["Diet"]
    fig, axes = plt.subplots(
        1, 3, figsize=(WIDTH, 2.5), sharey=True, layout="constrained"
    )
    for diet, ax in enumerate(axes):
        of_diet = data.X[:, 1] == diet
        for cow in np.unique(data.task_id[of_diet]):
            rows = data.task_id == cow
            ax.plot(weeks[rows], data.y[rows], color="0.75", lw=0.5)
        numbers = np.unique(weeks[of_diet])
        means = [data.y[of_diet & (weeks == week)].mean() for week in numbers]
        ax.plot(numbers, means, color="0.2", lw=2.2)
        ax.set_title(diets[diet], fontsize=9)
        ax.set(xlabel="weeks after calving", xticks=[1, 7, 13, 19])
    axes[0].set_ylabel("protein in %")
    return fig


def draw_slump() -> Figure:
    """Draw three properties of concrete against each other."""
    Y = table("slump").y
    fig, axes = plt.subplots(1, 2, figsize=(WIDTH * 0.8, 2.6), layout="constrained")
    axes[0].plot(Y[:, 0], Y[:, 1], "o", ms=3, color="0.3")
    axes[0].set(xlabel="slump in cm", ylabel="flow in cm")
    axes[1].plot(Y[:, 0], Y[:, 2], "o", ms=3, color="0.3")
    axes[1].set(xlabel="slump in cm", ylabel="strength in MPa")
    return fig


def draw_radon() -> Figure:
    """Draw radon by floor in the counties with the fewest and the most houses."""
    data = table("radon")
    sizes = np.bincount(data.task_id)
    counties = np.argsort(sizes, kind="stable")[[0, 10, 30, 45, -3, -1]]
    # The column called "basement" is 1 for the first floor.
    floor = data.X[:, data.features.index("basement")]
    rng = RNG(0)
    fig, axes = plt.subplots(
        1, 6, figsize=(WIDTH, 2.4), sharey=True, layout="constrained"
    )
    for county, ax in zip(counties, axes, strict=True):
        rows = data.task_id == county
        shift = rng.uniform(-0.12, 0.12, rows.sum())
        ax.plot(floor[rows] + shift, data.y[rows], "o", ms=3, color="0.3")
        ax.set_title(f"county {data.tasks[county]}\n{sizes[county]} houses", fontsize=8)
        ax.set(xlim=(-0.5, 1.5))
        ax.set_xticks([0, 1], ["base-\nment", "first\nfloor"])
        ax.tick_params(labelsize=8)
    axes[0].set_ylabel("log of radon (pCi per l)", fontsize=8)
    return fig


# -- Pictures of what a chapter is about


def draw_pooling() -> Figure:
    """Draw arrows from separate to partially pooled intercepts and slopes."""
    data = table("sleepstudy")
    separate = IndependentRidge(1e-6).fit(data.X, data.y, task_id=data.task_id)
    partial = HierarchicalMTL("full").fit(data.X, data.y, task_id=data.task_id)
    start = np.column_stack([separate.intercept_, separate.coef_[:, 0]])
    end = np.column_stack([partial.intercept_, partial.coef_[:, 0]])
    fig, ax = plt.subplots(figsize=(WIDTH * 0.8, 3.6), layout="constrained")
    for tail, head in zip(start, end, strict=True):
        arrow = {"arrowstyle": "->", "color": "0.6", "shrinkA": 3, "shrinkB": 3}
        ax.annotate("", head, tail, arrowprops=arrow)
    ax.plot(*start.T, "o", color=SEPARATE, mfc="white", label="separate")
    ax.plot(*end.T, "o", color=SHARED, label="partially pooled")
    ax.plot(
        partial.mean_intercept_,
        partial.mean_coef_[0],
        "k+",
        ms=14,
        mew=2,
        label="mean of all subjects",
    )
    for name, position in (("309", (-22, -4)), ("308", (-22, -4)), ("335", (6, -4))):
        t = data.tasks.index(name)
        ax.annotate(name, start[t], position, textcoords="offset points", fontsize=8)
    ax.set(xlabel="reaction time on day 0 in ms", ylabel="slope in ms per day")
    add_legend(fig, ax, columns=3)
    return fig


def draw_shared_features() -> Figure:
    """Draw coefficients of jura that the l1 and the joint penalty keep."""
    data = table("jura")
    X = standardized(data.X)
    Y = standardized(data.y)
    fits = {
        "l1: single entries (SparseMTL)": SparseMTL(30).fit(X, Y),
        "joint: whole rows (JointFeatureMTL)": JointFeatureMTL(50).fit(X, Y),
    }
    fig, axes = plt.subplots(
        1, 2, figsize=(WIDTH, 4.0), sharey=True, layout="constrained"
    )
    for ax, (name, model) in zip(axes, fits.items(), strict=True):
        W = model.coef_.T
        ax.imshow(W, cmap=MATRIX_COLORS, vmin=-0.7, vmax=0.7, aspect="auto")
        write_values(ax, W, dark_from=0.5)
        ax.set_title(name, fontsize=9)
        ax.set_xticks(range(3), ["cadmium", "cobalt", "copper"], fontsize=8)
    axes[0].set_yticks(range(len(data.features)), data.features, fontsize=8)
    return fig


def draw_low_rank() -> Figure:
    """Draw six emotions in the plane of the two largest factors."""
    data = table("emotions")
    model = TraceNormMTLClassifier(alpha=35).fit(standardized(data.X), data.y)
    U, sigma, _ = np.linalg.svd(model.coef_, full_matrices=False)
    # Signs of singular vectors are arbitrary: excited and pleasant are positive here.
    places = U[:, :2] * sigma[:2]
    places *= np.sign([places[5, 0], places[1, 1]])
    fig, (left, right) = plt.subplots(
        1, 2, figsize=(WIDTH, 3.1), width_ratios=(1.6, 1), layout="constrained"
    )
    left.axhline(0, color="0.85", lw=1)
    left.axvline(0, color="0.85", lw=1)
    left.plot(*places.T, "o", color=SHARED)
    for name, place in zip(EMOTIONS, places, strict=True):
        left.annotate(
            name, place, (0, 6), textcoords="offset points", ha="center", fontsize=9
        )
    left.margins(0.2)
    left.set(xlabel="factor 1: quiet to excited", ylabel="factor 2: sad to pleasant")
    right.bar(range(1, 7), sigma, color=SHARED)
    right.set(xlabel="factor", ylabel="singular value of W", xticks=range(1, 7))
    return fig


def draw_clusters() -> Figure:
    """Draw intercepts and slopes of the subjects, separate and pulled to clusters."""
    data = table("sleepstudy")
    model = HierarchicalMTL(prior="clusters")
    model.fit(data.X, data.y, task_id=data.task_id)
    separate = IndependentRidge(1e-6).fit(data.X, data.y, task_id=data.task_id)
    fig, ax = plt.subplots(figsize=(WIDTH * 0.8, 3.6), layout="constrained")
    start = np.column_stack([separate.intercept_, separate.coef_[:, 0]])
    end = np.column_stack([model.intercept_, model.coef_[:, 0]])
    for tail, head in zip(start, end, strict=True):
        ax.plot(*np.transpose([tail, head]), color=BACKGROUND_COLOR, lw=0.8, zorder=1)
    ax.plot(*start.T, "s", ms=4, color=SEPARATE, mfc="white", label="separate fits")
    order = sorted(
        np.unique(model.labels_), key=lambda k: model.coef_[model.labels_ == k].mean()
    )
    for cluster, marker, color in zip(order, "vo^", OTHERS, strict=False):
        slopes = end[model.labels_ == cluster, 1]
        ax.plot(
            *end[model.labels_ == cluster].T,
            marker,
            ms=7,
            color=color,
            label=f"{len(slopes)} subjects: {slopes.min():.1f} to {slopes.max():.1f} "
            "ms per day",
        )
    ax.set(xlabel="reaction time on day 0 in ms", ylabel="slope in ms per day")
    fig.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return fig


def draw_outliers() -> Figure:
    """Draw the outlier part of every worker against the penalty on outliers."""
    data = table("machines")
    X = np.eye(3)[data.X[:, 0].astype(int)]
    penalties = np.linspace(0.42, 0.99, 30)
    norms = [
        np.linalg.norm(
            RobustMTL(lam=lam, beta=1, tol=1e-6)
            .fit(X, data.y, task_id=data.task_id)
            .outlier_,
            axis=1,
        )
        for lam in penalties
    ]
    fig, ax = plt.subplots(figsize=(WIDTH * 0.8, 3.0), layout="constrained")
    for worker, values in enumerate(np.transpose(norms), start=1):
        is_outlier = worker == 6
        ax.plot(
            penalties,
            values,
            color="0.1" if is_outlier else "0.6",
            lw=2.2 if is_outlier else 1.2,
        )
    ax.text(0.8, 9.8, "worker 6", color="0.1")
    ax.text(0.5, 3.2, "other workers", color="0.4")
    ax.set(xlabel="lam, the penalty on outliers", ylabel="size of the outlier part")
    return fig


def draw_relations() -> Figure:
    """Draw correlations of targets, and learned relations of coefficients."""
    data = table("slump")
    X = standardized(data.X)
    Y = standardized(data.y)
    model = MTRL(lam1=0.1, lam2=5).fit(X, Y)
    scale = np.sqrt(np.diag(model.task_covariance_))
    residuals = Y - model.predict(X)
    panels = {
        "targets": np.corrcoef(Y.T),
        "coefficients\n(learned)": model.task_covariance_ / np.outer(scale, scale),
        "residuals": np.corrcoef(residuals.T),
    }
    fig, axes = plt.subplots(
        1, 3, figsize=(WIDTH, 2.5), sharey=True, layout="constrained"
    )
    names = ["slump", "flow", "strength"]
    for ax, (title, matrix) in zip(axes, panels.items(), strict=True):
        ax.imshow(matrix, cmap=MATRIX_COLORS, vmin=-1, vmax=1)
        write_values(ax, matrix, dark_from=0.7)
        ax.set_title(title, fontsize=9)
        ax.set_xticks(range(3), names, fontsize=8)
    axes[0].set_yticks(range(3), names, fontsize=8)
    return fig


def draw_graphs_time() -> Figure:
    """Draw the effect of two diets over the weeks, by three models."""
    data = table("milk")
    week = data.X[:, 0].astype(int)
    diets = np.eye(3)[data.X[:, 1].astype(int)][:, 1:]
    models = {
        "separate": (IndependentRidge(1e-6), SEPARATE, "o:"),
        "GraphMTL": (GraphMTL(alpha=50, graph="chain"), SHARED, "-"),
        "FusedMTL": (FusedMTL(alpha=0.1, fusion=2), OTHERS[1], "-"),
    }
    fig, axes = plt.subplots(
        1, 2, figsize=(WIDTH, 3.0), sharey=True, layout="constrained"
    )
    for name, (model, color, style) in models.items():
        model.fit(diets, data.y, task_id=week)
        drawstyle = "steps-mid" if name == "FusedMTL" else "default"
        for ax, effects in zip(axes, model.coef_.T, strict=True):
            ax.plot(
                model.tasks_,
                effects,
                style,
                color=color,
                ms=3,
                drawstyle=drawstyle,
                label=name,
            )
    for ax, diet in zip(axes, data.categories["Diet"][1:], strict=True):
        ax.axhline(0, color="0.8", lw=1, zorder=0)
        ax.set_title(f"{diet} against barley", fontsize=9)
        ax.set(xlabel="weeks after calving", xticks=[1, 7, 13, 19])
    axes[0].set_ylabel("difference in protein\n(percentage points)")
    add_legend(fig, axes[0], columns=3)
    return fig


def label_graph(labels: np.ndarray) -> np.ndarray:
    """Return positive correlations of labels as the weights of a graph."""
    correlation = np.corrcoef(labels.T)
    np.fill_diagonal(correlation, 0)
    return np.asarray(np.maximum(correlation, 0))


def draw_svm() -> Figure:
    """Draw the accuracy on held-out songs against the coupling, by label."""
    data = table("emotions")
    X = standardized(data.X)
    train = np.arange(0, len(X), 2)
    test = np.arange(1, len(X), 2)
    couplings = np.array([0.03, 0.1, 0.3, 1, 3, 10, 30])
    graph = label_graph(data.y[train])
    accuracy = []
    for coupling in (0, *couplings):
        model = GraphSVC(C=0.01, coupling=coupling, graph=graph)
        model.fit(X[train], data.y[train])
        accuracy.append(100 * (model.predict(X[test]) == data.y[test]).mean(axis=0))
    gains = np.array(accuracy)[1:] - accuracy[0]
    fig, ax = plt.subplots(figsize=(WIDTH * 0.8, 3.2), layout="constrained")
    for number, values in enumerate(gains.T):
        label = "one label" if number == 0 else None
        ax.plot(couplings, values, color="0.7", lw=1, label=label)
    ax.plot(
        couplings, gains.mean(axis=1), color=SHARED, lw=2.5, label="mean of the six"
    )
    ax.axhline(0, color="0.4", lw=1, ls="--")
    ax.set(
        xscale="log",
        xlabel="coupling",
        ylabel="accuracy gained over\nseparate SVMs (points)",
    )
    ax.legend(fontsize=8)
    return fig


def draw_paths() -> Figure:
    """Draw the size of each feature's coefficients, and the error, along the path."""
    data = table("jura")
    X = standardized(data.X)
    Y = standardized(data.y)
    search = JointFeatureMTLCV().fit(X, Y)
    norms = np.array(
        [
            np.linalg.norm(JointFeatureMTL(alpha).fit(X, Y).coef_, axis=0)
            for alpha in search.alphas_
        ]
    )
    errors = search.scores_path_.mean(axis=1)
    fig, (left, right) = plt.subplots(
        1, 2, figsize=(WIDTH, 3.2), width_ratios=(1.3, 1), layout="constrained"
    )
    styles = iter(["-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1))])
    for feature in np.argsort(-norms[-1]):
        is_large = norms[-1, feature] > 0.27
        left.plot(
            search.alphas_,
            norms[:, feature],
            lw=1.8 if is_large else 0.8,
            color=None if is_large else "0.75",
            ls=next(styles, "-") if is_large else "-",
            label=data.features[feature] if is_large else None,
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
    """Draw gains with intervals on the table of radon in houses."""
    data = table("radon")
    frame = pd.DataFrame(data.X, columns=data.features)
    frame["log_radon"] = data.y
    frame["county"] = [data.tasks[t] for t in data.task_id]
    result = mtlrun.compare(
        frame, target="log_radon", task="county", methods=["HierarchicalMTL"]
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
        HOME_TABLE,
        target="life_expectancy",
        task="country",
        methods=["HierarchicalMTL", "SmoothMTL"],
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
    frame = pd.read_csv(HOME_TABLE)
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
        "ragged: task_id": np.where(is_owner, values, np.nan),
        "shared: 2-D y": values,
        "shared with gaps: NaN": np.where(is_missing, np.nan, values),
    }
    colors = plt.colormaps[MATRIX_COLORS].with_extremes(bad="0.85")
    fig, axes = plt.subplots(1, 3, figsize=(WIDTH * 0.85, 2.6), layout="constrained")
    for ax, (title, matrix) in zip(axes, panels.items(), strict=True):
        image = ax.imshow(matrix, cmap=colors, aspect="auto", vmin=-2, vmax=2)
        ax.set_title(title, fontsize=9)
        ax.set(xticks=range(n_tasks), yticks=[])
        ax.set_xticklabels([f"task {t + 1}" for t in range(n_tasks)], fontsize=7)
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
    data = table("jura")
    X = standardized(data.X)
    Y = standardized(data.y)
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
    """Draw curves of three cows with their bands, and beyond their last rows."""
    data = table("milk")
    week = data.X[:, :1]
    train = RNG(1).random(len(data.y)) < 0.5
    model = SmoothMTL()
    model.fit(week[train], data.y[train], task_id=data.task_id[train])
    grid = np.linspace(1, 25, 60)
    common = model.partial_dependence(0, values=grid)
    fig, axes = plt.subplots(
        1, 3, figsize=(6.6, 2.7), sharey=True, layout="constrained"
    )
    for ax, name in zip(axes, ("L07", "BL09", "B01"), strict=True):
        task = data.tasks.index(name)
        curve = model.partial_dependence(0, task=task, values=grid)
        ax.axvspan(19, 25, color="0.93", lw=0)
        ax.fill_between(grid, *curve.interval(), color=SHARED, alpha=0.25, lw=0)
        ax.plot(grid, curve.mean, color=SHARED, label="this cow, 95% band")
        ax.plot(grid, common.mean, "-.", color=POOLED, label="all cows")
        for rows, face, label in (
            (train, DATA_COLOR, "training"),
            (~train, "none", "held out"),
        ):
            of_cow = rows & (data.task_id == task)
            ax.scatter(
                week[of_cow, 0],
                data.y[of_cow],
                16,
                face,
                edgecolor=DATA_COLOR,
                label=label,
            )
        ax.text(22, 4.5, "no rows", ha="center", va="center", fontsize=8)
        ax.set_title(f"cow {name}", fontsize=9)
        ax.set(xlabel="week", xlim=(1, 25), ylim=(2.4, 4.8), xticks=[1, 7, 13, 19, 25])
    axes[0].set_ylabel("protein in %")
    add_legend(fig, axes[0], columns=4)
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


PICTURES: dict[str, Picture] = {
    "what": Picture(draw_what),
    "data-sleepstudy": Picture(draw_sleepstudy, ("sleepstudy",)),
    "data-jura": Picture(draw_jura, ("jura",)),
    "data-emotions": Picture(draw_emotions, ("emotions",)),
    "data-machines": Picture(draw_machines, ("machines",)),
    "data-milk": Picture(draw_milk, ("milk",)),
    "data-slump": Picture(draw_slump, ("slump",)),
    "data-radon": Picture(draw_radon, ("radon",)),
    "pooling": Picture(draw_pooling, ("sleepstudy",)),
    "shared-features": Picture(draw_shared_features, ("jura",)),
    "low-rank": Picture(draw_low_rank, ("emotions",)),
    "graphs-time": Picture(draw_graphs_time, ("milk",)),
    "clusters": Picture(draw_clusters, ("sleepstudy",)),
    "outliers": Picture(draw_outliers, ("machines",)),
    "relations": Picture(draw_relations, ("slump",)),
    "svm": Picture(draw_svm, ("emotions",)),
    "paths": Picture(draw_paths, ("jura",)),
    "evaluation": Picture(draw_evaluation, ("radon",)),
    "verdict": Picture(draw_verdict),
    "countries": Picture(draw_countries),
    "layouts": Picture(draw_layouts),
    "certificates": Picture(draw_certificates, ("jura",)),
    "large-data": Picture(draw_large_data),
    "networks": Picture(draw_networks),
    "smooth": Picture(draw_smooth, ("milk",)),
}


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
    """Draw one picture, unless the files of its data sets are missing."""
    picture = PICTURES[name]
    if any(missing_files(load_card(data_set)) for data_set in picture.data_sets):
        return
    plt.switch_backend("svg")
    # Letters stay text: files are small, and words in pictures can be searched.
    plt.rcParams.update({"svg.hashsalt": "mtlrun", "svg.fonttype": "none"})
    plt.rcParams["figure.constrained_layout.h_pad"] = 0.07
    plt.rcParams["axes.prop_cycle"] = plt.cycler(color=OTHERS)
    save(picture.draw(), folder / f"{name}.svg")


def main(folder: Path, names: Sequence[str] = ()) -> None:
    """Draw all pictures, or those named, into a folder."""
    with ProcessPoolExecutor(N_PROCESSES) as pool:
        jobs = [pool.submit(draw, name, folder) for name in names or PICTURES]
        for job in jobs:
            job.result()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
