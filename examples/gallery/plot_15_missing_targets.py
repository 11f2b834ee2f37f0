"""
Missing targets
===============

An increasing share of twelve targets on the same rows is missing. Separate models lose
rows; low-rank models recover missing values from the other targets.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import IndependentRidge, TraceNormMTLCV
from mtlrun.show.palette import MULTITASK, SEPARATE

n_rows, n_features, n_targets = 120, 20, 12
shares = [0, 0.2, 0.4, 0.6, 0.8]
models = {
    "separate ridge": IndependentRidge(5.0),
    "trace norm": TraceNormMTLCV(alphas=15, cv=3),
}
errors = {name: np.zeros((len(shares), 3)) for name in models}
for seed in range(3):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(n_features, 2)) @ rng.normal(size=(2, n_targets))
    X = rng.normal(size=(n_rows, n_features))
    Y = X @ W + 3 * rng.normal(size=(n_rows, n_targets))
    order = rng.random(Y.shape)
    for i, share in enumerate(shares):
        seen = np.where(order < share, np.nan, Y)  # NaN marks a missing target
        for name, model in models.items():
            errors[name][i, seed] = np.sqrt(
                np.mean((model.fit(X, seen).coef_.T - W) ** 2)
            )

# %%
# Bands span three draws.

fig, ax = plt.subplots(layout="constrained")
percent = 100 * np.array(shares)
colors = (SEPARATE.color, MULTITASK.color)
for (name, found), color in zip(errors.items(), colors, strict=True):
    low, high = found.min(axis=1), found.max(axis=1)
    ax.plot(percent, found.mean(axis=1), "o-", color=color, label=name)
    ax.fill_between(percent, low, high, color=color, alpha=0.2)
ax.set(xlabel="missing targets (%)", ylabel="error of the coefficients", ylim=(0, None))
ax.legend(loc="upper left")
plt.show()
