"""SARCOS inverse dynamics: 21 joint positions, velocities and accelerations against 7 torques, on a shared design.

4446 of the 4449 test rows of this benchmark are also training rows. The full variant keeps them unless `clean` is set,
the partial one is free of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from mtlrun.data.cards import Card
from mtlrun.data.dataset import Dataset
from mtlrun.data.files import DataFile, file_called
from mtlrun.data.formats.mat import matrix
from mtlrun.data.table import text_table
from mtlrun.errors import DataError

N_INPUTS, N_TORQUES = 21, 7
FEATURES = [f"{kind}{j}" for kind in ("position", "velocity", "acceleration") for j in range(1, 8)]
TASKS = [f"torque{j}" for j in range(1, 8)]
TRAIN_ROWS, TEST_ROWS = 44484, 4449
#: `source_bits` of the rebuilt file: 8 marks rows that somebody drew uniformly from the full training file.
UNIFORM_DRAW = 8


def read(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    train: str,
    test: str = "sarcos_inv_test.mat",
    full: bool = False,
    blob: str | None = None,
    clean: bool = False,
    unbiased: bool = False,
    leaked: bool = False,
) -> Dataset:
    """Read training and test rows.

    Parameters
    ----------
    files : mapping of str to DataFile
    card : Card
    train, test : str
        Their files. Partial: the table of those training rows that could be rebuilt; the ones that are in the test file
        are always left out. Full: the original ``sarcos_inv.mat``.
    full : bool, default=False
        Which of the two `train` is.
    blob : str, optional
        Git's id of the full training file (what ``git hash-object`` prints); its sha256 is not known to us.
    clean : bool, default=False
        Full: leave out the training rows that are in the test file.
    unbiased : bool, default=False
        Partial: keep only the training rows that are a uniform sample of the full file (1345 of 2253); the others
        favour large torques.
    leaked : bool, default=False
        Partial: also train on the rebuilt rows that are in the test file (4446 of its 4449). Errors are then errors on
        training rows, which show how far the leak can lower them and nothing else.

    Returns
    -------
    Dataset
        ``splits["fixed"]`` is training against test rows; `notes` report the leak.

    Raises
    ------
    DataError
        If a file has another shape, the full file is not the one of that id, or a row of the partial
        file is in the test file after all.
    """
    if (full and (unbiased or leaked)) or (clean and not full):
        text = "'clean' requires the full training file, 'unbiased' and 'leaked' the partial one"
        raise DataError(f"data set {card.id}: {text}")
    tests = matrix(file_called(files, test, card), "sarcos_inv_test", (TEST_ROWS, N_INPUTS + N_TORQUES))
    source = file_called(files, train, card)
    if full:
        rows, note = _full_rows(source, tests, blob, clean)
    else:
        rows, note = _partial_rows(source, tests, unbiased, leaked)
    both = np.vstack((rows, tests))
    order = np.arange(len(both))
    return Dataset(
        X=np.ascontiguousarray(both[:, :N_INPUTS]),
        y=np.ascontiguousarray(both[:, N_INPUTS:]),
        task_type="regression",
        tasks=list(TASKS),
        features=list(FEATURES),
        notes=note,
        splits={"fixed": [(order[: len(rows)], order[len(rows) :])]},
    )


def _full_rows(file: DataFile, tests: np.ndarray, blob: str | None, clean: bool) -> tuple[np.ndarray, str]:
    found = git_blob_id(file.read_bytes()) if blob is not None else None
    if found != blob:
        raise DataError(
            f"{file.where()}: the content is not that of the original {file.name}\n"
            f"  expected git blob {blob}\n  found    git blob {found}",
            "Replace it by the file of http://www.gaussianprocess.org/gpml/data/.",
        )
    rows = matrix(file, "sarcos_inv", (TRAIN_ROWS, N_INPUTS + N_TORQUES))
    note = f"leak: {int(_occurs(tests, rows).sum())} of the {len(tests)} test rows are also rows of the training file"
    if clean:
        keep = ~_occurs(rows, tests)
        note += f"; the {int((~keep).sum())} training rows concerned were left out"
        rows = rows[keep]
    return rows, note


def _partial_rows(file: DataFile, tests: np.ndarray, unbiased: bool, leaked: bool) -> tuple[np.ndarray, str]:
    table = text_table(file, delimiter=",", header=True)
    rows = table.numbers([*(f"x{j}" for j in range(1, N_INPUTS + 1)), *TASKS])
    marked, bits = table.numbers(["in_test_file", "source_bits"]).astype(np.int64).T
    in_test = marked != 0
    clean = ~in_test
    if unbiased:
        clean &= (bits & UNIFORM_DRAW) > 0
    if _occurs(rows[clean], tests).any():
        raise DataError(f"{file.where()}: rows marked as not in the test file are in it")
    note = f"partial: {clean.sum()} of the {TRAIN_ROWS} training rows"
    if leaked:
        note += f", and {in_test.sum()} that are in the test file as well: errors are those of training rows"
        return rows[clean | in_test], note
    note += f", none of them in the test file ({in_test.sum()} rebuilt rows that are in it were left out)"
    return rows[clean], note


def git_blob_id(content: bytes) -> str:
    """Return the id under which git stores a file of this content (a sha1 of a header and the content)."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _occurs(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Tell which rows occur among the others; all files print six decimals."""
    mine, theirs = (np.round(values * 1e6).astype(np.int64) for values in (rows, others))
    known = {row.tobytes() for row in theirs}
    return np.array([row.tobytes() in known for row in mine], dtype=bool)
