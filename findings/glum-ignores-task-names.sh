#!/bin/sh
# Question: what does glum do with a column of task names in a data frame of pandas 3
#   (type str)?
# Guess: an error that asks for a categorical column.
# Happened: the column is left out of the model, with a warning only. Predictions do not
#   depend on the task.
# Matters: with warnings hidden, a pooled model passes for one with task effects.
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scipy==1.16.3 scikit-learn==1.9.1 glum==3.4.1
check <<'EOF'
import warnings
import numpy as np
from glum import GeneralizedLinearRegressor
from facts import fact, grouped_data

data = grouped_data(task_std=3)
data["task"] = data.task.map("task {}".format)
X = data[["x", "task"]]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = GeneralizedLinearRegressor(alpha=0.01).fit(X, data.y)
fact("type of the column", str(X.task.dtype), "str")
fact("coefficients", model.coef_.shape, (1,))
fact("warnings", sorted({w.category.__name__ for w in caught}), ["UserWarning"])
pooled = GeneralizedLinearRegressor(alpha=0.01).fit(data[["x"]], data.y)
fact("same predictions as without the column",
     bool(np.allclose(model.predict(X), pooled.predict(data[["x"]]))), True)
categories = X.assign(task=X.task.astype("category"))
by_task = GeneralizedLinearRegressor(alpha=0.01).fit(categories, data.y)
fact("coefficients with categories", by_task.coef_.shape, (13,))
EOF
