"""
Partial pooling as shrinkage
============================

How much do people slow down with each day without enough sleep? A hierarchical model
pulls each subject towards the mean: strongly if the subject has few rows, weakly if it
has many. The table of 18 subjects is used if it is installed (``mtlrun data fetch
sleepstudy``); otherwise a simulated table of the same shape is used, as the title of
the figure then states. Every second subject keeps four of its ten days.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.data import load_dataset
from mtlrun.errors import DataError
from mtlrun.estimators import HierarchicalMTL, IndependentRidge
from mtlrun.show.palette import MULTITASK, SEPARATE

try:
    table = load_dataset("sleepstudy")
    days, reaction, subject = table.X[:, 0], table.y, table.task_id
    source = "reaction times of 18 subjects"
except DataError:
    rng = np.random.default_rng(3)
    subject = np.repeat(np.arange(18), 10)
    days = np.tile(np.arange(10.0), 18)
    level = 250 + 25 * rng.normal(size=18)
    slope = 10 + 6 * rng.normal(size=18)
    noise = 25 * rng.normal(size=180)
    reaction = level[subject] + slope[subject] * days + noise
    source = "simulated data"
keep = (subject % 2 == 0) | np.isin(days, (0, 3, 6, 9))
X, y, task = days[keep, None], reaction[keep], subject[keep]
alone = IndependentRidge(1e-6).fit(X, y, task_id=task)
shared = HierarchicalMTL("full").fit(X, y, task_id=task)
print(f"mean slope {shared.mean_coef_[0]:.1f} ms per day")

# %%
# Each arrow starts at the estimate of a separate least-squares fit and ends at the
# partially pooled one. Subjects with four days move further than subjects with ten.
# Nothing was tuned: the estimated variances determine how far.

fig, ax = plt.subplots(layout="constrained")
for offset, size, marker in ((0, 10, "o"), (1, 4, "^")):
    start = np.c_[alone.intercept_, alone.coef_[:, 0]][offset::2]
    end = np.c_[shared.intercept_, shared.coef_[:, 0]][offset::2]
    name = f"{size} days: separate"
    ax.plot(*start.T, marker, color=SEPARATE.color, mfc="white", label=name)
    name = f"{size} days: partially pooled"
    ax.plot(*end.T, marker, color=MULTITASK.color, label=name)
    for a, b in zip(start, end, strict=True):
        ax.annotate("", b, a, arrowprops={"arrowstyle": "->", "color": "0.5"})
center = shared.mean_intercept_, shared.mean_coef_[0]
ax.plot(*center, "k+", markersize=14, label="mean of all subjects")
ax.set(xlabel="reaction time on day 0 in ms", ylabel="slope in ms per day")
ax.set_title(f"Shrinkage: {source}")
ax.legend(fontsize=8)
plt.show()
