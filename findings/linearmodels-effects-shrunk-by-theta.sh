#!/bin/sh
# Question: are the `estimated_effects` of RandomEffects of linearmodels, in a balanced
#   panel, the best linear predictors of the levels of the entities, from its own variances?
# Guess: yes: the mean residual of an entity times s2_u / (s2_u + s2_e / n).
# Happened: no. The factor is theta, by which means are subtracted before the least
#   squares. It is smaller: here .59 where the variances give .83.
# Matters: levels of entities and predictions with `effects=True` are shrunk too much.
. "$(dirname "$0")/setup"
install numpy==2.4.6 scipy==1.17.1 pandas==2.3.3 linearmodels==7.1
check <<'EOF'
import numpy as np
from facts import fact, grouped_data
from linearmodels import RandomEffects

data = grouped_data(n_tasks=60, n_rows=4).assign(constant=1.0)
data["time"] = np.tile(np.arange(4), 60)
data = data.set_index(["task", "time"])
X = data[["constant", "x"]]
result = RandomEffects(data["y"], X).fit()


def by_task(values):
    return values.groupby(level="task").mean()


residual = by_task(data["y"] - X @ result.params)
effect = by_task(result.estimated_effects["estimated_effects"])
factor = (effect / residual).to_numpy()
theta = result.theta["theta"].iloc[0]
variances = result.variance_decomposition
best = variances["Effects"] / (variances["Effects"] + variances["Residual"] / 4)
fact("one factor for all entities", bool(np.ptp(factor) < 1e-8), True)
fact("it is theta", bool(abs(factor[0] - theta) < 1e-8), True)
fact("theta and the factor of the variances", [theta, best], [0.587, 0.83], 0.001)
fact("the latter is 1 - (1 - theta)^2", bool(abs(best - 1 + (1 - theta) ** 2) < 1e-8), True)
EOF
