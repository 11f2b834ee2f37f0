"""
Grid search with task ids
=========================

Two strengths that interact are tuned with scikit-learn's ``GridSearchCV``. The task id
is a column of X, and every fold contains rows of every task.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV

from mtlrun.data import TaskStratifiedKFold
from mtlrun.estimators import DirtyMTL
from mtlrun.metrics import task_scorer

rng = np.random.default_rng(0)
n_tasks, n_features, n_rows = 6, 20, 30
W = np.zeros((n_tasks, n_features))
W[:, :3] = 1 + 0.3 * rng.normal(size=(n_tasks, 3))
W[np.arange(n_tasks), 5 + np.arange(n_tasks)] = 2
task = np.repeat(np.arange(n_tasks), n_rows)
X = rng.normal(size=(task.size, n_features))
y = (X * W[task]).sum(axis=1) + 2 * rng.normal(size=task.size)

alphas, lams = np.geomspace(5, 300, 8), [0.2, 0.3, 0.4, 0.6, 0.8, 0.95]
search = GridSearchCV(
    DirtyMTL(task_column=-1),
    {"alpha": alphas, "lam": lams},
    cv=TaskStratifiedKFold(5, task_column=-1, random_state=0),
    scoring=task_scorer("rmse"),
)
search.fit(np.column_stack([X, task]), y)

# %%
# A best point inside the grid is a good sign; one at the edge asks for a wider grid.

errors = -search.cv_results_["mean_test_score"].reshape(len(alphas), len(lams))
best = np.unravel_index(np.argmin(errors), errors.shape)
fig, ax = plt.subplots(layout="constrained")
image = ax.imshow(errors.T, cmap="viridis_r", origin="lower", aspect="auto")
ax.plot(*best, "*", color="white", mec="black", markersize=18, label="best")
ax.set_xticks(range(len(alphas)), labels=[f"{a:.0f}" for a in alphas])
ax.set_yticks(range(len(lams)), labels=lams)
ax.set(xlabel="alpha", ylabel="lam")
fig.colorbar(image, label="error (RMSE), five folds")
ax.legend()
plt.show()
