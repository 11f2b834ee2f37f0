#!/bin/sh
# Question: a mixed model is fitted with the integer task ids 0, 1, ...; new rows have the
#   same ids as floats (a missing value somewhere in the file is enough) or as text. Are
#   they recognized by GPBoost, pyfixest and mixedlm?
# Guess: 1.0 is, "1" is not.
# Happened: three answers. GPBoost compares texts: "1" is the task, 1.0 is a new one, and
#   gets the population mean in silence. pyfixest: "1" is the task, 1.0 is NaN. mixedlm
#   takes all three as the same task.
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scipy==1.16.3 scikit-learn==1.9.1 gpboost==1.8.0 \
    pyfixest==0.60.0 mixedlm==1.3.0
check <<'EOF'
import numpy as np
import pandas as pd
from gpboost import GPModel
from mixedlm import lmer
from pyfixest import feols
from facts import fact, grouped_data

data = grouped_data(task_std=3)
X = np.column_stack([np.ones(len(data)), data.x])
gpboost = GPModel(group_data=data.task.to_numpy())
gpboost.fit(y=data.y.to_numpy(), X=X)
pyfixest = feols("y ~ x | task", data)
mixedlm = lmer("y ~ x + (1 | task)", data)


def predict(task):
    row = np.array([[1.0, 0.0]])
    new = pd.DataFrame({"x": [0.0], "task": [task]})
    by_gpboost = gpboost.predict(X_pred=row, group_data_pred=np.array([task]))["mu"][0]
    by_pyfixest = pyfixest.predict(newdata=new)[0]
    by_mixedlm = mixedlm.predict(new, allow_new_levels=True)[0]
    return np.array([by_gpboost, by_pyfixest, by_mixedlm], dtype=float)


expected = predict(1)
for task, seen in ((1.0, [False, False, True]), ("1", [True, True, True])):
    same = np.isclose(predict(task), expected).tolist()
    fact(f"{task!r} is task 1 for GPBoost, pyfixest, mixedlm", same, seen)
population = gpboost.predict(
    X_pred=np.array([[1.0, 0.0]] * 2), group_data_pred=np.array([1.0, 999.0])
)["mu"]
fact("GPBoost: 1.0 minus a new task", population[0] - population[1], 0.0, 1e-9)
fact("pyfixest: 1.0 is NaN", bool(np.isnan(predict(1.0)[1])), True)
EOF
