"""Transformers in front of linear models.

`WeightedDegree` turns DNA strings into sparse k-mer indicators, `FourierFeatures`
approximates the Gaussian kernel.
"""

from __future__ import annotations

from typing import Any

__all__ = ["FourierFeatures", "WeightedDegree"]


def __getattr__(name: str) -> Any:
    # Imported on demand: packages load no numpy by themselves.
    if name == "WeightedDegree":
        from mtlrun.features.dna import WeightedDegree

        return WeightedDegree
    if name == "FourierFeatures":
        from mtlrun.features.fourier import FourierFeatures

        return FourierFeatures
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
