"""Data sets: cards, files, tables, simulators and splits.

Importing the package does not import NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mtlrun.data.dataset import Dataset as Dataset
    from mtlrun.data.sets.cards import Card as Card
    from mtlrun.data.sets.cards import load_card as load_card
    from mtlrun.data.sets.load import dataset_fingerprint as dataset_fingerprint
    from mtlrun.data.sets.load import load_dataset as load_dataset
    from mtlrun.data.splits import TaskShuffleSplit as TaskShuffleSplit
    from mtlrun.data.splits import TaskStratifiedKFold as TaskStratifiedKFold
    from mtlrun.data.splits import random_split as random_split

_HOMES = {
    "Card": "sets.cards",
    "Dataset": "dataset",
    "TaskShuffleSplit": "splits",
    "TaskStratifiedKFold": "splits",
    "dataset_fingerprint": "sets.load",
    "load_card": "sets.cards",
    "load_dataset": "sets.load",
    "random_split": "splits",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
