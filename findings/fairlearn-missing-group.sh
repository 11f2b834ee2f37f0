#!/bin/sh
# Question: what does MetricFrame do with rows whose group is missing?
# Guess: they count in the overall value and are dropped from the values by group, as
#   pandas' groupby does.
# Happened: version 0.15 refuses them with ValueError.
# Matters: fill or drop the gaps first, and say which; rows without a task then count
#   in both or in neither.
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scipy==1.16.3 scikit-learn==1.9.1 fairlearn==0.15.0
check <<'EOF'
import numpy as np
from fairlearn.metrics import MetricFrame, count
from facts import error_of, fact

y = np.array([0, 1, 0, 1, 1])


def by_group(groups):
    return MetricFrame(metrics=count, y_true=y, y_pred=y, sensitive_features=groups)


complete = np.array(["a", "a", "b", "b", "b"], dtype=object)
fact("rows by group", by_group(complete).by_group.tolist(), [2, 3])
for missing in (None, np.nan):
    gap = np.array(["a", "a", "b", "b", missing], dtype=object)
    fact(f"a group that is {missing}", error_of(lambda g=gap: by_group(g)), "ValueError")
EOF
