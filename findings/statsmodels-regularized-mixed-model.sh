#!/bin/sh
# Question: does MixedLM.fit_regularized (the lasso on fixed effects) work with a formula?
# Guess: yes, as `fit` does.
# Happened: KeyError: 0 with pandas 3. The coefficients are a Series with names, and the
#   loop reads them by position, which pandas 3 no longer allows. The same model built
#   from arrays works.
# Matters: pass endog, exog and groups as arrays.
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scipy==1.16.3 statsmodels==0.15.0
check <<'EOF'
import numpy as np
import statsmodels.api as sm
import statsmodels.formula.api as smf
from facts import error_of, fact, grouped_data

data = grouped_data()
by_formula = smf.mixedlm("y ~ x", data, groups="task")
options = {"method": "l1", "alpha": 5.0}
fact("formula", error_of(lambda: by_formula.fit_regularized(**options)), "KeyError")
exog = np.column_stack([np.ones(len(data)), data.x])
by_array = sm.MixedLM(data.y.to_numpy(), exog, data.task.to_numpy())
fit = by_array.fit_regularized(**options)
fact("arrays: intercept and slope", fit.params[:2], [0.4836, 2.2440], 0.01)
EOF
