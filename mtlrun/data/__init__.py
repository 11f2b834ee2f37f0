"""Data sets: cards, files, tables, simulators and splits. Importing the package imports no numpy."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mtlrun.data.cards import Card, load_card
    from mtlrun.data.dataset import Dataset
    from mtlrun.data.load import dataset_fingerprint, load_dataset
    from mtlrun.data.splits import TaskShuffleSplit, TaskStratifiedKFold, random_split

_HOMES = {
    "Card": "cards",
    "load_card": "cards",
    "Dataset": "dataset",
    "load_dataset": "load",
    "dataset_fingerprint": "load",
    "random_split": "splits",
    "TaskStratifiedKFold": "splits",
    "TaskShuffleSplit": "splits",
}

__all__ = [
    "Card",
    "Dataset",
    "TaskShuffleSplit",
    "TaskStratifiedKFold",
    "dataset_fingerprint",
    "load_card",
    "load_dataset",
    "random_split",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
