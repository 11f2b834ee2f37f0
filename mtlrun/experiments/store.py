"""Finished cells on disk: one file each, written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from mtlrun.core.processes import tidy
from mtlrun.core.records import TEMPORARY, CellRecord, jsonable, sealed, unsealed, write_atomic
from mtlrun.experiments.locks import Locks

CELLS = "cells"
Names = tuple[str, str, str, int]
#: Identity of a file: another one after every writing, whatever the clock says.
Stamp = tuple[int, int]


class Store:
    """The cells of one run folder.

    Parameters
    ----------
    folder : Path
        ``<output>/<paper>/<artefact>/<profile>``; made when the first cell is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cells = folder / CELLS

    @cached_property
    def locks(self) -> Locks:
        """Locks of the cells."""
        self.cells.mkdir(parents=True, exist_ok=True)
        return Locks(self.cells)

    def path(self, key: str) -> Path:
        """Return the file of a cell."""
        return self.cells / f"{key}.json"

    def read(self, key: str) -> CellRecord | None:
        """Return a record, None when there is none.

        Raises
        ------
        ValueError
            If its file, or that of its test scores, is damaged: the cell is then computed again.
        """
        path = self.path(key)
        try:
            record = CellRecord.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ValueError(f"{CELLS}/{path.name} is damaged: {error}") from None
        if record.key != key:
            raise ValueError(f"{CELLS}/{path.name} is damaged: it holds the cell {record.key[:12]}...")
        if "predictions" in record.result and not zipfile.is_zipfile(self.scores_path(key)):
            raise ValueError(f"{CELLS}/{self.scores_path(key).name} is missing or damaged")
        return record

    def load(self, key: str) -> CellRecord | None:
        """Return a record, None when there is none or it is damaged."""
        try:
            return self.read(key)
        except ValueError:
            return None

    def stamp(self, key: str) -> Stamp | None:
        """Return the identity of the file of a cell, None where there is none."""
        return _stamp(self.path(key))

    def stamps(self) -> dict[str, Stamp | None]:
        """Return the identities of the files of all cells."""
        return {path.stem: _stamp(path) for path in self.cells.glob("*.json")}

    def tidy(self, keep: Collection[str]) -> None:
        """Remove what processes left that were killed: temporary files, locks, parts of cells that are done.

        Parameters
        ----------
        keep : collection of str
            Keys whose locks stay, because they will be taken over.
        """
        with contextlib.suppress(OSError):  # a finished run may lie where nothing can be written
            tidy(self.folder.rglob(f".*{TEMPORARY}"))
            for name in self._left("*.lock") - set(keep):
                self.locks.drop_dead(name)
            for key in self._left("*.parts"):
                record = self.load(key)
                if record is not None and record.done and self.locks.owner(key) is None:
                    self._parts_path(key).unlink(missing_ok=True)

    def _left(self, pattern: str) -> set[str]:
        return {path.stem for path in self.cells.glob(pattern)}

    def save(self, record: CellRecord) -> None:
        """Write a record.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        write_atomic(self.path(record.key), record.to_json())

    def scores_path(self, key: str) -> Path:
        """Return the file of the test scores of a cell, which is there when the cell keeps them."""
        return self.cells / f"{key}.npz"

    def save_scores(self, key: str, scores: Any) -> str:
        """Write the test scores of a cell, as the array `scores`, and return the name of the file.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        import io

        import numpy as np

        content = io.BytesIO()
        np.savez_compressed(content, scores=scores)
        write_atomic(self.scores_path(key), content.getvalue())
        return self.scores_path(key).name

    def load_parts(self, key: str) -> dict[int, Any]:
        """Return the finished parts of a cell that was interrupted, {} where there are none or they are damaged."""
        try:
            parts = unsealed(json.loads(self._parts_path(key).read_text(encoding="utf-8")))
            return {int(i): value for i, value in parts.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def save_parts(self, key: str, parts: Mapping[int, Any]) -> None:
        """Write the finished parts of a cell; without any, remove the file.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        if parts:
            write_atomic(self._parts_path(key), json.dumps(sealed(jsonable(dict(parts))), sort_keys=True))
        else:
            self._parts_path(key).unlink(missing_ok=True)

    def _parts_path(self, key: str) -> Path:
        return self.cells / f"{key}.parts"

    def old_records(self, keys: Collection[str]) -> dict[Names, CellRecord]:
        """Return the newest record of every (kind, dataset, method, trial) among the files of no planned key."""
        found: dict[Names, CellRecord] = {}
        paths = [path for path in self.cells.glob("*.json") if path.stem not in keys]
        for path in sorted(paths, key=lambda p: p.stat().st_mtime_ns):
            record = self.load(path.stem)
            if record is not None:
                found[names_of(record)] = record
        return found


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def names_of(record: CellRecord) -> Names:
    """Return the names by which people know a cell."""
    return record.kind, record.dataset, record.method, int(record.split.get("trial", 0))
