"""
A dot per school, with its interval
===================================

Which schools differ from the average? A ranking of raw averages favors small schools,
whose averages vary most. A hierarchical model gives each school an estimate with an
interval.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.estimators import HierarchicalMTL
from mtlrun.show.palette import MULTITASK, SEPARATE

rng = np.random.default_rng(1)
n_schools = 30
sizes = rng.integers(4, 40, n_schools)
school = np.repeat(np.arange(n_schools), sizes)
effect = 2 * rng.normal(size=n_schools)
hours = rng.normal(size=school.size)
grade = 60 + effect[school] + 3 * hours + 6 * rng.normal(size=school.size)

model = HierarchicalMTL("intercept").fit(hours[:, None], grade, task_id=school)
level, std = model.intercept_, model.intercept_std_
raw = np.array([np.mean((grade - 3 * hours)[school == s]) for s in range(n_schools)])
order = np.argsort(level)

# %%
# Open circles are raw averages, adjusted for hours of study; dots are the estimates of
# the model with 95% intervals. Schools with few rows (small circles) are pulled most
# strongly towards the average.

fig, ax = plt.subplots(figsize=(6.4, 6), layout="constrained")
places = np.arange(n_schools)
ax.errorbar(
    level[order],
    places,
    xerr=1.96 * std[order],
    fmt="o",
    color=MULTITASK.color,
    label="hierarchical model",
)
ax.scatter(
    raw[order],
    places,
    s=sizes[order] * 3,
    facecolors="none",
    edgecolors=SEPARATE.color,
)
for n_rows in (5, 20, 40):
    circle = {"s": 3 * n_rows, "fc": "none", "ec": SEPARATE.color}
    ax.scatter([], [], **circle, label=f"raw average of {n_rows} rows")
ax.axvline(model.mean_intercept_, color="gray", linewidth=1)
ax.set(xlabel="level of the school", ylabel="school, sorted", yticks=[])
ax.legend(loc="upper left")
plt.show()
