#!/bin/sh
# Question: how much of the difference between a task's mean and the overall mean does
#   JamesSteinEncoder keep, for 12 tasks of 8, 80 and 800 rows with noise and tasks of
#   equal variance?
# Guess: 8/9, 80/81, 800/801, as the estimator of James and Stein (and a mixed model)
#   does: the mean of more rows is shrunk less.
# Happened: seven tenths, whatever the number of rows.
# Matters: encodings of large tasks stay far from their means; the number of rows does
#   not lessen the shrinkage, and three or fewer tasks are not shrunk at all.
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scipy==1.16.3 scikit-learn==1.9.1 \
    statsmodels==0.15.0 category-encoders==2.11.2
check <<'EOF'
import numpy as np
from category_encoders import JamesSteinEncoder
from facts import fact, grouped_data


def share_kept(n_tasks, n_rows):
    data = grouped_data(n_tasks=n_tasks, n_rows=n_rows)
    data["task"] = data.task.map("task {}".format)
    y = data.y - 2 * data.x
    encoded = JamesSteinEncoder().fit(data[["task"]], y).transform(data[["task"]])
    means = y.groupby(data.task).transform("mean")
    kept = (encoded.task - y.mean()) / (means - y.mean())
    return float(np.median(kept))


for n_rows, share in ((8, 0.695), (80, 0.703), (800, 0.696)):
    fact(f"12 tasks of {n_rows} rows: share kept", share_kept(12, n_rows), share, 0.01)
fact("3 tasks of 8 rows: share kept", share_kept(3, 8), 1.0, 1e-9)
EOF
