"""The 8 x 8 digits that scikit-learn brings with it: needs no file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mtlrun.data.cards import Card
from mtlrun.data.dataset import Dataset
from mtlrun.data.files import DataFile
from mtlrun.data.makers import make_tasks


def read(
    files: dict[str, DataFile],
    card: Card,
    *,
    scale: float = 16.0,
    tasks: str | Mapping[str, Any] | None = None,
) -> Dataset:
    """Return the digits as ten one-vs-rest tasks with a shared design.

    Parameters
    ----------
    scale : float, default=16.0
        The pixels (0..16) are divided by it.
    tasks : str or mapping, optional
        Other tasks: see `mtlrun.data.makers.make_tasks`.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    if tasks is not None:
        whole = Dataset(
            X=bunch.data / scale,
            y=bunch.target.astype(np.int64),
            task_type="multiclass",
            tasks=[str(digit) for digit in range(10)],
            features=list(bunch.feature_names),
        )
        return make_tasks(whole, tasks)
    return Dataset(
        X=bunch.data / scale,
        y=np.where(bunch.target[:, None] == np.arange(10), 1.0, -1.0),
        task_type="binary",
        tasks=[str(digit) for digit in range(10)],
        features=list(bunch.feature_names),
    )
