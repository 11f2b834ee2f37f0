#!/bin/sh
# Question: how does the standard error of a group variance in the summary of MixedLM
#   change when the target is given in other units (y times 10)?
# Guess: by 100, as the variance itself does.
# Happened: the variance grows by 100, its standard error by 10 only. The variance looks
#   ten times as certain as before. Small units make it look uncertain.
# Matters: whether tasks differ is often read from this row. Compare likelihoods instead.
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scipy==1.16.3 statsmodels==0.15.0
check <<'EOF'
import statsmodels.formula.api as smf
from facts import fact, grouped_data

data = grouped_data(n_tasks=40)
rows = []
for factor in (1, 10):
    scaled = data.assign(y=factor * data.y)
    fit = smf.mixedlm("y ~ x", scaled, groups="task").fit()
    variance, error = fit.summary().tables[1].loc["task Var"].iloc[:2].astype(float)
    rows.append((variance, error))
    fact(f"y times {factor}: variance / its standard error", variance / error,
         {1: 3.50, 10: 34.92}[factor], 0.02)
fact("factor of the variance", rows[1][0] / rows[0][0], 100, 0.1)
fact("factor of its standard error", rows[1][1] / rows[0][1], 10, 0.1)
EOF
