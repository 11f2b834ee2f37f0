"""
When a fit is finished
======================

The duality gap bounds the distance from the optimum. It is known at every step, while
the distance itself is not, so a solver can stop when it is good enough.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import TraceNormMTL

rng = np.random.default_rng(0)
n_tasks, n_features, n_rows = 10, 40, 30
W = rng.normal(size=(n_tasks, 2)) @ rng.normal(size=(2, n_features))
task = np.repeat(np.arange(n_tasks), n_rows)
X = rng.normal(size=(task.size, n_features)) @ np.diag(
    np.geomspace(1, 0.05, n_features)
)
y = (X * W[task]).sum(axis=1) + 0.5 * rng.normal(size=task.size)

best = TraceNormMTL(alpha=1.0, tol=1e-10, max_iter=50_000).fit(X, y, task_id=task)
steps = [2**k for k in range(2, 10)]
gaps, excess = [], []
for n in steps:
    # With this unreachable tolerance, the fit ends after exactly this many iterations
    # and warns that it has not converged.
    model = TraceNormMTL(
        alpha=1.0, solver="fista", tol=1e-12, max_iter=n, warm_start=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, task_id=task)
    gaps.append(model.gap_)
    excess.append(max(1 - best.objective_[-1] / model.objective_[-1], 1e-12))

# %%
# The gap is always above the true excess, which nobody knows in practice.

fig, ax = plt.subplots(layout="constrained")
ax.plot(steps, gaps, marker="o", label="relative duality gap, known")
ax.plot(steps, excess, marker="s", label="true excess of the objective, unknown")
ax.axhline(1e-4, color="gray", linestyle="--", linewidth=1)
ax.annotate(
    "default tolerance",
    (steps[0], 1e-4),
    xytext=(0, 4),
    textcoords="offset points",
    color="gray",
)
ax.set(
    xscale="log", yscale="log", xlabel="iterations", ylabel="relative to the objective"
)
ax.legend()
plt.show()
