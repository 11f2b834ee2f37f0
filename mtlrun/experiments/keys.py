"""Keys of cells: everything that changes a number, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mtlrun.core.records import sha256_json


def cell_key(inputs: Mapping[str, Any]) -> str:
    """Return the sha256 of the canonical JSON of the inputs of a cell."""
    return sha256_json(dict(inputs))


def explain(old: Mapping[str, Any], new: Mapping[str, Any], limit: int = 3) -> str:
    """Say in a few words why two cells of the same names have different keys.

    Parameters
    ----------
    old, new : mapping
        Their inputs.
    limit : int
        Differences named before the rest is counted.
    """
    reasons = []
    changed = _changed_files(old.get("code", {}), new.get("code", {}))
    if changed:
        reasons.append(f"code changed ({', '.join(changed[:limit])}{', ...' if len(changed) > limit else ''})")
    if old.get("dataset", {}).get("fingerprint") != new.get("dataset", {}).get("fingerprint"):
        reasons.append("data changed")
    hidden = {"code": None, "selection": None, "dataset": {**new.get("dataset", {}), "fingerprint": None}}
    old_rest = {**old, **hidden, "dataset": {**old.get("dataset", {}), "fingerprint": None}}
    differences = list(_differences("", old_rest, {**new, **hidden}))
    reasons += differences[:limit]
    if len(differences) > limit:
        reasons.append(f"{len(differences) - limit} more")
    return "; ".join(reasons)


def _changed_files(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    return sorted(name for name in {*old, *new} if old.get(name) != new.get(name))


def _differences(path: str, old: Any, new: Any) -> list[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        found = []
        for name in sorted({*old, *new}):
            found += _differences(f"{path}.{name}" if path else str(name), old.get(name), new.get(name))
        return found
    return [] if old == new else [f"{path} {_short(old)} -> {_short(new)}"]


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 40 else text[:37] + "..."
