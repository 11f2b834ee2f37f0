"""
Relations learned from the data
===============================

Seven joints of a robot arm: some torques depend on the pose in the same way, others in
the opposite way, and one in a different way. MTRL does not know this and learns it from
15 rows per joint. (Simulated; the real SARCOS arm needs a download: ``mtlrun data info
sarcos``.)
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import MTRL, IndependentRidge

rng = np.random.default_rng(0)
n_features, n_rows = 12, 15
signs = np.array([1, 1, 1, -1, -1, -1, 0])
W = np.outer(signs, rng.normal(size=n_features)) + 0.3 * rng.normal(
    size=(7, n_features)
)
W[6] = rng.normal(size=n_features)
joint = np.repeat(np.arange(7), n_rows)
X = rng.normal(size=(joint.size, n_features))
y = (X * W[joint]).sum(axis=1) + 2 * rng.normal(size=joint.size)


def correlation(covariance):
    """Scale a covariance to a unit diagonal."""
    scale = np.sqrt(np.diag(covariance))
    return covariance / np.outer(scale, scale)


# %%
# The learned covariance is a by-product of the fit.

alone = IndependentRidge(2.0).fit(X, y, task_id=joint)
related = MTRL(lam1=0.1, lam2=10).fit(X, y, task_id=joint)
panels = {
    "truth": correlation(W @ W.T),
    f"separate, error {np.linalg.norm(alone.coef_ - W):.1f}": correlation(
        alone.coef_ @ alone.coef_.T
    ),
    f"MTRL, error {np.linalg.norm(related.coef_ - W):.1f}": correlation(
        related.task_covariance_
    ),
}
fig, axes = plt.subplots(1, 3, figsize=(7, 3), layout="constrained")
for ax, (name, matrix) in zip(axes, panels.items(), strict=True):
    image = ax.imshow(matrix, cmap="RdBu", vmin=-1, vmax=1)
    ax.set(title=name, xlabel="joint", xticks=range(7), yticks=range(7))
axes[0].set_ylabel("joint")
fig.colorbar(image, ax=axes, label="relation")
plt.show()
