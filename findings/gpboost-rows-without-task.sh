#!/bin/sh
# Question: what does GPBoost do with rows whose group is missing?
# Guess: an error, as for a missing target.
# Happened: they become a group of their own, called "nan", with an estimated level. New
#   rows without a group get the level of this group.
# Matters: rows of many tasks are pooled as if they were one task; the variance between
#   groups changes, and nothing is printed.
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scipy==1.16.3 scikit-learn==1.9.1 gpboost==1.8.0
check <<'EOF'
import numpy as np
from gpboost import GPModel
from facts import error_of, fact, grouped_data

data = grouped_data(task_std=3)
X = np.column_stack([np.ones(len(data)), data.x])
task = np.array([f"task {t}" for t in data.task], dtype=object)
task[::5] = np.nan
y = data.y.to_numpy().copy()
model = GPModel(group_data=task)
model.fit(y=y, X=X)
new = np.array([np.nan, "nan", "never seen"], dtype=object)
mean = model.predict(X_pred=np.array([[1.0, 0.0]] * 3), group_data_pred=new)["mu"]
fact("missing group predicted as the group 'nan'", bool(mean[0] == mean[1]), True)
fact("missing group predicted as an unseen group", bool(mean[0] == mean[2]), False)
y[3] = np.nan
model = GPModel(group_data=task)
fact("missing target: error", error_of(lambda: model.fit(y=y, X=X)), "GPBoostError")
EOF
