#!/bin/sh
# Question: does the multi-response group lasso of adelie (`glm.multigaussian`, default
#   groups and penalties) have the solution of scikit-learn's MultiTaskLasso of the same
#   strength, or of that times the square root of the number of targets, the usual factor
#   of a group of this size?
# Guess: one of the two.
# Happened: neither. With K targets it is MultiTaskLasso with K sqrt(K) times the strength:
#   the loss is divided by K, too.
# Matters: strengths of the two cannot be compared, nor those of different numbers of
#   targets.
. "$(dirname "$0")/setup"
install numpy==1.26.4 scipy==1.17.1 scikit-learn==1.9.1 adelie==1.1.52
check <<'EOF'
import adelie
import numpy as np
from facts import fact
from sklearn.linear_model import MultiTaskLasso

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 5))
X = np.asfortranarray(X - X.mean(axis=0))
coef = np.zeros((5, 4))
coef[:2] = rng.normal(size=(2, 4))
all_targets = X @ coef + 0.1 * rng.normal(size=(200, 4))


def distance(n_targets, power):
    Y = np.asfortranarray(all_targets[:, :n_targets])
    path = adelie.grpnet(
        X=X,
        glm=adelie.glm.multigaussian(y=Y),
        lmda_path=[0.05],
        progress_bar=False,
        tol=1e-12,
    )
    theirs = path.betas.toarray().reshape(5, n_targets)
    alpha = 0.05 * n_targets**power
    model = MultiTaskLasso(alpha=alpha, tol=1e-10, max_iter=10000).fit(X, Y)
    return np.abs(model.coef_.T - theirs).max()


for n_targets in (2, 4):
    text = f"{n_targets} targets, distance from MultiTaskLasso with strength times K^"
    fact(text + "0 above .01", bool(distance(n_targets, 0) > 0.01), True)
    fact(text + "0.5 above .01", bool(distance(n_targets, 0.5) > 0.01), True)
    fact(text + "1.5 below 1e-5", bool(distance(n_targets, 1.5) < 1e-5), True)
EOF
