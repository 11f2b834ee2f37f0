"""Extension of the documentation site: estimators with the parameters and the inherited documentation of their classes.

Both are made when a class is created, so a reader of the source alone does not see them.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import griffe

KINDS = {
    inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
}


class Estimators(griffe.Extension):
    """Replaces docstrings and parameters of the public classes of `mtlrun.estimators`."""

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """Take over what the class says of itself once it is imported."""
        if not cls.path.startswith("mtlrun.estimators.") or cls.name.startswith("_") or cls.docstring is None:
            return
        found = getattr(importlib.import_module(cls.module.path), cls.name)
        if not hasattr(found, "_rules"):
            return
        cls.docstring.value = inspect.cleandoc(found.__doc__)
        parameters = [
            griffe.Parameter(p.name, kind=KINDS[p.kind], default=repr(p.default))
            for p in inspect.signature(found).parameters.values()
        ]
        cls.set_member("__init__", griffe.Function("__init__", parameters=griffe.Parameters(*parameters)))
