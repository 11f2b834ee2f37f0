"""
Features enter together
=======================

Which measurements predict cadmium, cobalt and copper in soil? Along the path of the
joint-feature penalty, a feature enters for all three metals at once. The table of 359
samples is used if it is installed (``mtlrun data fetch jura``); otherwise a simulated
table with four informative features of fifteen is used, as the title of the figure then
states.
"""

import matplotlib.pyplot as plt
import numpy as np

from mtlrun.data import load_dataset
from mtlrun.errors import DataError
from mtlrun.estimators import JointFeatureMTL
from mtlrun.show.palette import COLORS

try:
    table = load_dataset("jura")
    X, Y, names = table.X, table.y, table.features
    source = "three metals in the soil of the Jura"
except DataError:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(359, 15))
    Y = X[:, :4] @ rng.normal(size=(4, 3)) + 1.5 * rng.normal(size=(359, 3))
    names = [f"real {j}" if j < 4 else f"noise {j}" for j in range(15)]
    source = "simulated data"
X = (X - X.mean(axis=0)) / X.std(axis=0)
Y = (Y - Y.mean(axis=0)) / Y.std(axis=0)

# %%
# ``path`` returns the coefficients for many strengths; each fit starts from the
# previous solution. The height of a line is the norm of the coefficients of one feature
# in the three tasks, in standard deviations.

path = JointFeatureMTL().path(X, Y, alphas=40)
norms = np.linalg.norm(path.coef, axis=1)
first = np.argmax(norms > 0, axis=0)  # position on the path at which a feature enters
first[norms[-1] == 0] = len(norms)
order = np.argsort(first, kind="stable")
print("order of entry:", ", ".join(names[j] for j in order[:6]))

fig, ax = plt.subplots(layout="constrained")
for j in order[6:]:
    ax.plot(path.alphas, norms[:, j], lw=1, color="0.7")
for j, color, line in zip(order[:6], COLORS, 3 * ("-", "--"), strict=False):
    ax.plot(path.alphas, norms[:, j], line, lw=2, color=color, label=names[j])
ax.set(
    xscale="log",
    xlabel="strength alpha (weaker to the right)",
    ylabel="norm of the feature's row of W",
    title=source,
)
ax.invert_xaxis()
ax.legend(title="first to enter")
plt.show()
