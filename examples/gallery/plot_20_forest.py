"""
A forest against multi-task learning
====================================

A random forest with the task as a feature is a strong competitor if effects are
nonlinear. If they are linear and there are few rows, it cannot keep up with partial
pooling. Compare both on your data.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestRegressor

from mtlrun.estimators import HierarchicalMTL, TaskFeature
from mtlrun.show.palette import COLORS, MULTITASK

n_tasks, n_test = 10, 200
rows = [10, 30, 100]


def error(model, n_rows, curved, seed):
    """Return the mean squared error on new rows, relative to the variance of the
    signal.
    """
    rng = np.random.default_rng(seed)
    slopes = 1 + 0.5 * rng.normal(size=(n_tasks, 4))
    task = np.repeat(np.arange(n_tasks), n_rows + n_test)
    X = rng.normal(size=(task.size, 4))
    signal = ((np.abs(X) if curved else X) * slopes[task]).sum(axis=1)
    y = signal + rng.normal(size=task.size)
    train = np.tile(np.arange(n_rows + n_test) < n_rows, n_tasks)
    model.fit(X[train], y[train], task_id=task[train])
    found = model.predict(X[~train], task_id=task[~train])
    return np.mean((found - signal[~train]) ** 2) / signal.var()


models = {
    "hierarchical": HierarchicalMTL("diagonal"),
    "forest + task": TaskFeature(
        RandomForestRegressor(50, min_samples_leaf=3, random_state=0)
    ),
}

# %%
# Means of three draws.

colors = (MULTITASK.color, COLORS[2])
fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True, layout="constrained")
for ax, curved in zip(axes, (False, True), strict=True):
    for (name, model), color in zip(models.items(), colors, strict=True):
        ax.plot(
            rows,
            [np.mean([error(model, n, curved, s) for s in range(3)]) for n in rows],
            "o-",
            color=color,
            label=name,
        )
    ax.set(
        xscale="log",
        title="curved effects" if curved else "straight effects",
        xlabel="rows per task",
    )
    ax.set_xticks(rows, labels=map(str, rows))
    ax.minorticks_off()
axes[0].set(ylabel="error relative to the signal", ylim=(0, None))
axes[1].legend()
plt.show()
