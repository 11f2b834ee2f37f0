"""What a worker does with a cell: load its data, then fit, score or measure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mtlrun.engine.job import Job
from mtlrun.engine.outcome import Outcome, attempt
from mtlrun.engine.record import JobKind, Record
from mtlrun.errors import DataError
from mtlrun.utils.io import canonical_json

if TYPE_CHECKING:
    import numpy as np

    from mtlrun.data.dataset import Dataset


def compute_cells(
    cells: Sequence[tuple[Job, dict[str, Any] | None]], data_dir: str | None
) -> list[Outcome]:
    """Compute cells one after the other.

    Parameters
    ----------
    cells : sequence of (Job, dict or None)
        Each cell with the parameters that its search selected.
    data_dir : str or None
        Folder of the data sets.
    """
    return [
        attempt(compute_cell, cell, best_params, data_dir)
        for cell, best_params in cells
    ]


def compute_cell(
    cell: Job, best_params: dict[str, Any] | None, data_dir: str | None
) -> tuple[Record, np.ndarray | None]:
    """Compute a cell.

    Parameters
    ----------
    cell : Job
    best_params : dict or None
        Parameters that the search of the cell selected.
    data_dir : str or None
        Folder of the data sets.

    Returns
    -------
    record : Record
    scores : ndarray or None
        Scores of the test rows, if the cell keeps them.
    """
    data = None
    if cell.dataset is not None:
        options = canonical_json(cell.dataset.options)
        data = loaded(cell.dataset.id, options, cell.dataset.fingerprint, data_dir)
    # Imported here because it takes seconds: it loads scikit-learn.
    from mtlrun.engine.fit import fit_cell, measure_cell, score_candidates

    if cell.kind == JobKind.ANALYSIS:
        return measure_cell(cell, data), None
    assert data is not None
    if cell.kind == JobKind.FOLD:
        return score_candidates(cell, data), None
    fitted = fit_cell(cell, data, best_params)
    if "predictions" in cell.scoring.keep:
        return fitted.record, fitted.scores
    return fitted.record, None


@lru_cache(maxsize=2)
def loaded(name: str, options: str, fingerprint: str, data_dir: str | None) -> Dataset:
    """Return a data set, and keep it in memory until two others have been loaded.

    Parameters
    ----------
    name : str
    options : str
        Options of the data set as canonical JSON, which is hashable.
    fingerprint : str
        Fingerprint that the data had when the cells were planned.
    data_dir : str or None

    Raises
    ------
    DataError
        If the data now have another fingerprint.
    """
    from mtlrun.data.load import load_dataset

    dataset = load_dataset(name, data_dir=data_dir, **json.loads(options))
    if dataset.fingerprint != fingerprint:
        raise DataError(
            f"the files of {name} changed since the cells were planned",
            "Run the command again.",
        )
    return dataset
