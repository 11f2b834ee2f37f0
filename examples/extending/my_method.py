"""A custom method: ridge regression per task that shrinks towards the pooled one."""

import numpy as np
import pandas as pd

import mtlrun
from mtlrun.estimators.base import BaseMTL, RegressorMTL
from mtlrun.estimators.params import Positive
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData


class TowardsPooled(RegressorMTL, BaseMTL):
    """Ridge regression per task that shrinks towards a pooled one.

    v = argmin ||y - X v||^2 + common ||v||^2 over all rows, and then
    w_t = argmin ||y_t - X_t w||^2 + alpha ||w - v||^2 for each task.
    """

    alpha: Positive = 1.0
    common: Positive = 1.0

    def _fit_data(self, data: TaskData) -> SolverResult:
        tasks = [
            data.task(t) for t in range(data.n_tasks)
        ]  # (X, y, weights or None), missing targets have weight 0
        grams, crosses = zip(*(_moments(*task) for task in tasks), strict=True)
        eye = np.eye(len(crosses[0]))
        v = np.linalg.solve(sum(grams) + self.common * eye, sum(crosses))
        W = [
            np.linalg.solve(G + self.alpha * eye, c + self.alpha * v)
            for G, c in zip(grams, crosses, strict=True)
        ]
        W = np.column_stack(W)
        # One part (features + intercept, tasks); the last row is the intercept.
        return SolverResult(
            parts=W[np.newaxis, :-1], intercept=W[-1], converged=True, n_iter=1
        )


def _moments(X, y, weights):
    """Return X'X and X'y with a column of ones behind X."""
    X = X.toarray() if hasattr(X, "toarray") else X
    X = np.column_stack([X, np.ones(len(y))])
    weighted = X if weights is None else weights[:, None] * X
    return X.T @ weighted, weighted.T @ y


def main() -> object:
    """Compare the method with methods of mtlrun on simulated schools."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(240, 3)), columns=["hours", "age", "sleep"])
    rows["school"] = np.repeat([f"school {k}" for k in range(12)], 20)
    rows["grade"] = rows[["hours", "age", "sleep"]] @ [2.0, 0.5, 0.0] + rng.normal(
        size=240
    )
    # package.module:Class; here the module lies in the current folder or on PYTHONPATH
    result = mtlrun.compare(
        rows,
        target="grade",
        task="school",
        methods=["my_method:TowardsPooled", "GraphMTL"],
        splits=2,
    )
    print(result.leaderboard[["method", "rmse"]].to_string(index=False))
    return result


if __name__ == "__main__":
    main()
