#!/bin/sh
# Question: what does MixedLM estimate as the variance between groups if there is one
#   group only (the usual fault: a constant column was taken as group)?
# Guess: an error, or a warning about a singular fit.
# Happened: no warning; converged; the variance between groups equals the variance of the
#   noise, which is its starting value: the likelihood does not depend on it.
#   The standard error of the intercept follows from this arbitrary number.
# Matters: a wrong group column looks like a proper fit with an intraclass correlation
#   of exactly one half.
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scipy==1.16.3 statsmodels==0.15.0
check <<'EOF'
import warnings
import statsmodels.formula.api as smf
from facts import fact, grouped_data

data = grouped_data(n_tasks=1, n_rows=30)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fit = smf.mixedlm("y ~ x", data, groups="task").fit()
fact("warnings", len(caught), 0)
fact("converged", fit.converged, True)
between = float(fit.cov_re.iloc[0, 0])
fact("variance between / (between + noise)", between / (between + fit.scale), 0.5, 1e-6)
least_squares = smf.ols("y ~ x", data).fit()
fact("standard error of the intercept / that of least squares",
     fit.bse["Intercept"] / least_squares.bse["Intercept"], 5.5081, 0.01)
EOF
