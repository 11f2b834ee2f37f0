"""Cells that another artefact of the same paper has already: they are copied instead of computed."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from mtlrun.core.records import CellRecord, write_atomic
from mtlrun.experiments.cells import Cell, settled
from mtlrun.experiments.plan import Plan
from mtlrun.experiments.store import CELLS, Store


@dataclass(frozen=True)
class Found:
    """A finished cell in the run folder of another artefact.

    Attributes
    ----------
    cell : Cell
        As planned here.
    artefact : str
        ``<paper>/<artefact>``.
    store : Store
        Where it lies.
    record : CellRecord
        As it lies there.
    """

    cell: Cell
    artefact: str
    store: Store
    record: CellRecord


def find_siblings(plan: Plan, cells: Iterable[Cell]) -> list[Found]:
    """Return the cells that another artefact of the paper has finished with the same profile.

    A key holds everything that changes a number, so that equal keys are equal cells whatever the artefact is called.

    Parameters
    ----------
    plan : Plan
    cells : iterable of Cell
        To be computed.
    """
    paper = plan.folder.parent.parent
    stores = [
        (f"{paper.name}/{folder.parent.name}", Store(folder))
        for folder in sorted(paper.glob(f"*/{plan.folder.name}"))
        if folder != plan.folder and (folder / CELLS).is_dir()
    ]
    found = []
    for cell in cells:
        for artefact, store in stores:
            record = store.load(cell.key)
            if record is not None and settled(record, plan.experiment.spec.limits):
                found.append(Found(cell, artefact, store, record))
                break
    return found


def copy_cells(plan: Plan, found: Iterable[Found]) -> dict[str, int]:
    """Write cells of other artefacts into the run folder; return how many came from which.

    A record keeps the machine and the seconds with which it was computed, and says in `environment` where it is from.

    Raises
    ------
    OSError
        If the run folder cannot be written.
    """
    store = Store(plan.folder)
    for one in found:
        cell, record = one.cell, one.record
        with contextlib.suppress(FileNotFoundError):  # most cells keep no scores
            write_atomic(store.scores_path(cell.key), one.store.scores_path(cell.key).read_bytes())
        origin = record.environment.get("copied_from", one.artefact)
        copied = replace(record, experiment=plan.experiment.id, dataset=cell.dataset, method=cell.method)
        copied.environment = {**record.environment, "copied_from": origin}
        store.save(copied)
    return dict(Counter(one.artefact for one in found))
