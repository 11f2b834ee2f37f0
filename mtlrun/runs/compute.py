"""What a worker does with a cell: load its data and compute it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from mtlrun.errors import DataError
from mtlrun.record import FOLD, MEASURE, Record
from mtlrun.runs.cell import Cell
from mtlrun.runs.pool import Outcome, attempt
from mtlrun.utils.io import canonical_json


def compute_cells(cells: Sequence[tuple[Cell, dict[str, Any] | None]], data_dir: str | None) -> list[Outcome]:
    """Compute cells, with the parameters that their searches chose, one after the other."""
    return [attempt(compute_cell, cell, chosen, data_dir) for cell, chosen in cells]


def compute_cell(cell: Cell, chosen: dict[str, Any] | None, data_dir: str | None) -> tuple[Record, Any]:
    """Compute a cell in a worker; return its record, and the test scores where the cell keeps them."""
    data = None
    if cell.dataset is not None:
        data = loaded(cell.dataset.id, canonical_json(cell.dataset.options), cell.dataset.fingerprint, data_dir)
    if cell.family == MEASURE:
        from mtlrun.runs.measure import measure_cell

        return measure_cell(cell, data), None
    from mtlrun.runs.fit import fit_cell, score_candidates

    assert data is not None
    if cell.family == FOLD:
        return score_candidates(cell, data), None
    fitted = fit_cell(cell, data, chosen)
    return fitted.record, fitted.scores if "predictions" in cell.scoring.keep else None


@lru_cache(maxsize=2)
def loaded(name: str, options: str, fingerprint: str, data_dir: str | None) -> Any:
    """Return a data set, `options` being canonical JSON; the last two stay in memory.

    Raises
    ------
    DataError
        If it is another one than that of the fingerprint.
    """
    from mtlrun.data.load import load_dataset

    found = load_dataset(name, data_dir=data_dir, **json.loads(options))
    if found.fingerprint != fingerprint:
        raise DataError(f"the files of {name} changed since the cells were planned", "Run the command again.")
    return found
