"""What a type checker sees of the package in the code of others: `make typecheck`.

The lines marked as errors have to be errors: mypy reports marks that are not needed.
"""

import numpy as np

import mtlrun
import mtlrun.estimators
from mtlrun.data import TaskStratifiedKFold
from mtlrun.estimators import JointFeatureMTLCV, PerTask, RobustMTL, TraceNormMTL
from mtlrun.metrics import task_scorer

X = np.zeros((4, 2))
model = TraceNormMTL(alpha=2.0, tol=1e-3).fit(X, X)
coef: np.ndarray = model.coef_
predicted: np.ndarray = RobustMTL(0.5).fit(X, X).predict(X)
chosen: float = JointFeatureMTLCV(alphas=10, cv=TaskStratifiedKFold(2)).fit(X, X).alpha_
path = model.path(X, X, alphas=3)
alphas: np.ndarray = path.alphas
scorer = task_scorer("rmse")
separate = PerTask(model)
result = mtlrun.compare("table.csv", target="y", task="t")
text: str = result.verdict

_ = mtlrun.estimators.TraceNorm  # type: ignore[attr-defined]
TraceNormMTL(alpha="1")  # type: ignore[arg-type]
mtlrun.compare("table.csv", target=3)  # type: ignore[arg-type]
task_scorer("rmse", how="row")  # type: ignore[arg-type]
