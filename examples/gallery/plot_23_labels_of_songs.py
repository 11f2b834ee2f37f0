"""
Labels of songs share their features
====================================

Which of six emotions does a song evoke? The table of 593 songs is used if it is
installed (``mtlrun data fetch emotions``); otherwise a simulated table of the same
shape is used, as the title of the figure then states. Each label is a task on the same
rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.data.sets.load import load_dataset
from mtlrun.errors import DataError
from mtlrun.estimators import IndependentLogistic, TraceNormMTLClassifier
from mtlrun.metrics import auc_per_task
from mtlrun.show.palette import MULTITASK, SEPARATE

try:
    table = load_dataset("emotions")
    X, Y, labels = table.X, table.y, table.tasks
    source = "593 songs"
except DataError:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(593, 72))
    W = rng.normal(size=(72, 2)) @ rng.normal(size=(2, 6))
    Y = np.where(X @ W + 15 * rng.normal(size=(593, 6)) > 5, 1, -1)
    labels = [f"label {t}" for t in range(6)]
    source = "simulated data"
X = (X - X.mean(axis=0)) / X.std(axis=0)

# %%
# Models learn from 40 to 300 songs. Another hundred songs select the strength, and the
# last 193 are the test set. With few songs, separate models have more coefficients than
# they can estimate; a few factors that all labels share need fewer rows.

sizes, strengths = (40, 75, 150, 300), (3, 10, 30, 100)
models = {"separate": IndependentLogistic(), "trace norm": TraceNormMTLClassifier()}
choice, test = slice(300, 400), slice(400, None)
curves = {name: [] for name in models}
for size in sizes:
    for name, model in models.items():
        best = -np.inf
        for alpha in strengths:
            model.set_params(alpha=alpha).fit(X[:size], Y[:size])
            auc = auc_per_task(Y[choice], model.decision_function(X[choice])).mean()
            if auc > best:
                best, scores = auc, model.decision_function(X[test])
        curves[name].append(auc_per_task(Y[test], scores))
        print(f"{name:10} {size:3} songs: AUC {curves[name][-1].mean():.3f}")

# %%
# Thin lines are labels, thick ones their mean.

colors = (SEPARATE.color, MULTITASK.color)
fig, ax = plt.subplots(layout="constrained")
for name, color in zip(models, colors, strict=True):
    values = np.array(curves[name])
    ax.plot(sizes, values, color=color, alpha=0.3, lw=1)
    ax.plot(sizes, values.mean(axis=1), color=color, lw=2.5, label=name)
ax.set(xlabel="songs for training", ylabel="AUC of the other songs", xscale="log")
ax.set_xticks(sizes, labels=[str(size) for size in sizes])
ax.minorticks_off()
ax.set_title(f"Six labels, {source}")
ax.legend()
plt.show()
