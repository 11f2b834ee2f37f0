#!/bin/sh
# Question: what does a formula of statsmodels with a random intercept in lme4's notation,
#   y ~ x + (1 | task), do for tasks with integer ids?
# Guess: an error, because the bar has no meaning there.
# Happened: patsy evaluates "1 | task" as Python's bitwise OR of two integers and uses the
#   result as a numeric column with a slope. ols and mixedlm take it without a warning.
# Matters: formulas copied from lme4 fit another model. The other formula engine of
#   statsmodels 0.15, formulaic, raises an error.
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scipy==1.16.3 statsmodels==0.15.0 patsy==1.0.3 \
    formulaic==1.2.2
check <<'EOF'
import statsmodels.formula as formula
import statsmodels.formula.api as smf
from facts import error_of, fact, grouped_data

data = grouped_data()
text = "y ~ x + (1 | task)"
plain = smf.ols(text, data).fit()
fact("columns of ols", plain.params.index.tolist(), ["Intercept", "x", "1 | task"])
by_hand = smf.ols("y ~ x + z", data.assign(z=1 | data.task)).fit()
fact("slope of '1 | task' minus that of the column 1 | task",
     plain.params.iloc[2] - by_hand.params["z"], 0.0, 1e-9)
mixed = smf.mixedlm(text, data, groups="task").fit()
fact("parameters of mixedlm", mixed.params.index.tolist(),
     ["Intercept", "x", "1 | task", "task Var"])
formula.options.formula_engine = "formulaic"
fact("error with formulaic", error_of(lambda: smf.ols(text, data)),
     "FormulaSyntaxError")
EOF
