"""Test scores that an experiment keeps beside its cells."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from mtlrun.report.folder import CELLS

ARRAY = "scores"


def read_scores(folder: Path, key: str) -> Any | None:
    """Read the test scores of a cell.

    Parameters
    ----------
    folder : Path
        Of the run.
    key : str
        Of the cell; the scores lie in ``cells/<key>.npz`` as the array `scores`.

    Returns
    -------
    ndarray of shape (n_test,) or (n_test, n_tasks), or None
        None when the experiment kept none or the file is damaged.
    """
    import numpy as np

    path = Path(folder) / CELLS / f"{key}.npz"
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as stored:
            return np.asarray(stored[ARRAY], dtype=float)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None
