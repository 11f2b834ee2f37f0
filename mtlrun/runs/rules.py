"""Rules of constructor parameters, as the class of an estimator has them in `_rules`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mtlrun.errors import UserError
from mtlrun.estimators.params import Rule, rule_of
from mtlrun.runs.cell import is_nested
from mtlrun.runs.code import facts
from mtlrun.runs.methods import class_path, complete


def parameter_rule(estimator: str, params: Mapping[str, Any], name: str) -> Rule | None:
    """Return the rule of a constructor parameter; ``base__alpha`` is that of `alpha` of the estimator given as `base`.

    Parameters
    ----------
    estimator : str
        Name of the registry, or ``package.module:Class``.
    params : mapping
        Parameters that the estimator is given.
    name : str

    Returns
    -------
    Rule or None
        None where the class has none, or one that only the class itself can check, and for an estimator that does not
        exist.
    """
    first, _, rest = name.partition("__")
    if rest:
        inner = complete(estimator, params).get(first)
        return parameter_rule(inner["estimator"], inner.get("params") or {}, rest) if is_nested(inner) else None
    try:
        return rules_of(class_path(estimator)).get(first)
    except UserError:
        return None  # reported where the estimator is named


def rules_of(path: str) -> dict[str, Rule]:
    """Return the rules of ``package.module:Class`` that can be checked without it."""
    return {name: rule_of(plain) for name, plain in facts(path).rules.items()}
