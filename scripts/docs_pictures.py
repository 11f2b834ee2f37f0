"""The pictures of W in the chapters of the user guide, drawn from fits: `python scripts/docs_pictures.py FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from mtlrun.estimators import (
    MTRL,
    ClusteredMTL,
    FusedMTL,
    GraphMTL,
    GraphSVC,
    HierarchicalMTL,
    IndependentRidge,
    JointFeatureMTL,
    PooledRidge,
    RobustMTL,
    SmoothMTL,
    SparseMTL,
    TraceNormMTL,
)

TASKS, FEATURES, ROWS = 12, 10, 25
Panels = dict[str, np.ndarray]
RNG = np.random.default_rng
COLOURS = plt.colormaps["RdBu"].with_extremes(bad="0.6")  # missing: grey


def _data(
    truth: np.ndarray, noise: float = 1.5, rows: int = ROWS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = RNG(1)
    task = np.repeat(np.arange(TASKS), rows)
    X = rng.normal(size=(task.size, FEATURES))
    return X, (X * truth[task]).sum(axis=1) + noise * rng.normal(size=task.size), task


def _panels(truth: np.ndarray, noise: float = 1.5, **models: object) -> Panels:
    X, y, task = _data(truth, noise)
    fits = {
        name.replace("_", " "): model.fit(X, y, task_id=task).coef_
        for name, model in models.items()
    }  # type: ignore[attr-defined]
    return {"truth": truth, **fits}


def _around_a_mean() -> np.ndarray:
    rng = RNG(0)
    return rng.normal(size=FEATURES) + 0.4 * rng.normal(size=(TASKS, FEATURES))


def _rows() -> np.ndarray:
    truth = np.zeros((TASKS, FEATURES))
    truth[:, [1, 4, 5]] = RNG(0).normal(size=(TASKS, 3)) + 1
    return truth


def _factors() -> np.ndarray:
    rng = RNG(2)
    return rng.normal(size=(TASKS, 2)) @ rng.normal(size=(2, FEATURES))


def _steps() -> np.ndarray:
    return np.repeat(RNG(3).normal(size=(3, FEATURES)), TASKS // 3, axis=0)


def _outlier() -> np.ndarray:
    rng = RNG(4)
    truth = np.outer(1 + 0.2 * rng.normal(size=TASKS), rng.normal(size=FEATURES))
    truth[8] = 2 * rng.normal(size=FEATURES)
    return truth


def _opposed() -> np.ndarray:
    rng = RNG(5)
    return np.outer(
        np.repeat([1, -1], TASKS // 2), rng.normal(size=FEATURES)
    ) + 0.2 * rng.normal(size=(TASKS, FEATURES))


def _what() -> Panels:
    return {
        "separate": RNG(0).normal(size=(TASKS, FEATURES)),
        "pooled": np.repeat(RNG(1).normal(size=(1, FEATURES)), TASKS, axis=0),
        "partially pooled": _around_a_mean(),
        "shared features": _rows(),
        "low rank": _factors() / 1.5,
    }


def _relations() -> Panels:
    X, y, task = _data(_opposed())
    found = MTRL(lam1=0.1, lam2=5).fit(X, y, task_id=task)
    scale = np.sqrt(np.diag(found.task_covariance_))
    return {
        "truth": _opposed(),
        "MTRL": found.coef_,
        "learned relations": found.task_covariance_ / np.outer(scale, scale),
    }


def _outliers() -> Panels:
    X, y, task = _data(_outlier())
    found = RobustMTL(lam=0.7, beta=0.2).fit(X, y, task_id=task)
    return {
        "truth": _outlier(),
        "low-rank part": found.low_rank_,
        "outlier part": found.outlier_,
    }


def _clusters() -> Panels:
    order = np.tile([0, 1, 2], TASKS // 3)
    truth = RNG(6).normal(size=(3, FEATURES))[order]
    X, y, task = _data(truth)
    found = ClusteredMTL(alpha=5, n_clusters=3).fit(X, y, task_id=task).coef_
    return {
        "truth": truth,
        "ClusteredMTL": found,
        "sorted by cluster": found[np.argsort(order, kind="stable")],
    }


def _margins() -> Panels:
    X, y, task = _data(_around_a_mean())
    labels = np.where(y > 0, 1, -1)
    couplings = {"coupling 0": 0.0, "coupling 1": 1.0, "coupling 100": 100.0}
    return {
        name: GraphSVC(C=0.1, coupling=c).fit(X, labels, task_id=task).coef_
        for name, c in couplings.items()
    }


def _layouts() -> Panels:
    rng = RNG(0)
    target = rng.normal(size=(12, 10))
    return {
        "shared: Y": target,
        "with gaps": np.where(rng.random(target.shape) < 0.3, np.nan, target),
    }


def _path() -> Panels:
    models = {f"alpha {a}": JointFeatureMTL(alpha=a) for a in (150, 100, 50, 20, 2)}
    return dict(list(_panels(_rows(), **models).items())[1:])


def _tolerances() -> Panels:
    X, y, task = _data(_factors())
    fits = {}
    for tol in (0.5, 1e-8):
        model = TraceNormMTL(20, solver="fista", tol=tol).fit(X, y, task_id=task)
        fits[f"gap {model.gap_:.0e}"] = model.coef_
    loose, tight = fits.values()
    return {**fits, "difference": loose - tight}


def _sizes() -> Panels:
    found = {"truth": _factors()}
    for rows in (ROWS, 100 * ROWS):
        X, y, task = _data(_factors(), noise=4, rows=rows)
        found[f"{rows:,} rows"] = IndependentRidge(1.0).fit(X, y, task_id=task).coef_
    return found


PICTURES: dict[str, Callable[[], Panels]] = {
    "what": _what,
    "pooling": lambda: _panels(
        _around_a_mean(),
        separate=IndependentRidge(1e-3),
        pooled=PooledRidge(),
        partially_pooled=HierarchicalMTL("diagonal"),
    ),
    "shared-features": lambda: _panels(
        _rows(), entries=SparseMTL(20), whole_rows=JointFeatureMTL(40)
    ),
    "low-rank": lambda: _panels(
        _factors(), 5, separate=IndependentRidge(1e-3), trace_norm=TraceNormMTL(60)
    ),
    "graphs-time": lambda: _panels(
        _steps(), smooth_chain=GraphMTL(30, "chain"), fused_steps=FusedMTL(1, 15)
    ),
    "clusters": _clusters,
    "outliers": _outliers,
    "relations": _relations,
    "svm": _margins,
    "paths": _path,
    "evaluation": lambda: _panels(
        _around_a_mean(),
        partially_pooled=HierarchicalMTL("diagonal"),
        pooled=PooledRidge(),
    ),
    "layouts": _layouts,
    "certificates": _tolerances,
    "large-data": _sizes,
}


def draw_network(path: Path) -> None:
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
        colors = ["C0", "C1", "C2"] if name == "outputs" else "0.35"
        positions = np.full(layers[name], position)
        ax.scatter(positions, heights[name], s=90, c=colors, zorder=2)
        ax.text(position, -1.15, name, ha="center", fontsize=9)
    for task, height in enumerate(heights["outputs"], start=1):
        ax.text(2.12, height, f"task {task}", va="center", fontsize=9)
    ax.set(xlim=(-0.4, 2.7), ylim=(-1.3, 1.0))
    ax.axis("off")
    _save(fig, path)


def draw_curves(path: Path) -> None:
    """Draw curves of three tasks with their bands, rows and true curves."""
    rng = RNG(0)
    task = np.repeat(np.arange(30), 8)
    week = rng.uniform(1, 19, size=(task.size, 1))
    turn = rng.normal(size=30)

    def truth(weeks: np.ndarray, turns: np.ndarray | float) -> np.ndarray:
        fall = 3.4 + np.exp(-weeks / 3)
        return np.asarray(fall + 0.2 * np.sin(weeks / 3 + turns))

    protein = truth(week[:, 0], turn[task]) + 0.1 * rng.normal(size=task.size)
    model = SmoothMTL().fit(week, protein, task_id=task)
    grid = np.linspace(1, 26, 60)
    common = model.partial_dependence(0, values=grid)
    fig, axes = plt.subplots(
        1, 3, figsize=(6.6, 2.7), sharey=True, layout="constrained"
    )
    for ax, t in zip(axes, (1, 2, 4), strict=True):
        curve = model.partial_dependence(0, task=t, values=grid)
        ax.axvspan(19, 26, color="0.93", lw=0)
        ax.fill_between(grid, *curve.interval(), color="C0", alpha=0.25, lw=0)
        ax.plot(grid, curve.mean, color="C0", label="curve, 95% band")
        ax.plot(grid, truth(grid, turn[t]), ":", color="0.2", label="truth")
        ax.plot(grid, common.mean, "--", color="0.55", label="all cows")
        rows = task == t
        ax.plot(week[rows, 0], protein[rows], "o", color="C1", ms=4, label="rows")
        ax.text(22.5, 4.35, "no rows", ha="center", fontsize=8)
        ax.set_title(f"cow {t}", fontsize=9)
        ax.set(xlabel="week", xlim=(1, 26), ylim=(2.9, 4.5), xticks=[1, 7, 13, 19, 25])
    axes[0].set_ylabel("protein in %")
    fig.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        fontsize=9,
        frameon=False,
    )
    _save(fig, path)


#: Pictures that are not matrices: each function draws its own figure.
DIAGRAMS: dict[str, Callable[[Path], None]] = {
    "networks": draw_network,
    "smooth": draw_curves,
}


def draw(panels: Panels, path: Path) -> None:
    """Draw matrices of shape (tasks, features) as the guide has W, a column per task; as wide as a phone."""
    limit = max(np.nanmax(np.abs(W)) for W in panels.values())
    columns = 2 if len(panels) in (2, 4) else 3
    rows = -(-len(panels) // columns)
    size = (0.25 + 1.25 * columns, 1.6 * rows)
    fig, axes = plt.subplots(
        rows, columns, figsize=size, squeeze=False, layout="constrained"
    )
    for ax in axes.flat[len(panels) :]:
        ax.remove()
    for ax, (name, W) in zip(axes.flat, panels.items(), strict=False):
        square = name == "learned relations"
        ax.imshow(
            W.T,
            cmap=COLOURS,
            vmin=-1 if square else -limit,
            vmax=1 if square else limit,
            aspect="auto",
        )
        ax.set_title(name, fontsize=9)
        ax.set(xticks=[], yticks=[])
        ax.set_xlabel("tasks", fontsize=9)
    for row in axes:
        row[0].set_ylabel("rows" if "with gaps" in panels else "features", fontsize=9)
    _save(fig, path)


def _save(fig: Figure, path: Path) -> None:
    """Write a figure without the date, so that a rebuilt page does not change."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, metadata={"Date": None})
    plt.close(fig)


if __name__ == "__main__":
    plt.switch_backend("svg")
    plt.rcParams["svg.hashsalt"] = "mtlrun"
    folder = Path(sys.argv[1])
    for name, panels in PICTURES.items():
        draw(panels(), folder / f"{name}.svg")
    for name, draw_diagram in DIAGRAMS.items():
        draw_diagram(folder / f"{name}.svg")
