#!/bin/sh
# Question: does MultilabelStratifiedKFold stratify labels written as -1 and +1, as
#   MATLAB's data sets of this field have them?
# Guess: yes, as with 0 and 1.
# Happened: no error, but folds are not stratified. It counts values that are not zero, so
#   all labels look positive everywhere. Real-valued targets pass in the same way.
# Matters: folds without positives of a rare label.
. "$(dirname "$0")/setup"
install numpy==2.4.6 scipy==1.16.3 scikit-learn==1.9.1 iterative-stratification==0.1.9
check <<'EOF'
import numpy as np
from iterstrat.ml_stratifiers import MultilabelStratifiedKFold
from facts import error_of, fact

rng = np.random.default_rng(0)
is_positive = rng.uniform(size=(60, 3)) < 0.2


def positives(labels):
    splitter = MultilabelStratifiedKFold(3, shuffle=True, random_state=0)
    return [is_positive[test].sum(axis=0).tolist() for _, test in
            splitter.split(labels, labels)]


def spread(labels):
    return np.ptp(positives(labels), axis=0).tolist()


fact("0 and 1: positives by fold", positives(is_positive.astype(int)),
     [[4, 2, 5], [4, 2, 5], [4, 1, 5]])
signs = np.where(is_positive, 1, -1)
fact("-1 and 1: positives by fold", positives(signs), [[6, 0, 3], [2, 2, 5], [4, 3, 7]])
fact("-1 and 1: largest difference of folds, by label", spread(signs), [4, 3, 4])
fact("real numbers: error", error_of(lambda: positives(rng.normal(size=(60, 3)))), "none")
EOF
