"""
When sharing pays
=================

Tasks with few rows borrow strength from the others; tasks with many rows do not need
to. The figure shows the error of the coefficients, relative to separate models, against
the number of rows per task.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import HierarchicalMTL, IndependentRidge, PooledRidge
from mtlrun.show.palette import MULTITASK, POOLED, SEPARATE

rng = np.random.default_rng(0)
n_tasks, n_features = 15, 5
rows = [6, 8, 12, 16, 32, 64, 128]


def error(model, n_rows):
    """Return the mean squared error of the coefficients over ten draws of the data."""
    errors = []
    for seed in range(10):
        draw = np.random.default_rng(seed)
        W = 1 + 0.5 * draw.normal(size=(n_tasks, n_features))
        task = np.repeat(np.arange(n_tasks), n_rows)
        X = draw.normal(size=(task.size, n_features))
        y = (X * W[task]).sum(axis=1) + 1.5 * draw.normal(size=task.size)
        errors.append(np.mean((model.fit(X, y, task_id=task).coef_ - W) ** 2))
    return np.mean(errors)


separate = np.array([error(IndependentRidge(1.0), n) for n in rows])

# %%
# With six rows for six coefficients, separate models fail; with hundreds of rows, they
# catch up. The pooled model is good only as long as its bias is smaller than the noise
# of the other models.

fig, ax = plt.subplots(layout="constrained")
models = {
    "partially pooled": (HierarchicalMTL("diagonal"), MULTITASK),
    "pooled": (PooledRidge(1.0), POOLED),
}
for name, (model, style) in models.items():
    gain = 1 - np.array([error(model, n) for n in rows]) / separate
    ax.plot(rows, 100 * gain, style.line, marker="o", color=style.color, label=name)
ax.axhline(0, color=SEPARATE.color, linewidth=1, linestyle=SEPARATE.line)
ax.annotate(
    "separate models",
    (rows[-1], 0),
    xytext=(0, -14),
    textcoords="offset points",
    ha="right",
    color=SEPARATE.color,
)
ax.set(
    xscale="log",
    xlabel="rows per task",
    ylabel="gain over separate models (%)",
    ylim=(-105, 100),
)
ax.set_xticks(rows, labels=map(str, rows))
ax.minorticks_off()
ax.legend(loc="lower left")
plt.show()
