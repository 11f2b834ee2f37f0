"""
Which kernel for which task
===========================

Each task mixes four kernels with separate weights. Pulling the weights together makes
similar tasks choose the same kernels: columns become equal, and groups appear.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import GroupMKLClassifier, IndependentMKLClassifier

rng = np.random.default_rng(0)
n_tasks, n_rows = 6, 60
task = np.repeat(np.arange(n_tasks), n_rows)
X = rng.normal(size=(task.size, 4))
straight = X[:, 0] + X[:, 1]
circle = 1.5 * ((X[:, 0] ** 2 + X[:, 1] ** 2) - 1.4)
score = np.where(task < 3, straight, circle)
y = np.where(score + 0.7 * rng.normal(size=task.size) > 0, 1, -1)

# %%
# The first three tasks are linear, the last three are not.

kernels = ["linear", "polynomial(2)", "gaussian(1)", "gaussian(4)"]
models = {
    "alone": IndependentMKLClassifier(C=1.0, kernels=kernels),
    "pulled together in pairs": GroupMKLClassifier(C=1.0, lam=0.9, kernels=kernels),
}
fig, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    theta = model.fit(X, y, task_id=task).theta_
    image = ax.imshow(theta.T, cmap="viridis", vmin=0, vmax=1, aspect="auto")
    ax.set(title=name, xlabel="task", xticks=range(n_tasks))
axes[0].set_yticks(range(4), labels=kernels)
fig.colorbar(image, ax=axes, label="weight of the kernel")
plt.show()
