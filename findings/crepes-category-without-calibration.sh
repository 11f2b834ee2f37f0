#!/bin/sh
# Question: which interval does a Mondrian regressor give rows of a category that has no
#   calibration rows, such as a new task?
# Guess: an infinite one, or an error.
# Happened: [0, 0], of width 0, whatever is predicted. It does not contain the prediction.
# Matters: with tasks as categories, a new task looks certain.
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scikit-learn==1.9.1 crepes==0.9.1
check <<'EOF'
import numpy as np
from crepes import WrapRegressor
from sklearn.linear_model import LinearRegression
from facts import fact

rng = np.random.default_rng(0)
task = np.repeat([0, 1], 200)
x = rng.normal(size=400)
y = 5 + x + rng.normal(size=400)
X = np.c_[task, x]
model = WrapRegressor(LinearRegression())
model.fit(X[::2], y[::2])
model.calibrate(X[1::2], y[1::2], mc=lambda rows: rows[:, 0])
rows = np.array([[0, 0.0], [1, 0.0], [2, 0.0]])
predictions = model.predict(rows).round().tolist()
intervals = model.predict_int(rows, confidence=0.9)
widths = np.ptp(intervals, axis=1)
fact("predictions", predictions, [5.0, 5.0, 5.0])
fact("known tasks have wide intervals", bool((widths[:2] > 2).all()), True)
fact("interval of the new task", intervals[2].tolist(), [0.0, 0.0])
EOF
