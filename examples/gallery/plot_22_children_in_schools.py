"""
Children in schools: a second grouping factor
=============================================

Children in schools are tested in mathematics every year. Schools are the tasks;
``levels`` gives each child a level as well. The table of American primary schools is
used if it is installed (``mtlrun data fetch egsingle``); otherwise a simulated table of
the same shape is used, as the title of the figure then states.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mtlrun.data.sets.load import load_dataset
from mtlrun.errors import DataError
from mtlrun.estimators import SmoothMTL
from mtlrun.show.palette import MULTITASK

try:
    table = load_dataset("egsingle", drop=["rownames"])
    X = pd.DataFrame(table.X, columns=table.features)[["year", "childid"]]
    math, school = table.y, table.task_id
    source = "egsingle"
except DataError:
    rng = np.random.default_rng(0)
    child = np.repeat(np.arange(1720), 4)
    year = rng.integers(0, 3, 1720)[child] + np.tile(np.arange(4), 1720) - 2.5
    school = child // 29
    level = (0.4 * rng.normal(size=60))[school] + (0.8 * rng.normal(size=1720))[child]
    math = level + 0.75 * year - 0.06 * year**2 + 0.5 * rng.normal(size=child.size)
    X = pd.DataFrame({"year": year, "childid": child})
    source = "simulated data"

# %%
# Every fifth row of the first 20 schools is held out: mostly another year of a child
# with rows in training. Columns in ``levels`` name groups and are not features.

keep = school < 20
X, math, school = X[keep], math[keep], school[keep]
held_out = np.random.default_rng(1).random(len(math)) < 0.2
train = ~held_out
for levels in ([], ["childid"]):
    columns = X[["year", *levels]]
    model = SmoothMTL(levels=levels)
    model.fit(columns[train], math[train], task_id=school[train])
    predicted = model.predict(columns[held_out], task_id=school[held_out])
    error = np.sqrt(np.mean((math[held_out] - predicted) ** 2))
    print(f"levels={levels}: RMSE {error:.2f}")

# %%
# The second model shows where the variance comes from, and how achievement grows in
# each school.

shares = dict.fromkeys(("noise", "children", "schools", "common curve"), 0.0)
for part, share in model.variance_shares_.items():
    name = "common curve" if part in model.common_parts else "schools"
    name = "children" if "childid" in part else name
    shares[part if part == "noise" else name] += share
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.barh(list(shares), [100 * share for share in shares.values()])
left.set(xlabel="share of the variance in %", title="Where scores differ")
for t in model.tasks_:
    curve = model.partial_dependence(0, task=t)
    label = None if t else "single schools"
    right.plot(curve.values, curve.mean, color="0.7", lw=0.8, label=label)
common = model.partial_dependence(0)
right.fill_between(common.values, *common.interval(), alpha=0.3, color=MULTITASK.color)
right.plot(common.values, common.mean, color=MULTITASK.color, label="all schools")
right.set(xlabel="year, centered", ylabel="mathematics", title="Growth by school")
right.legend(loc="upper left", frameon=False)
fig.suptitle(f"Children in 20 schools: {source}")
plt.show()
