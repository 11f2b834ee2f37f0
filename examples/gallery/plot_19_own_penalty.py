"""
A penalty of your own
=====================

Columns often come in blocks: the one-hot columns of a category, the lags of a series. A
block should enter or stay out as a unit, for all tasks. Such a penalty takes three
short methods; solvers, certificates and tuning come with the base class.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import JointFeatureMTL
from mtlrun.estimators.base import RegressorMTL
from mtlrun.estimators.convex import PenalizedMTL
from mtlrun.problem.penalty import Penalty

BLOCK = 4


@dataclass(frozen=True)
class Blocks(Penalty):
    """alpha * sum of the Frobenius norms of blocks of four rows of W."""

    def norms(self, W):
        """Return the norm of every block."""
        return np.linalg.norm(W.reshape(-1, BLOCK * W.shape[1]), axis=1)

    def value(self, W):
        return self.alpha * self.norms(W).sum()

    def prox(self, W, step):
        norms = self.norms(W)
        shrunk = 1 - step * self.alpha / np.maximum(norms, step * self.alpha + 1e-300)
        return W * np.repeat(shrunk, BLOCK)[:, None]

    def dual_norm(self, Z):
        return self.norms(Z).max() / self.alpha  # the dual norm, for the certificate


class BlockMTL(RegressorMTL, PenalizedMTL):
    """Regression with blocks of features selected jointly for all tasks."""

    def _penalties(self):
        return [Blocks(self.alpha)]


rng = np.random.default_rng(0)
task = np.repeat(np.arange(6), 40)
W = np.zeros((6, 32))
W[:, 4:8], W[:, 20:24] = rng.normal(size=(2, 6, 4))
X = rng.normal(size=(240, 32))
y = (X * W[task]).sum(axis=1) + 2 * rng.normal(size=240)

models = {
    "single rows": JointFeatureMTL(alpha=45),
    "own penalty: blocks": BlockMTL(alpha=70),
}
fig, axes = plt.subplots(1, 3, figsize=(7, 4.5), sharey=True, layout="constrained")
axes[0].imshow(W.T, cmap="RdBu", vmin=-2, vmax=2, aspect="auto")
axes[0].set(title="truth", ylabel="feature", xlabel="task", yticks=range(0, 33, BLOCK))
for ax, (name, model) in zip(axes[1:], models.items(), strict=True):
    model.fit(X, y, task_id=task)
    image = ax.imshow(model.coef_.T, cmap="RdBu", vmin=-2, vmax=2, aspect="auto")
    ax.set(title=name, xlabel=f"task\nduality gap {model.gap_:.0e}")
fig.colorbar(image, ax=axes, label="coefficient")
plt.show()
