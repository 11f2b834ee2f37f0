#!/bin/sh
# Question: which weight does celer's GroupLasso give to a group of four columns and one
#   of two, by default?
# Guess: the square root of the size, as in the group lasso of Yuan and Lin and in most
#   packages.
# Happened: one for each. Large groups are penalized less than there; they enter first.
# Matters: a strength taken over from another package selects other groups.
. "$(dirname "$0")/setup"
install numpy==2.4.6 scipy==1.16.3 scikit-learn==1.9.1 celer==0.7.4
check <<'EOF'
import numpy as np
from celer import GroupLasso
from facts import fact

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 6))
y = X @ np.array([1, 1, 0, 0, 0.5, 0.2]) + rng.normal(size=60)


def coefficients(weights):
    groups = [[0, 1, 2, 3], [4, 5]]
    model = GroupLasso(groups=groups, alpha=0.1, weights=weights, tol=1e-10)
    return model.fit(X, y).coef_


default = coefficients(None)
to_ones = np.abs(default - coefficients(np.ones(2))).max()
to_roots = np.abs(default - coefficients(np.sqrt([4.0, 2.0]))).max()
fact("largest difference to weights of one", to_ones, 0.0, 1e-6)
fact("largest difference to square roots of sizes", to_roots, 0.0693, 0.001)
EOF
