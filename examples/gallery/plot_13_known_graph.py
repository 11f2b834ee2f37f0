"""
A known graph of tasks
======================

Splice sites of related organisms follow similar rules, and the tree of life tells which
organisms are related. So the graph is known: this example couples linear SVMs along a
simulated tree of six species.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import GraphSVC, IndependentSVC, PooledSVC
from mtlrun.metrics import auc_per_task
from mtlrun.show.palette import MULTITASK, POOLED, SEPARATE

species = ["worm", "fly", "fish", "mouse", "human", "yeast"]
tree = np.zeros((6, 6))
for a, b in [(0, 1), (2, 3), (2, 4), (3, 4)]:
    tree[a, b] = tree[b, a] = 1
tree[0, 5] = tree[5, 0] = 0.01  # every task needs a neighbor, however far
n_features, n_rows, n_test = 40, 30, 400
models = {
    "separate": IndependentSVC(C=0.01),
    "pooled": PooledSVC(C=0.01),
    "tree": GraphSVC(C=0.1, graph=tree, coupling=10.0),
}
scores = {name: [] for name in models}
for seed in range(6):
    rng = np.random.default_rng(seed)
    animal, insect, spine = 0.4 * rng.normal(size=(3, n_features))
    W = 0.3 * rng.normal(size=(6, n_features))
    W[:5] += 0.5 * animal
    W[:2] += 2 * insect
    W[2:5] += 2 * spine
    W[5] += 2 * 0.4 * rng.normal(size=n_features)
    task, test = np.repeat(np.arange(6), n_rows), np.repeat(np.arange(6), n_test)
    X, Z = (
        rng.normal(size=(task.size, n_features)),
        rng.normal(size=(test.size, n_features)),
    )
    y = np.sign((X * W[task]).sum(axis=1) + 2 * rng.normal(size=task.size))
    truth = np.sign((Z * W[test]).sum(axis=1) + 2 * rng.normal(size=test.size))
    for name, model in models.items():
        found = model.fit(X, y, task_id=task).decision_function(Z, task_id=test)
        scores[name].append(auc_per_task(truth, found, task_id=test))

# %%
# Related species gain; yeast, which has no close neighbor in the tree, gains nothing.

fig, ax = plt.subplots(layout="constrained")
for k, (name, found) in enumerate(scores.items()):
    mean, half = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
    style = (SEPARATE, POOLED, MULTITASK)[k]
    places = np.arange(6) + 0.27 * (k - 1)
    ax.bar(places, mean, 0.25, yerr=half, capsize=2, label=name, color=style.color)
ax.set(ylim=(0.5, 1), ylabel="AUC on new rows (bar: standard error)")
ax.set_xticks(range(6), labels=species)
ax.legend(ncols=3)
plt.show()
