#!/bin/sh
# Question: what does a specification of formulaic, made from training rows, return for a
#   row whose task had no training rows: with `C(task)` in the formula, and with slopes of
#   tasks, `C(task):x`?
# Guess: an error, as patsy raises for a level that it does not know.
# Happened: a warning, and 0 in all columns of tasks. With an intercept that is a row of
#   the reference task, the first one in alphabetical order; with slopes it is a row whose
#   x has no effect. Statsmodels 0.15, which can read formulas with either package, predicts
#   such rows with formulaic and raises with patsy.
# Matters: an unknown task is predicted as if it were another one.
. "$(dirname "$0")/setup"
install numpy==2.4.6 scipy==1.17.1 pandas==2.3.3 formulaic==1.2.2 \
    statsmodels==0.15.0 patsy==1.0.3
check <<'EOF'
import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from facts import error_of, fact
from formulaic import model_matrix
from statsmodels.formula import options

rng = np.random.default_rng(0)
data = pd.DataFrame({"task": np.repeat(["a", "b", "c"], 20), "x": rng.normal(size=60)})
level = data["task"].map({"a": 10.0, "b": 20.0, "c": 30.0})
y = (1 + data["x"]) * level
new = pd.DataFrame({"task": ["a", "b", "unknown"], "x": [1.0, 1.0, 1.0]})


def predictions(formula):
    X = model_matrix(formula, data)
    coef = np.linalg.lstsq(X.to_numpy(float), y.to_numpy(), rcond=None)[0]
    rows = X.model_spec.get_model_matrix(new)
    return (rows.to_numpy(float) @ coef).round(6).tolist()


fact("slopes and levels of tasks: a, b, unknown", predictions("C(task) * x"), [20.0, 40.0, 20.0])
slopes = predictions("C(task) + C(task):x")
fact("slopes without a common one: a, b, unknown", slopes, [20.0, 40.0, 10.0])


def answer():
    model = smf.ols("y ~ C(task) * x", data.assign(y=y)).fit()
    return model.predict(new).round(6).tolist()


options.formula_engine = "patsy"
fact("statsmodels with patsy", error_of(answer), "PatsyError")
options.formula_engine = "formulaic"
fact("statsmodels with formulaic: a, b, unknown", answer(), [20.0, 40.0, 20.0])
EOF
