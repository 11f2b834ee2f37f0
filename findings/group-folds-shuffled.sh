#!/bin/sh
# Question: does GroupKFold still balance the rows of its folds with shuffle=True?
# Guess: yes; shuffling only changes which groups meet.
# Happened: no. Groups are dealt out by number, whatever their size.
# Matters: with a few large tasks and many small ones, folds of 8 and 38 rows; averages
#   over folds weight rows unequally.
. "$(dirname "$0")/setup"
install numpy==2.4.6 scipy==1.16.3 scikit-learn==1.9.1
check <<'EOF'
import numpy as np
from sklearn.model_selection import GroupKFold
from facts import fact

groups = np.r_[np.repeat([0, 1, 2], 30), np.arange(3, 33)]


def sizes(splitter):
    return [len(test) for _, test in splitter.split(groups, groups=groups)]


def group_counts(splitter):
    folds = splitter.split(groups, groups=groups)
    return [len(np.unique(groups[test])) for _, test in folds]


plain = GroupKFold(4)
shuffled = GroupKFold(4, shuffle=True, random_state=0)
fact("rows of folds", sizes(plain), [30, 30, 30, 30])
fact("groups of folds", group_counts(plain), [1, 1, 1, 30])
fact("shuffled: rows of folds", sizes(shuffled), [38, 8, 37, 37])
fact("shuffled: groups of folds", group_counts(shuffled), [9, 8, 8, 8])
EOF
