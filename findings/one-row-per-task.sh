#!/bin/sh
# Question: what do mixedlm (lme4's interface in Python) and GPBoost estimate for a random
#   intercept if each task has a single row?
# Guess: an error, as lme4 raises: the level of a task and the noise are the same.
# Happened: both return two variances without a word. Only their sum is estimated; the
#   split depends on the start of the optimizer. mixedlm does refuse a single group.
# Matters: shrinkage and predictions of new rows depend on the arbitrary split.
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scipy==1.16.3 scikit-learn==1.9.1 gpboost==1.8.0 \
    mixedlm==1.3.0
check <<'EOF'
import numpy as np
from gpboost import GPModel
from mixedlm import lmer
from facts import error_of, fact, grouped_data

data = grouped_data(n_tasks=30, n_rows=1)
formula = "y ~ x + (1 | task)"
fit = lmer(formula, data)
between = fit.VarCorr().as_dict()["task"]["(Intercept)"]
fact("mixedlm: variance of tasks, of noise", [between, fit.sigma**2], [1.1952, 1.2379],
     0.01)
model = GPModel(group_data=data.task.to_numpy())
model.fit(y=data.y.to_numpy(), X=np.column_stack([np.ones(30), data.x]))
noise, group = np.ravel(model.get_cov_pars())
fact("GPBoost: variance of tasks, of noise", [group, noise], [1.1355, 1.1355], 0.01)
least_squares = np.polyfit(data.x, data.y, 1, full=True)[1][0]
fact("REML: sum / residual variance", (between + fit.sigma**2) / (least_squares / 28), 1.0,
     0.01)
fact("ML: sum / residual variance", (group + noise) / (least_squares / 30), 1.0, 0.01)
single = data.assign(task=0)
fact("a single group: error", error_of(lambda: lmer(formula, single)), "ModelCheckError")
EOF
