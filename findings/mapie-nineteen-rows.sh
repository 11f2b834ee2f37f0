#!/bin/sh
# Question: from how many calibration rows on does a split conformal interval at 95%
#   exist? In theory from 19: the largest of 19 residuals covers with 19/20.
# Guess: MAPIE and crepes both return it.
# Happened: crepes does; MAPIE raises ValueError for 19 and needs 20.
# Matters: with one calibration set per task, tasks of exactly 1/alpha - 1 rows fail.
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scipy==1.16.3 scikit-learn==1.9.1 crepes==0.9.1 \
    mapie==1.6.0
check <<'EOF'
import numpy as np
from crepes import ConformalRegressor
from mapie.regression import SplitConformalRegressor
from sklearn.dummy import DummyRegressor
from facts import error_of, fact

residuals = np.random.default_rng(0).normal(size=20)
X = np.zeros((20, 1))
zero = DummyRegressor(strategy="constant", constant=0.0).fit(X, residuals)
for n, crepes_outcome, mapie_outcome in ((19, True, "ValueError"), (20, True, "none")):
    conformal = ConformalRegressor().fit(residuals[:n])
    upper = conformal.predict_int(np.zeros(1), confidence=0.95)[0, 1]
    is_largest = bool(np.isclose(upper, np.abs(residuals[:n]).max()))
    fact(f"crepes, {n} rows: the largest residual", is_largest, crepes_outcome)
    split = SplitConformalRegressor(zero, confidence_level=0.95, prefit=True)
    split.conformalize(X[:n], residuals[:n])
    fact(f"MAPIE, {n} rows: error", error_of(lambda s=split: s.predict_interval(X[:1])),
         mapie_outcome)
EOF
