"""
Features enter together
=======================

Along the path of the joint-feature penalty a feature enters for all tasks at once. Four of thirty features are real;
they enter first.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import JointFeatureMTL

rng = np.random.default_rng(0)
n_tasks, n_features, n_rows, n_real = 8, 30, 25, 4
W = np.zeros((n_tasks, n_features))
W[:, :n_real] = rng.normal(size=(n_tasks, n_real))
task = np.repeat(np.arange(n_tasks), n_rows)
X = rng.normal(size=(task.size, n_features))
y = (X * W[task]).sum(axis=1) + 1.5 * rng.normal(size=task.size)

# %%
# ``path`` returns the coefficients for many strengths; each fit starts from the one before.

path = JointFeatureMTL(task_column=-1).path(np.column_stack([X, task]), y, alphas=40)
norms = np.linalg.norm(path.coef, axis=1)

fig, ax = plt.subplots(layout="constrained")
for j in range(n_features):
    real = j < n_real
    label = {0: "real features", n_real: "noise"}.get(j)
    ax.plot(
        path.alphas,
        norms[:, j],
        color="tab:red" if real else "0.6",
        lw=2 if real else 1,
        label=label,
        zorder=2 + real,
    )
ax.set(
    xscale="log",
    xlabel="strength alpha (weaker to the right)",
    ylabel="norm of the feature's row of W",
)
ax.invert_xaxis()
ax.legend()
plt.show()
