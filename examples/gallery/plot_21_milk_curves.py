"""
A curve for every cow
=====================

How does the protein in milk change over the weeks after calving, and does every cow
follow the same course? The table of 79 cows is used if it is installed (``mtlrun data
fetch milk``); otherwise a simulated table of the same shape is used, as the title of
the figure then states. Each cow is a task with about 17 rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.data.sets.load import load_dataset
from mtlrun.errors import DataError
from mtlrun.estimators import HierarchicalMTL, SmoothMTL
from mtlrun.show.palette import MULTITASK, POOLED

try:
    table = load_dataset("milk")
    week, protein, cow = table.X[:, :1], table.y, table.task_id
    source = "milk of 79 cows"
except DataError:
    rng = np.random.default_rng(0)
    cow = np.repeat(np.arange(79), 17)
    week = np.tile(np.arange(1.0, 18.0), 79)[:, None]
    shift, turn = rng.normal(size=(2, 79))[:, cow]
    course = 3.4 + 0.6 * np.exp(-week[:, 0] / 2) + 0.15 * shift
    wave = 0.15 * np.sin(week[:, 0] / 3 + 2 * turn)
    protein = course + wave + 0.13 * rng.normal(size=cow.size)
    source = "simulated data"
print(f"{source}: {len(protein)} rows")

# %%
# Half of the rows of every cow are held out, at random: weeks between those of the
# training rows. Straight lines per cow miss the decrease in the first weeks; curves
# follow it. Neither model was tuned.

held_out = np.random.default_rng(1).random(len(protein)) < 0.5
train = ~held_out
for model in (HierarchicalMTL(), SmoothMTL()):
    model.fit(week[train], protein[train], task_id=cow[train])
    error = protein[held_out] - model.predict(week[held_out], task_id=cow[held_out])
    print(f"{type(model).__name__}: RMSE {np.sqrt(np.mean(error**2)):.3f}")

# %%
# The cows with the lowest, the middle and the highest curve. The line is the
# curve of the cow with its 95% band, the gray line that of all cows. Bands are narrow
# where the cow has rows; open circles were held out.

level = [model.partial_dependence(0, task=t).mean.mean() for t in model.tasks_]
order = np.argsort(level)
common = model.partial_dependence(0)
fig, axes = plt.subplots(1, 3, figsize=(9, 3.4), sharey=True, layout="constrained")
names = ("lowest", "middle", "highest")
blue, gray = MULTITASK.color, POOLED.color
for ax, name, t in zip(axes, names, order[[0, len(order) // 2, -1]], strict=True):
    curve = model.partial_dependence(0, task=model.tasks_[t])
    ax.fill_between(curve.values, *curve.interval(), alpha=0.25, color=blue, lw=0)
    ax.plot(curve.values, curve.mean, color=blue, label="this cow, 95% band")
    ax.plot(common.values, common.mean, "-.", color=gray, label="all cows")
    for rows, face, label in (
        (train, "0.2", "training"),
        (held_out, "none", "held out"),
    ):
        rows = rows & (cow == model.tasks_[t])
        ax.scatter(week[rows], protein[rows], 16, face, edgecolor="0.2", label=label)
    ax.set(title=f"{name} curve", xlabel="weeks after calving")
axes[0].set_ylabel("protein in %")
fig.suptitle(f"Protein by week: {source}")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
plt.show()
