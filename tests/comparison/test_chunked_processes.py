"""Comparisons of chunked tables do not depend on the number of processes."""

import numpy as np
import pandas as pd
import pytest

import mtlrun
from mtlrun.chunks.stored import read_folds
from mtlrun.chunks.summed import Training
from mtlrun.chunks.sums import add_up, leaves_of, rows_of, run_in_order, statistics_of
from mtlrun.chunks.table import ChunkedTable, chunk_files
from mtlrun.comparison.candidates import Candidate
from mtlrun.comparison.verdict import INDEPENDENT
from mtlrun.errors import DataError
from mtlrun.parallel.pool import Pool
from mtlrun.problem import rotation, statistics

#: These tests run complete comparisons, some of them in subprocesses.
pytestmark = pytest.mark.slow

N_TASKS = 4
RAGGED = {"target": "y", "task": "shop", "drop": ["y2"]}
SHARED = {"targets": "y*", "drop": ["shop", "w"]}


def write(folder, n_files=5, n=150):
    """Write files of rows; each task occurs only in some of them."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for k in range(n_files):
        rows = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
        shop = rng.integers(N_TASKS if k else N_TASKS - 1, size=n)
        rows["y"] = rows.a + 0.3 * shop * rows.b + rng.normal(size=n)
        rows["y2"] = rows.y + rng.normal(size=n)
        rows.loc[::9, "y2"] = np.nan
        rows["shop"] = [f"s{t}" for t in shop]
        rows["w"] = rng.random(n) + 0.1
        rows.to_parquet(folder / f"{k}.parquet", index=False)
    return folder


def numbers_of(result):
    """Return all results of a comparison."""
    entries = {
        entry.label: (entry.scores, entry.tasks, entry.inner, entry.chosen)
        for entry in result.board.entries
    }
    return entries, result.verdict, result.coefficients.to_numpy().tolist()


def test_the_number_of_processes_does_not_change_a_bit(tmp_path):
    folder = write(tmp_path / "shops")
    options = {**RAGGED, "weight": "w", "methods": ["GraphMTL"], "splits": 3}
    serial = mtlrun.compare(folder, **options, jobs=1)
    two = mtlrun.compare(folder, **options, jobs=2)
    assert numbers_of(serial) == numbers_of(two)


def test_stored_folds_equal_those_of_a_single_process(tmp_path):
    files = chunk_files(write(tmp_path / "shops"))
    table = ChunkedTable.of(files, **SHARED, n_folds=3)
    sums = add_up(rows_of, table, Pool(), lambda text: None)
    parts, names = statistics_of(table, sums)
    store = tmp_path / "store"
    store.mkdir()
    _, folds, tasks = read_folds(table, store, Pool(), lambda text: None)
    assert tasks == names
    assert not (store / "leaves").exists()
    for stored, part in zip(folds.parts, parts, strict=True):
        for name in ("weight", "x", "xx", "y", "yy", "xy", "n_rows"):
            assert np.array_equal(getattr(stored, name), getattr(part, name)), name


def test_leaves_depend_only_on_the_files():
    files = list(range(70))
    leaves = leaves_of(files)
    assert len(leaves) == 32
    assert [file for leaf in leaves for file in leaf] == files
    assert [len(leaf) for leaf in leaves_of(files[:5])] == [1] * 5


def refuse(number):
    if number == 1:
        raise DataError("bad file", "Mend it.")
    return number


def test_a_worker_passes_on_user_errors():
    with pytest.raises(DataError, match="bad file") as caught:
        list(run_in_order(Pool(2, backend="threading"), refuse, [(0,), (1,), (2,)]))
    assert caught.value.remedy == "Mend it."


def test_each_training_part_is_decomposed_once(tmp_path, monkeypatch):
    files = chunk_files(write(tmp_path / "shops"))
    table = ChunkedTable.of(files, **RAGGED, n_folds=3)
    sums = add_up(rows_of, table, Pool(), lambda text: None)
    parts, _ = statistics_of(table, sums)
    decomposed = []
    eigh = np.linalg.eigh

    def counted(matrices):
        decomposed.append(np.shape(matrices))
        return eigh(matrices)

    for module in (rotation, statistics):
        monkeypatch.setattr(module.np.linalg, "eigh", counted)
    training = Training.of(parts[0] + parts[1])
    for name in ("GraphMTL", "JointFeatureMTL"):
        for alpha in (1.0, 10.0):
            training.fit(Candidate(name, "multi-task", name), {"alpha": alpha})
    ridge = Candidate("IndependentRidge", INDEPENDENT, "IndependentRidge")
    training.fit(ridge, {"alpha": 1.0})
    assert decomposed == [(N_TASKS, 4, 4)]
    training.release()
    training.fit(ridge, {"alpha": 1.0})
    assert len(decomposed) == 2
