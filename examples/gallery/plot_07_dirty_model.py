"""
Shared and private features
===========================

The dirty model writes W as P + Q. Rows of P are features that all tasks use; single
entries of Q are exceptions for single tasks.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import DirtyMTL

rng = np.random.default_rng(0)
n_tasks, n_features, n_rows = 10, 20, 60
W = np.zeros((n_tasks, n_features))
W[:, :4] = rng.choice([-1, 1], size=4) * (
    1 + 0.2 * rng.normal(size=(n_tasks, 4))
)  # shared
for t in range(n_tasks):
    W[t, rng.integers(4, n_features)] = 2  # private
task = np.repeat(np.arange(n_tasks), n_rows)
X = rng.normal(size=(task.size, n_features))
y = (X * W[task]).sum(axis=1) + rng.normal(size=task.size)

# %%
# ``lam`` is the penalty on a private entry relative to a shared row: if it is too
# small, P is empty; if it is too large, Q is empty.

model = DirtyMTL(alpha=80, lam=0.3).fit(X, y, task_id=task)
panels = {
    "truth": W,
    "fit: P + Q": model.coef_,
    "shared part P": model.shared_,
    "private part Q": model.own_,
}
fig, axes = plt.subplots(1, 4, figsize=(7, 3.8), sharey=True, layout="constrained")
for ax, (name, part) in zip(axes, panels.items(), strict=True):
    image = ax.imshow(part.T, cmap="RdBu", vmin=-2, vmax=2, aspect="auto")
    ax.set(title=name, xlabel="task", xticks=range(0, n_tasks, 3))
axes[0].set(ylabel="feature", yticks=range(0, n_features, 4))
fig.colorbar(image, ax=axes, label="coefficient")
plt.show()
