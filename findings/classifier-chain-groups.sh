#!/bin/sh
# Question: a ClassifierChain with cv builds its features from predictions by
#   cross-validation. Can these folds keep groups together, with metadata routing?
# Guess: yes: ClassifierChain(cv=GroupKFold(3)).fit(X, Y, groups=g).
# Happened: scikit-learn 1.9 routes groups to the splitters of RidgeCV, LassoCV and
#   CalibratedClassifierCV, but not to the one of a chain: TypeError. Folds with groups
#   can only be passed as a list of index pairs.
# Matters: with rows that repeat, later labels of a chain learn from leaked predictions.
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scipy==1.16.3 scikit-learn==1.9.1
check <<'EOF'
import numpy as np
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.multioutput import ClassifierChain
from facts import error_of, fact, grouped_data

sklearn.set_config(enable_metadata_routing=True)
data = grouped_data(n_tasks=20)
X = data[["x"]].to_numpy()
Y = np.column_stack([data.y > 1, data.x > 0]).astype(int)
groups = data.task.to_numpy()
base = LogisticRegression()
calibrated = CalibratedClassifierCV(base, cv=GroupKFold(3))
fact("CalibratedClassifierCV",
     error_of(lambda: calibrated.fit(X, Y[:, 0], groups=groups)), "none")
chain = ClassifierChain(base, cv=GroupKFold(3))
fact("ClassifierChain", error_of(lambda: chain.fit(X, Y, groups=groups)), "TypeError")
folds = list(GroupKFold(3).split(X, groups=groups))
listed = ClassifierChain(base, cv=folds)
fact("ClassifierChain with a list of folds", error_of(lambda: listed.fit(X, Y)), "none")
EOF
