"""
Missing targets
===============

An increasing share of twelve targets on the same rows is missing. Separate models lose
rows; low-rank models recover missing values from the other targets.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import IndependentRidge, TraceNormMTLCV

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
for name, found in errors.items():
    ax.plot(100 * np.array(shares), found.mean(axis=1), marker="o", label=name)
    ax.fill_between(
        100 * np.array(shares), found.min(axis=1), found.max(axis=1), alpha=0.2
    )
ax.set(xlabel="missing targets (%)", ylabel="error of the coefficients", ylim=(0, None))
ax.legend(loc="upper left")
plt.show()
