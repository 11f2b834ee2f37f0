"""
Partial pooling as shrinkage
============================

A hierarchical model pulls every task towards the mean: far where a task has few rows, little where it has many. Each
arrow starts at the estimate of a separate least-squares fit and ends at the partially pooled one.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import HierarchicalMTL, IndependentRidge

rng = np.random.default_rng(3)
sizes = np.array([4] * 10 + [40] * 6)
task = np.repeat(np.arange(sizes.size), sizes)
level, slope = (
    5 + 1.0 * rng.normal(size=sizes.size),
    2 + 0.7 * rng.normal(size=sizes.size),
)
x = rng.normal(size=task.size)
y = level[task] + slope[task] * x + 1.5 * rng.normal(size=task.size)

alone = IndependentRidge(1e-6).fit(x[:, None], y, task_id=task)
shared = HierarchicalMTL("full").fit(x[:, None], y, task_id=task)

# %%
# Tasks with 4 rows move far, those with 40 rows stay. Nothing was tuned: the variances say how far.

fig, ax = plt.subplots(layout="constrained")
for size, colour in ((4, "tab:orange"), (40, "tab:blue")):
    chosen = sizes == size
    start = np.c_[alone.intercept_, alone.coef_[:, 0]][chosen]
    end = np.c_[shared.intercept_, shared.coef_[:, 0]][chosen]
    ax.plot(*start.T, "o", color=colour, mfc="white", label=f"{size} rows: separate")
    ax.plot(*end.T, "o", color=colour, label=f"{size} rows: partially pooled")
    for a, b in zip(start, end, strict=True):
        ax.annotate(
            "", b, a, arrowprops={"arrowstyle": "->", "color": colour, "alpha": 0.6}
        )
ax.plot(
    shared.mean_intercept_,
    shared.mean_coef_[0],
    "k+",
    markersize=14,
    label="mean of all tasks",
)
ax.set(xlabel="intercept", ylabel="slope")
ax.legend(fontsize=8)
plt.show()
