"""Parameters of estimators as files give them, nested ones included."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeGuard


def is_nested(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether a parameter value stands for an estimator."""
    return (
        isinstance(value, Mapping) and isinstance(value.get("estimator"), str) and set(value) <= {"estimator", "params"}
    )


def with_params(params: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of parameters with some replaced; ``base__alpha`` reaches into the estimator given as `base`."""
    result = copy.deepcopy(dict(params))
    for name, value in changes.items():
        first, _, rest = name.partition("__")
        if rest:
            inner = result[first]
            result[first] = {**inner, "params": with_params(inner.get("params") or {}, {rest: value})}
        else:
            result[name] = copy.deepcopy(value)
    return result
