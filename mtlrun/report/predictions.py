"""Test scores that an experiment keeps beside its cells."""

from __future__ import annotations

import zipfile
from typing import Any

from mtlrun.record import Records


def read_scores(records: Records, key: str) -> Any | None:
    """Return the test scores of a cell.

    Returns
    -------
    ndarray of shape (n_test,) or (n_test, n_tasks), or None
        None when the experiment kept none or the file is damaged.
    """
    import numpy as np

    for path, name in records.scores_files(key):
        try:
            with np.load(path, allow_pickle=False) as stored:
                return np.asarray(stored[name], dtype=float)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            continue
    return None
