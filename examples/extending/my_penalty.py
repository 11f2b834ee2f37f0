"""A custom penalty with a weight per feature, and the model that uses it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mtlrun.estimators.base import RegressorMTL
from mtlrun.estimators.convex import PenalizedMTL
from mtlrun.problem.penalty import Penalty


@dataclass(frozen=True)
class WeightedRows(Penalty):
    """alpha * sum over features of weights[j] * ||W[j, :]||_2, all weights positive."""

    weights: tuple[float, ...] = ()

    def value(self, W):
        """Return the penalty of W (d, T)."""
        return self.alpha * float(np.array(self.weights) @ np.linalg.norm(W, axis=1))

    def prox(self, W, step):
        """Return argmin_V step * value(V) + ||V - W||_F^2 / 2; each row has a
        threshold.
        """
        norms = np.linalg.norm(W, axis=1)
        thresholds = step * self.alpha * np.array(self.weights)
        return (
            W * (1.0 - thresholds / np.maximum(norms, thresholds))[:, None]
            if step * self.alpha > 0
            else W.copy()
        )

    def dual_norm(self, Z):
        """Return the dual norm / alpha, which solvers need for the duality gap."""
        largest = float(np.max(np.linalg.norm(Z, axis=1) / np.array(self.weights)))
        return (
            largest / self.alpha if self.alpha > 0 else (np.inf if largest > 0 else 0.0)
        )


class WeightedFeatureMTL(RegressorMTL, PenalizedMTL):
    """1/2 sum of squared errors + alpha * sum_j weights[j] * ||W[j, :]||_2."""

    weights: Sequence[float] | None = None

    def _penalties(self):
        weights = [1.0] * self.n_features_in_ if self.weights is None else self.weights
        return [WeightedRows(self.alpha, tuple(map(float, weights)))]


def main() -> WeightedFeatureMTL:
    """Fit tasks of different sizes; a high weight keeps the last feature out."""
    rng = np.random.default_rng(0)
    X, school = rng.normal(size=(90, 3)), rng.choice(["north", "south", "west"], 90)
    y = X @ [1.0, 0.5, 0.1] + 0.1 * rng.normal(size=90)
    model = WeightedFeatureMTL(alpha=1.0, weights=[1.0, 1.0, 20.0])
    print("all zero from alpha =", round(model.alpha_max(X, y, task_id=school), 1))
    model.fit(X, y, task_id=school)
    print(
        "relative duality gap",
        f"{model.gap_:.0e}",
        "after",
        model.n_iter_,
        "iterations",
    )
    print(model.coef_.round(2))
    return model


if __name__ == "__main__":
    main()
