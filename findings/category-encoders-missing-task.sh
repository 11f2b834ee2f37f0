#!/bin/sh
# Question: what does the TargetEncoder of category_encoders give to rows without a task?
#   Its documentation: handle_missing="value" returns the mean of the target.
# Guess: the overall mean of the target.
# Happened: only if training had no such row. Otherwise missing is a task of its own, and
#   its rows get their (shrunk) mean.
# Matters: rows of many tasks are encoded as one task.
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scipy==1.16.3 scikit-learn==1.9.1 \
    statsmodels==0.15.0 category-encoders==2.11.2
check <<'EOF'
import numpy as np
import pandas as pd
from category_encoders import TargetEncoder
from facts import fact

y = pd.Series(np.r_[np.zeros(40), np.ones(40), np.full(40, 5.0)])
task = pd.Series(np.repeat(["a", "b", "c"], 40))
gap = pd.DataFrame({"task": [np.nan]})
gap["task"] = gap.task.astype("str")
complete = TargetEncoder(cols=["task"]).fit(task.to_frame("task"), y)
fact("overall mean", float(y.mean()), 2.0)
fact("none missing in training", float(complete.transform(gap).task[0]), 2.0, 1e-9)
with_gaps = task.mask(task == "c").to_frame("task")
encoder = TargetEncoder(cols=["task"]).fit(with_gaps, y)
fact("the third task missing in training", float(encoder.transform(gap).task[0]), 4.643,
     0.01)
EOF
