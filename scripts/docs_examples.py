"""A short example for each estimator whose docstring has none, shown on its page of
the API and run by the tests.
"""

from __future__ import annotations

import inspect

from sklearn.base import is_classifier

#: Estimators that wrap another one, and what is imported for it.
WRAPPED = {
    "TaskFeature": (
        "DecisionTreeRegressor(max_depth=3)",
        "from sklearn.tree import DecisionTreeRegressor",
    ),
    "ScaledTargets": (
        "IndependentRidge()",
        "from mtlrun.estimators import IndependentRidge",
    ),
    "DivideAndConquerRMTLClassifier": (
        "RobustMTLClassifier(lam=0.8), n_blocks=2",
        "from mtlrun.estimators import RobustMTLClassifier",
    ),
    "CalibratedTasks": (
        "IndependentLogistic()",
        "from mtlrun.estimators import IndependentLogistic",
    ),
}
#: Settings that make an example short, or free of warnings.
SETTINGS = {"MTNetwork": "max_iter=3"} | dict.fromkeys(
    ("RobustMTLCV", "RobustMTLClassifier", "RobustMTLClassifierCV"), "lam=0.8"
)


def settings(estimator: type) -> str:
    """Return the arguments of an estimator in its example."""
    # With 50 strengths in five folds, some searches take 20 seconds.
    has_path = "min_ratio" in inspect.signature(estimator).parameters
    return SETTINGS.get(estimator.__name__, "alphas=3, cv=2" if has_path else "")


def example(estimator: type) -> list[str]:
    """Return the lines of an example that fits and predicts, with what it prints."""
    name = estimator.__name__
    inner, imported = WRAPPED.get(name, ("", ""))
    labels = (
        name == "CalibratedTasks"
        or "Classifier" in name
        or (not inner and is_classifier(estimator()))
    )
    if "task_id" not in inspect.signature(estimator.fit).parameters:
        # All targets on the same rows.
        return [
            ">>> import numpy as np",
            f">>> from mtlrun.estimators import {name}",
            ">>> rng = np.random.default_rng(0)",
            ">>> X = rng.normal(size=(40, 5))",
            ">>> Y = X @ rng.normal(size=(5, 2)) + rng.normal(size=(40, 2))",
            f">>> model = {name}().fit(X, Y)",
            ">>> model.predict(X[:3]).shape",
            "(3, 2)",
        ]
    target = "X[:, 0] * (1 + task) + rng.normal(size=120)"
    return [
        ">>> import numpy as np",
        *([f">>> {imported}"] if imported else []),
        f">>> from mtlrun.estimators import {name}",
        ">>> rng = np.random.default_rng(0)",
        ">>> task = np.repeat(np.arange(4), 30)",
        ">>> X = rng.normal(size=(120, 5))",
        f">>> y = np.where({target} > 0, 1, -1)" if labels else f">>> y = {target}",
        f">>> model = {name}({inner or settings(estimator)}).fit(X, y, task_id=task)",
        ">>> model.predict(X[:3], task_id=task[:3]).shape",
        "(3,)",
    ]
