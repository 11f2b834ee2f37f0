"""Compare an experiment with the experiment that it extends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mtlrun.utils.io import as_list
from mtlrun.utils.yaml import KeyPath

#: Sections that a claim of the paper is about. If a file that extends the experiment of
#: the paper changes one of them, the claims are tested on other data.
SETTING = (
    "split",
    "metrics",
    "average",
    "features",
    "selection",
    "grids",
    "sweep",
)


def common_paths(first: object, second: object, path: KeyPath = ()) -> list[KeyPath]:
    """Return the paths of the values that two mappings both contain.

    Mappings inside are compared key by key, everything else is a value. Lists of
    methods are left out, because their entries are merged by label.
    """
    if isinstance(first, dict) and isinstance(second, dict):
        paths = []
        for key in first:
            if key in second:
                paths += common_paths(first[key], second[key], (*path, key))
        return paths
    is_merged = path[:1] == ("methods",) or isinstance(first, dict)
    if is_merged or not path:
        return []
    return [path]


def has_other_setting(base: Mapping[str, Any], data: Mapping[str, Any]) -> bool:
    """Whether an experiment changes what it extends; additions change nothing.

    Parameters
    ----------
    base, data : mapping
        The extended and the extending experiment, with the same profile.
    """
    for key in SETTING:
        if base.get(key) != data.get(key):
            return True
    for section in ("datasets", "methods"):
        entries = as_list(data.get(section))
        for entry in as_list(base.get(section)):
            if entry not in entries:
                return True
    return False
