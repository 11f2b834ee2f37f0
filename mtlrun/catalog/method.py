"""A method in the key of a job: an estimator or an analysis, with parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeGuard

from mtlrun.utils.io import jsonable

#: One reason for each change of splits, features, searches, scores or timings. The
#: version of the protocol is one more than their number. Each change outdates all
#: results stored before it.
PROTOCOL_CHANGES: tuple[str, ...] = ()


@dataclass(frozen=True)
class Method:
    """An estimator or an analysis, with its parameters.

    Classes and analyses of mtlrun are identified by their names, others by
    ``package.module:name``.

    Attributes
    ----------
    estimator : str
        Empty for an analysis.
    measure : str
        Name of the analysis; empty for an estimator.
    params : dict
        Includes nested estimators and random states.
    published : dict of str to str
        Name and sha256 of each file of published numbers that the analysis reads.
    """

    estimator: str = ""
    measure: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    published: dict[str, str] = field(default_factory=dict)

    @cached_property
    def plain(self) -> dict[str, Any]:
        """Fields that are not empty, as JSON holds them."""
        fields = {
            "estimator": self.estimator,
            "measure": self.measure,
            "params": self.params,
            "published": self.published,
        }
        return dict(jsonable(without_empty(fields)))


def is_nested(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether the value of a parameter describes an estimator."""
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("estimator"), str)
        and set(value) <= {"estimator", "params"}
    )


def without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dictionary without None and without empty texts, lists and mappings."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value not in ("", (), [], {})
    }
