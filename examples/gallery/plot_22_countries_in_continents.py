"""
Countries in continents: a second grouping factor
=================================================

Life expectancy is measured in every country every five years. Continents are the tasks;
``levels`` gives each country a level as well.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mtlrun.estimators import SmoothMTL
from mtlrun.show.palette import COLORS, MULTITASK

table = pd.read_csv("../gapminder.csv")  # a file in the folder examples/

# %%
# Every fifth row is held out: mostly another year of a country with rows in training.
# Columns in ``levels`` name groups and are not features.

held_out = np.random.default_rng(1).random(len(table)) < 0.2
train = ~held_out
life = table.life_expectancy
for levels in ([], ["country"]):
    columns = table[["year", *levels]]
    model = SmoothMTL(levels=levels)
    model.fit(columns[train], life[train], task_id=table.continent[train])
    predicted = model.predict(columns[held_out], task_id=table.continent[held_out])
    error = np.sqrt(np.mean((life[held_out] - predicted) ** 2))
    print(f"levels={levels}: RMSE {error:.1f} years")

# %%
# The second model shows where the variance comes from, and how life expectancy grew in
# each continent.

shares = dict.fromkeys(("noise", "countries", "continents", "common curve"), 0.0)
for part, share in model.variance_shares_.items():
    name = "common curve" if part in model.common_parts else "continents"
    name = "countries" if "country" in part else name
    shares[part if part == "noise" else name] += share
fig, (top, bottom) = plt.subplots(2, 1, figsize=(6, 7), layout="constrained")
top.barh(list(shares), [100 * share for share in shares.values()])
top.set(xlabel="share of the variance in %", title="Where life expectancies differ")
styles = ["-", "--", "-.", ":", "-"]
for t, color, style in zip(model.tasks_, COLORS[2:], styles, strict=False):
    curve = model.partial_dependence(0, task=t)
    bottom.plot(curve.values, curve.mean, style, color=color, label=t)
common = model.partial_dependence(0)
bottom.fill_between(common.values, *common.interval(), alpha=0.2, color=MULTITASK.color)
bottom.plot(common.values, common.mean, color=MULTITASK.color, label="all continents")
bottom.set(
    xlabel="year",
    ylim=(30, 95),
    ylabel="life expectancy in years",
    title="Growth by continent",
)
bottom.legend(ncols=2)
plt.show()
