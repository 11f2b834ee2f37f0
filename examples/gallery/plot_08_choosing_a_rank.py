"""
The rank that the data support
==============================

The trace norm shrinks singular values. At the strength selected by cross-validation,
the singular values of the three true factors are clearly larger than the rest; separate
least squares has no such gap.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import IndependentRidge, TraceNormMTLCV
from mtlrun.show.palette import DATA_COLOR, MULTITASK, SEPARATE

rng = np.random.default_rng(0)
n_tasks, n_features, n_rows, rank = 25, 15, 20, 3
W = rng.normal(size=(n_tasks, rank)) @ rng.normal(size=(rank, n_features))
task = np.repeat(np.arange(n_tasks), n_rows)
X = rng.normal(size=(task.size, n_features))
y = (X * W[task]).sum(axis=1) + 3 * rng.normal(size=task.size)

trace = TraceNormMTLCV(alphas=30).fit(X, y, task_id=task)
alone = IndependentRidge(1.0).fit(X, y, task_id=task)
print(f"alpha {trace.alpha_:.1f}")

# %%
# Errors of the coefficients are in the legend.

fig, ax = plt.subplots(layout="constrained")
fits = [
    ("separate ridge", alone.coef_, SEPARATE.color),
    ("trace norm", trace.coef_, MULTITASK.color),
    ("truth", W, DATA_COLOR),
]
for name, coef, color in fits:
    values = np.linalg.svd(coef, compute_uv=False)
    label = name if coef is W else f"{name}, error {np.linalg.norm(coef - W):.1f}"
    ax.plot(np.arange(1, values.size + 1), values, "o-", color=color, label=label)
ax.axvspan(0.5, rank + 0.5, color="gray", alpha=0.15)
ax.text(rank + 0.4, ax.get_ylim()[1] * 0.5, "real factors", ha="right", rotation=90)
ax.set(
    xlabel="number of the singular value",
    ylabel="singular value of W",
    xticks=range(1, n_features + 1, 2),
)
ax.legend()
plt.show()
