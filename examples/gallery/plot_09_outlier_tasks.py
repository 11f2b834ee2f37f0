"""
Finding outlier tasks
=====================

Robust multi-task learning splits W into a shared low-rank part and a part E whose
columns are zero for all ordinary tasks. The norms of these columns reveal the outliers.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import RobustMTL

rng = np.random.default_rng(0)
n_tasks, n_features, n_rows = 20, 12, 30
W = rng.normal(size=(n_tasks, 2)) @ rng.normal(size=(2, n_features))
outliers = [4, 11, 17]
W[outliers] = 2 * rng.normal(size=(3, n_features))
task = np.repeat(np.arange(n_tasks), n_rows)
X = rng.normal(size=(task.size, n_features))
y = (X * W[task]).sum(axis=1) + rng.normal(size=task.size)

# %%
# A lower penalty ``lam`` makes more tasks outliers, a higher one fewer.

model = RobustMTL(lam=0.75, beta=0.1).fit(X, y, task_id=task)
norms = np.linalg.norm(model.outlier_, axis=1)

fig, ax = plt.subplots(layout="constrained")
colors = ["0.2" if t in outliers else "0.7" for t in range(n_tasks)]
ax.bar(range(n_tasks), norms, color=colors)
ax.plot([], [], "s", color="0.2", label="outlier in truth")
ax.plot([], [], "s", color="0.7", label="ordinary task")
ax.set(xlabel="task", ylabel="norm of the task's column of E", xticks=range(n_tasks))
ax.set_ylim(0, 1.25 * norms.max())
ax.legend(loc="upper center", ncols=2)
plt.show()
