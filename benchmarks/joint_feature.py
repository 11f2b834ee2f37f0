"""Joint feature selection on a shared design: seconds until the answer is certified, against scikit-learn's.

Both minimise 1/2 ||Y - XW - b||^2 + alpha sum of row norms; scikit-learn divides by the rows.
"""

import time
import warnings

import numpy as np
from sklearn.linear_model import MultiTaskLasso

from mtlrun.estimators.catalogue import JointFeatureMTL


def main() -> None:
    """Print seconds, iterations and objectives for three strengths of regularisation."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    n, d, tasks = 1000, 500, 50
    W = np.zeros((d, tasks))
    W[:30] = rng.standard_normal((30, tasks))
    X = rng.standard_normal((n, d))
    Y = X @ W + rng.standard_normal((n, tasks))
    largest = np.linalg.norm((X - X.mean(0)).T @ (Y - Y.mean(0)), axis=1).max()
    JointFeatureMTL(alpha=largest).fit(X[:50], Y[:50])  # compiled code and thread pools are warm after this

    def objective(coef: np.ndarray, intercept: np.ndarray, alpha: float) -> float:
        return 0.5 * ((Y - X @ coef.T - intercept) ** 2).sum() + alpha * np.linalg.norm(coef, axis=0).sum()

    print(f"n = {n}, d = {d}, {tasks} tasks; tolerance 1e-6 of the relative gap")
    for share in (0.5, 0.1, 0.01):
        alpha = share * largest
        begun = time.perf_counter()
        ours = JointFeatureMTL(alpha=alpha, tol=1e-6, max_iter=10_000).fit(X, Y)
        between = time.perf_counter()
        theirs = MultiTaskLasso(alpha=alpha / n, tol=1e-6, max_iter=10_000).fit(X, Y)
        ended = time.perf_counter()
        print(f"alpha = {share:4.2f} alpha_max")
        for name, model, seconds in (("mtlrun", ours, between - begun), ("scikit-learn", theirs, ended - between)):
            value = objective(model.coef_, model.intercept_, alpha)
            print(f"  {name:12}  {seconds:7.3f} s  {model.n_iter_:5d} iterations  objective {value:.6f}")


if __name__ == "__main__":
    main()
