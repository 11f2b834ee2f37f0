"""
Tasks in time
=============

Each of 24 months is a task. The effect of a feature changes slowly or jumps once. A
smooth penalty suits the first case, fusion the second; both beat separate fits, which
have 15 rows per month.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import FusedMTL, GraphMTL, IndependentRidge
from mtlrun.show.palette import COLORS, MULTITASK, SEPARATE

rng = np.random.default_rng(0)
n_months, n_rows = 24, 15
months = np.arange(n_months)
W = np.column_stack(
    [
        np.sin(2 * np.pi * months / 24),
        np.where(months < 14, -0.5, 1.0),
        np.zeros(n_months),
    ]
)
month = np.repeat(months, n_rows)
X = rng.normal(size=(month.size, 3))
y = (X * W[month]).sum(axis=1) + 1.5 * rng.normal(size=month.size)

# %%
# Tasks are chained in the order of their ids.

models = {
    "separate": IndependentRidge(1e-3),
    "smooth (GraphMTL)": GraphMTL(alpha=40, graph="chain", ridge=1e-3),
    "fused (FusedMTL)": FusedMTL(alpha=0.1, fusion=12),
}
styles = (SEPARATE.color, "o"), (MULTITASK.color, "-"), (COLORS[4], "-")
fig, axes = plt.subplots(2, 1, figsize=(6.4, 7), sharex=True, layout="constrained")
for ax, j, title in zip(
    axes, (0, 1), ("effect that drifts", "effect that jumps"), strict=True
):
    ax.plot(months, W[:, j], "k", linewidth=4, alpha=0.3, label="truth")
    for (name, model), (color, line) in zip(models.items(), styles, strict=True):
        coef = model.fit(X, y, task_id=month).coef_
        error = np.sqrt(np.mean((coef[:, j] - W[:, j]) ** 2))
        label = f"{name}: {error:.2f}"
        ax.plot(months, coef[:, j], line, color=color, markersize=4, label=label)
    ax.set(title=title, ylabel="coefficient")
    ax.legend(title="root mean squared error")
axes[1].set_xlabel("month")
plt.show()
