"""
Rare labels gain most
=====================

In multilabel data each label is a task on the same rows. Frequent labels can be learned
separately; rare labels have few positive rows and benefit from sharing.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import IndependentLogistic, TraceNormMTLClassifier
from mtlrun.metrics import auc_per_task
from mtlrun.show.palette import MULTITASK, SEPARATE

n_labels, n_features, n_rows, rank = 24, 40, 400, 3
frequency = np.geomspace(0.02, 0.4, n_labels)
models = {
    "separate": IndependentLogistic(alpha=10),
    "trace norm": TraceNormMTLClassifier(alpha=8),
}
scores = {name: [] for name in models}
for seed in range(4):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(n_features, rank)) @ rng.normal(size=(rank, n_labels))
    X = rng.normal(size=(2 * n_rows, n_features))
    raw = X @ W + 6 * rng.normal(size=(2 * n_rows, n_labels))
    threshold = [np.quantile(raw[:, t], 1 - frequency[t]) for t in range(n_labels)]
    Y = np.where(raw > threshold, 1, -1)
    for name, model in models.items():
        found = model.fit(X[:n_rows], Y[:n_rows]).decision_function(X[n_rows:])
        scores[name].append(auc_per_task(Y[n_rows:], found))

# %%
# Dots are labels, averaged over four draws.

fig, ax = plt.subplots(layout="constrained")
for (name, found), style in zip(scores.items(), (SEPARATE, MULTITASK), strict=True):
    mean = np.nanmean(found, axis=0)
    label = f"{name}, mean {mean.mean():.2f}"
    ax.plot(100 * frequency, mean, style.marker, color=style.color, label=label)
ax.set(xscale="log", xlabel="rows with the label (%)", ylabel="AUC on new rows")
ax.set_xticks([2, 5, 10, 20, 40], labels=["2", "5", "10", "20", "40"])
ax.minorticks_off()
ax.legend()
plt.show()
