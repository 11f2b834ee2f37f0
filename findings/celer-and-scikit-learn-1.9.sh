#!/bin/sh
# Question: do the multi-task models of celer run with the newest scikit-learn?
# Guess: yes; its requirements allow it, and pip installs both without complaint.
# Happened: MultiTaskLasso raises AttributeError, the models with cross-validation raise
#   TypeError: scikit-learn removed a private method and the argument n_alphas.
#   GroupLasso still works.
# Matters: pin scikit-learn beside celer, or use skglm.
. "$(dirname "$0")/setup"
install numpy==2.4.6 scipy==1.16.3 scikit-learn==1.9.1 celer==0.7.4
check <<'EOF'
import numpy as np
import celer
from facts import error_of, fact

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 6))
Y = X @ rng.normal(size=(6, 3)) + rng.normal(size=(60, 3))
MODELS = {
    "MultiTaskLasso": ({"alpha": 0.2}, Y, "AttributeError"),
    "MultiTaskLassoCV": ({"cv": 3}, Y, "TypeError"),
    "GroupLassoCV": ({"groups": 2, "cv": 3}, Y[:, 0], "TypeError"),
    "GroupLasso": ({"groups": 2, "alpha": 0.2}, Y[:, 0], "none"),
}


def fit(name):
    options, y, _ = MODELS[name]
    return getattr(celer, name)(**options).fit(X, y)


for name, (_, _, error) in MODELS.items():
    fact(f"{name}: error", error_of(lambda name=name: fit(name)), error)
EOF
