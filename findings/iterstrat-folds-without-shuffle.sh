#!/bin/sh
# Question: does MultilabelStratifiedKFold give the same folds twice with shuffle=False,
#   which is its default?
# Guess: yes; nothing is random without shuffling, as in scikit-learn's folds.
# Happened: no. Ties are broken by numpy's global generator. With shuffle=False a
#   random_state does not help: it is an error.
# Matters: scores change from run to run. Use shuffle=True with a random_state.
. "$(dirname "$0")/setup"
install numpy==2.4.6 scipy==1.16.3 scikit-learn==1.9.1 iterative-stratification==0.1.9
check <<'EOF'
import numpy as np
from iterstrat.ml_stratifiers import MultilabelStratifiedKFold
from facts import error_of, fact

Y = np.random.default_rng(0).integers(0, 2, (40, 4))


def folds(seed=None, **options):
    if seed is not None:
        np.random.seed(seed)
    splitter = MultilabelStratifiedKFold(4, **options)
    return [test.tolist() for _, test in splitter.split(Y, Y)]


fact("default, twice: equal", folds(seed=1) == folds(seed=2), False)
fact("default, same global seed: equal", folds(seed=1) == folds(seed=1), True)
fact("random_state alone: error", error_of(lambda: folds(random_state=0)), "ValueError")
shuffled = {"shuffle": True, "random_state": 0}
fact("shuffle and random_state, twice: equal", folds(**shuffled) == folds(**shuffled),
     True)
EOF
