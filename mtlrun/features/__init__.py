"""Features of inputs that are no matrices; `WeightedDegree` turns DNA strings into sparse k-mer indicators."""

from __future__ import annotations

from typing import Any

__all__ = ["WeightedDegree"]


def __getattr__(name: str) -> Any:
    # Imported on demand: packages load no numpy by themselves.
    if name == "WeightedDegree":
        from mtlrun.features.weighted_degree import WeightedDegree

        return WeightedDegree
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
