#!/bin/sh
# Question: can scikit-learn's TargetEncoder encode tasks with folds that keep groups
#   (repeated rows of a person) together?
# Guess: no: cv is a number of folds, and fit_transform takes X and y only.
# Happened: scikit-learn 1.9 takes a splitter, and groups through metadata routing. Each
#   row is encoded from the other groups only. Without routing, groups are refused.
# Matters: the leak of group levels into encodings has a cure now.
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scipy==1.16.3 scikit-learn==1.9.1
check <<'EOF'
import numpy as np
import sklearn
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import TargetEncoder
from facts import error_of, fact, grouped_data

data = grouped_data()
person = np.arange(len(data)) % 4
encoder = TargetEncoder(cv=GroupKFold(4), smooth=1e-9)


def encode():
    return encoder.fit_transform(data[["task"]], data.y, groups=person)[:, 0]


fact("groups without routing: error", error_of(encode), "ValueError")
sklearn.set_config(enable_metadata_routing=True)
encoded = encode()
others = [
    data.y[(data.task == task) & (person != group)].mean()
    for task, group in zip(data.task, person)
]
fact("largest difference to the means of other groups", np.abs(encoded - others).max(),
     0.0, 1e-6)
EOF
