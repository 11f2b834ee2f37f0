"""
When sharing loses
==================

Two of twelve tasks follow a different rule. A pooled model helps most tasks and harms
these two; partial pooling harms them less. Look at the gain of each task, not only at
the average.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import HierarchicalMTL, IndependentRidge, PooledRidge
from mtlrun.show.palette import MULTITASK, POOLED

n_tasks, n_features, n_rows, n_draws = 12, 6, 20, 20
task = np.repeat(np.arange(n_tasks), n_rows)
models = {"pooled": PooledRidge(1.0), "partially pooled": HierarchicalMTL("diagonal")}
gains = {name: [] for name in models}
for seed in range(n_draws):
    rng = np.random.default_rng(seed)
    W = np.ones((n_tasks, n_features)) + 0.2 * rng.normal(size=(n_tasks, n_features))
    W[10:] -= 1.2  # another law
    X = rng.normal(size=(task.size, n_features))
    y = (X * W[task]).sum(axis=1) + 3 * rng.normal(size=task.size)
    alone = np.sum(
        (IndependentRidge(1.0).fit(X, y, task_id=task).coef_ - W) ** 2, axis=1
    )
    for name, model in models.items():
        gains[name].append(
            alone - np.sum((model.fit(X, y, task_id=task).coef_ - W) ** 2, axis=1)
        )

# %%
# Dots right of the line gain. Bars are 95% intervals of the mean over 20 draws.

fig, ax = plt.subplots(figsize=(6.4, 5), layout="constrained")
styles = {"pooled": POOLED, "partially pooled": MULTITASK}
for shift, (name, found) in zip((-0.15, 0.15), gains.items(), strict=True):
    mean, half = (
        np.mean(found, axis=0),
        1.96 * np.std(found, axis=0, ddof=1) / np.sqrt(n_draws),
    )
    ax.errorbar(
        mean,
        np.arange(n_tasks) + shift,
        xerr=half,
        fmt=styles[name].marker,
        color=styles[name].color,
        capsize=3,
        label=name,
    )
ax.axvline(0, color="gray", linewidth=1)
ax.axhspan(9.5, 11.5, color="gray", alpha=0.15)
ax.text(0.02, 0.04, "another law", transform=ax.transAxes)
ax.set(
    xlabel="error removed, compared with separate models",
    ylabel="task",
    yticks=range(n_tasks),
)
ax.invert_yaxis()
ax.legend(loc="center left")
plt.show()
