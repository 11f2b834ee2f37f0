#!/bin/sh
# Question: what does pyGAM predict for a task that had no training rows, with a factor
#   term f(task)?
# Guess: ValueError: out of domain, as it says for ids beyond the largest one.
# Happened: only the ends of the ids are checked. An unseen id between two others gets the
#   level of another task, without a warning.
# Matters: predictions for new tasks belong to some other task.
. "$(dirname "$0")/setup"
install numpy==2.4.6 scipy==1.16.3 pandas==3.1.1 pygam==0.12.0
check <<'EOF'
import numpy as np
from pygam import LinearGAM, f, s
from facts import error_of, fact, grouped_data

data = grouped_data(n_tasks=4, task_std=3)
data = data[data.task != 1]
model = LinearGAM(s(0) + f(1)).fit(data[["x", "task"]].to_numpy(), data.y.to_numpy())


def predict(task):
    return float(model.predict(np.array([[0.0, task]]))[0])


fact("tasks in training", sorted({int(task) for task in data.task}), [0, 2, 3])
fact("task 4: error", error_of(lambda: predict(4)), "ValueError")
fact("task 1: error", error_of(lambda: predict(1)), "none")
fact("prediction of task 1 minus that of task 2", predict(1) - predict(2), 0.0, 1e-9)
fact("task 2 differs from task 0", abs(predict(2) - predict(0)) > 0.1, True)
EOF
