#!/bin/sh
# Question: with a group per feature, does GroupLasso of group-lasso agree with
#   scikit-learn's MultiTaskLasso of the same strength? Its `loss` is the same objective,
#   the squared error over twice the rows plus the sum of the norms.
# Guess: yes, up to its tolerance.
# Happened: no. It agrees with twice the strength: the gradient in its step is halved, the
#   penalty is not. Its own loss is lower at the solution of MultiTaskLasso.
# Matters: strengths and numbers of selected features of the two cannot be compared.
. "$(dirname "$0")/setup"
install numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 group-lasso==1.5.0
check <<'EOF'
import numpy as np
from facts import fact
from group_lasso import GroupLasso
from sklearn.linear_model import MultiTaskLasso

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 6))
X -= X.mean(axis=0)
coef = np.zeros((6, 3))
coef[:2] = rng.normal(size=(2, 3))
Y = X @ coef + 0.1 * rng.normal(size=(400, 3))
model = GroupLasso(
    groups=np.arange(6),
    group_reg=0.1,
    l1_reg=0,
    n_iter=20000,
    tol=1e-12,
    supress_warning=True,
).fit(X, Y)


def solution(alpha):
    return MultiTaskLasso(alpha=alpha, tol=1e-10, max_iter=10000).fit(X, Y)


def distance(alpha):
    return np.abs(solution(alpha).coef_.T - model.coef_).max()


fact("distance from the same strength above 0.01", bool(distance(0.1) > 0.01), True)
fact("distance from twice the strength below 1e-4", bool(distance(0.2) < 1e-4), True)
its_loss = model.loss(X, Y)
model.coef_ = solution(0.1).coef_.T
model.intercept_ = solution(0.1).intercept_[None, :]
ratio = model.loss(X, Y) / its_loss
fact("its own loss, there over here", ratio, 0.971, tolerance=0.005)
EOF
