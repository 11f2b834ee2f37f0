"""
Five penalties, five pictures of W
==================================

The coefficients of eight related regressions form a matrix W, one column per task. A
penalty expresses the pattern that you expect in it. On the same 30 rows per task, the
five fits below look different: single entries, whole rows, a few directions, equal
columns, or no pattern at all.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import (
    GraphMTL,
    IndependentRidge,
    JointFeatureMTL,
    SparseMTL,
    TraceNormMTL,
)

rng = np.random.default_rng(0)
n_tasks, n_features, n_rows = 8, 15, 30
truth = np.zeros((n_features, n_tasks))
truth[:5] = rng.normal(size=(5, 1)) + 0.5 * rng.normal(
    size=(5, n_tasks)
)  # five features matter, in every task
task = np.repeat(np.arange(n_tasks), n_rows)
X = rng.normal(size=(len(task), n_features))
y = (X * truth.T[task]).sum(axis=1) + rng.normal(size=len(task))

# %%
# The strengths are chosen so that the patterns are easy to see, not for accuracy.

models = {
    "separate": IndependentRidge(alpha=5),
    "entries": SparseMTL(alpha=10),
    "rows": JointFeatureMTL(alpha=20),
    "rank": TraceNormMTL(alpha=25),
    "equal columns": GraphMTL(alpha=50),
}
limit = np.abs(truth).max()
fig, grid = plt.subplots(2, 3, figsize=(6.4, 6), sharey=True, layout="constrained")
axes = grid.ravel()
axes[0].imshow(truth, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
axes[0].set(title="truth", ylabel="feature", xlabel="task")
for ax, (name, model) in zip(axes[1:], models.items(), strict=True):
    W = model.fit(X, y, task_id=task).coef_.T
    image = ax.imshow(W, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
    ax.set(title=name, xlabel=f"error {np.linalg.norm(W - truth):.1f}")
fig.colorbar(image, ax=axes, label="coefficient")
plt.show()
