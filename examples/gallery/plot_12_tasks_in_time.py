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
fig, axes = plt.subplots(1, 2, figsize=(8.4, 4), sharey=True, layout="constrained")
for ax, j, title in zip(
    axes, (0, 1), ("effect that drifts", "effect that jumps"), strict=True
):
    ax.plot(months, W[:, j], "k", linewidth=4, alpha=0.3, label="truth")
    for (name, model), style in zip(models.items(), ("o", "-", "-"), strict=True):
        coef = model.fit(X, y, task_id=month).coef_
        error = np.sqrt(np.mean((coef[:, j] - W[:, j]) ** 2))
        ax.plot(months, coef[:, j], style, markersize=4, label=f"{name}: {error:.2f}")
    ax.set(title=title, xlabel="month")
    ax.legend(title="root mean squared error", fontsize=8)
axes[0].set_ylabel("coefficient")
plt.show()
