"""
Clusters of tasks
=================

Tasks belong to three groups, in random order. The correlations of the fitted
coefficients, sorted by hierarchical clustering, show three blocks.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage

from mtlrun.estimators import ClusteredMTL, IndependentRidge

rng = np.random.default_rng(0)
n_tasks, n_features, n_rows = 18, 12, 14
kind = rng.permutation(np.repeat([0, 1, 2], 6))
W = rng.normal(size=(3, n_features))[kind] + 0.1 * rng.normal(
    size=(n_tasks, n_features)
)
task = np.repeat(np.arange(n_tasks), n_rows)
X = rng.normal(size=(task.size, n_features))
y = (X * W[task]).sum(axis=1) + 1.5 * rng.normal(size=task.size)

# %%
# Separate models are too noisy to show the groups clearly. Numbers on the axes are the
# true groups.

models = {
    "separate ridge": IndependentRidge(1.0),
    "ClusteredMTL": ClusteredMTL(alpha=20, eta=0.1, n_clusters=3),
}
fig, axes = plt.subplots(1, 2, figsize=(8.4, 4.2), layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    coef = model.fit(X, y, task_id=task).coef_
    order = leaves_list(
        linkage(coef, "average", metric="correlation", optimal_ordering=True)
    )
    image = ax.imshow(
        np.corrcoef(coef)[np.ix_(order, order)], cmap="RdBu", vmin=-1, vmax=1
    )
    ax.set_xticks(range(n_tasks), labels=kind[order])
    ax.set_yticks(range(n_tasks), labels=kind[order])
    ax.set(
        title=f"{name}: error {np.linalg.norm(coef - W):.1f}", xlabel="kind of the task"
    )
fig.colorbar(image, ax=axes, label="correlation of coefficients")
plt.show()
