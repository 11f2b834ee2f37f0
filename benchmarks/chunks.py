"""Tables larger than memory: speed and memory of one pass, against reading alone, fits
in memory, and SGD.

``python benchmarks/chunks.py`` writes Parquet files of 1e8 values (1e6 x 100, 200
tasks) below a temporary folder and prints all tables; ``--rows 10000000`` makes it 1e9.
CPU seconds, which other processes hardly affect, are measured side by side: the two
programs alternate file by file.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import SGDRegressor
from threadpoolctl import threadpool_limits

from mtlrun.chunks.sums import Sums, add_up, rows_of, statistics_of, sums_of
from mtlrun.chunks.table import CHUNK_BYTES, ChunkedTable, chunk_files
from mtlrun.estimators import IndependentRidge, TraceNormMTL
from mtlrun.parallel.pool import Pool
from mtlrun.problem.statistics import TaskStatistics

FOLDS, FILES = 5, 10


def make(
    folder: Path, rows: int, features: int, tasks: int, files: int = FILES
) -> Path:
    """Write files of rows about random linear models, tasks mixed."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    W = rng.normal(size=(features, 1)) + 0.3 * rng.normal(size=(features, tasks))
    for k in range(files):
        with pq.ParquetWriter(
            folder / f"part{k:03}.parquet", _schema(features)
        ) as writer:
            for _ in range(max(1, rows // files // 100_000)):
                n = min(rows // files, 100_000)
                X, task = (
                    rng.normal(size=(features, n)) + 3,
                    rng.integers(tasks, size=n),
                )
                y = np.einsum("dn,dn->n", X, W[:, task]) + 3 * rng.normal(size=n)
                writer.write_table(pa.table([*X, y, task], schema=_schema(features)))
    return folder


def _schema(features: int) -> pa.Schema:
    return pa.schema(
        [
            *((f"x{j}", pa.float64()) for j in range(features)),
            ("y", pa.float64()),
            ("task", pa.int64()),
        ]
    )


def table_of(folder: Path) -> ChunkedTable:
    """Return the table of a folder."""
    files = chunk_files(folder)
    return ChunkedTable.of(files, target="y", task="task", n_folds=FOLDS)


def read_and_multiply(table: ChunkedTable, file: Path) -> None:
    """Read a file and multiply its numbers, the least that any method must do."""
    rows = max(1024, CHUNK_BYTES // (8 * len(table.columns)))
    columns = [*table.features, *table.targets]
    total = np.zeros((len(columns), len(columns)))
    with pq.ParquetFile(file) as stored:
        for batch in stored.iter_batches(batch_size=rows, columns=columns):
            Z = np.empty((len(columns), batch.num_rows))
            for j in range(len(columns)):
                Z[j] = batch.column(j).to_numpy()
            total += Z @ Z.T


def side_by_side(table: ChunkedTable) -> tuple[float, float, Sums]:
    """Return CPU seconds of reading and multiplying and of the pass, file by file in
    turn, and the sums.
    """
    plain = ours = 0.0
    sums = Sums()
    for file in table.files:
        plain += _cpu(lambda file=file: read_and_multiply(table, file))[0]
        seconds, part = _cpu(lambda file=file: sums_of(rows_of, table, [file]))
        before = time.process_time()
        sums.merge(part)
        ours += seconds + time.process_time() - before
    return plain, ours, sums


def _cpu(call: Callable[[], Any]) -> tuple[float, Any]:
    before = time.process_time()
    found = call()
    return time.process_time() - before, found


def curves(folder: Path, rows: int) -> None:
    """Print the speed of the pass against rows, tasks and features."""
    print(
        "\nrows | features | tasks | CPU s, read + BLAS | CPU s, pass | rows per CPU s | speed / read + BLAS"
    )
    sizes = [(rows // k, 100, 200) for k in (100, 10, 1)]
    sizes += [(rows // 10, 100, tasks) for tasks in (1, 20, 1000)] + [
        (rows // 10, d, 200) for d in (25, 50, 200, 400)
    ]
    for n, d, tasks in sizes:
        table = table_of(make(folder / f"{n}-{d}-{tasks}", n, d, tasks))
        plain, ours, _ = side_by_side(table)
        print(
            f"{n} | {d} | {tasks} | {plain:.2f} | {ours:.2f} | {n / ours:,.0f} | {plain / ours:.2f}",
            flush=True,
        )


def workers(folder: Path) -> None:
    """Print wall time and traffic with one process and with two."""
    print("\nprocesses | wall s | sent")
    for jobs in (1, 2):
        said: list[str] = []
        started = time.perf_counter()
        add_up(rows_of, table_of(folder), Pool(jobs), said.append)
        print(
            f"{jobs} | {time.perf_counter() - started:.1f} | {said[-1] if jobs > 1 else '-'}",
            flush=True,
        )


def against_memory(folder: Path) -> None:
    """Print CPU seconds of a trace norm model from chunks and from the rows at hand."""
    table = table_of(folder)
    data = pq.read_table(folder).to_pandas()
    X, y, task = (
        data[list(table.features)].to_numpy(),
        data.y.to_numpy(),
        data.task.to_numpy(),
    )
    alpha = 0.02 * len(data) / len(np.unique(task))
    rows, memory = _cpu(lambda: TraceNormMTL(alpha=alpha).fit(X, y, task_id=task))
    reading, sums = _cpu(lambda: sums_of(rows_of, table, table.files))
    parts, _ = statistics_of(table, sums)
    fit, chunks = _cpu(
        lambda: TraceNormMTL(alpha=alpha).fit_statistics(sum(parts[1:], parts[0]))
    )
    apart = abs(chunks.objective_[-1] / memory.objective_[-1] - 1)
    print(
        f"\nTraceNormMTL, {X.shape[0]} x {X.shape[1]}: {rows:.2f} CPU s from rows in memory; from chunks {reading:.2f}"
    )
    print(f"for the pass and {fit:.2f} for the fit; objectives differ by {apart:.0e}")


def against_sgd(folder: Path) -> None:
    """Print CPU seconds until scikit-learn's SGD, a model per task, is as good as
    the ridge from one pass.
    """
    table = table_of(folder)
    reading, sums = _cpu(lambda: sums_of(rows_of, table, table.files))
    parts, names = statistics_of(table, sums)
    whole: TaskStatistics = sum(parts[1:], parts[0])
    n = float(whole.n_rows.mean())
    fit, ridge = _cpu(lambda: IndependentRidge(alpha=0.01 * n).fit_statistics(whole))

    def objective(coef: np.ndarray, intercept: np.ndarray) -> float:
        return float(
            whole.squared_errors(coef.T, intercept).sum() / 2
            + 0.005 * n * np.square(coef).sum()
        )

    best = objective(ridge.coef_, ridge.intercept_)
    print(f"\nIndependentRidge from one pass: {reading:.2f} + {fit:.2f} CPU s")
    print(
        "SGDRegressor.partial_fit | passes | CPU s (its own) | objective above the optimum"
    )
    for schedule, eta0 in (
        ("constant", 2e-3),
        ("constant", 5e-3),
        ("constant", 1e-2),
        ("invscaling", 1e-2),
    ):
        settings = {
            "alpha": 0.01,
            "learning_rate": schedule,
            "eta0": eta0,
            "average": schedule == "constant",
        }
        models = {name: SGDRegressor(**settings, shuffle=False) for name in names}
        seconds = 0.0
        for passes in range(1, 11):
            for file in table.files:
                frame = pq.read_table(file).to_pandas()
                X = frame[list(table.features)].to_numpy() - table.shift[:-1]
                groups = {
                    str(name): rows
                    for name, rows in frame.groupby("task").indices.items()
                }
                y = frame.y.to_numpy() - table.shift[-1]
                for name, rows in groups.items():
                    part, target = X[rows], y[rows]
                    seconds += _cpu(
                        lambda m=models[name], a=part, b=target: m.partial_fit(a, b)
                    )[0]
            coef = np.vstack([models[name].coef_ for name in names])
            intercept = (
                np.concatenate([models[name].intercept_ for name in names])
                - coef @ table.shift[:-1]
            )
            intercept += table.shift[-1]
            above = objective(coef, intercept) / best - 1
            if passes in (1, 5, 10) or above < 1e-3:
                print(
                    f"{schedule} {eta0:g} | {passes} | {seconds:.2f} | {above:.1e}",
                    flush=True,
                )
            if above < 1e-3 or not np.isfinite(above):
                break


def peak(folder: Path, command: str) -> dict[str, float]:
    """Return peak memory and seconds of a pass, or of a complete comparison, in a
    subprocess.
    """
    done = subprocess.run(
        [sys.executable, __file__, "--child", command, str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def child(command: str, folder: Path) -> None:
    """Do one thing, and print what it took."""
    import mtlrun

    started, cpu = time.perf_counter(), time.process_time()
    if command == "pass":
        statistics_of(
            table_of(folder),
            sums_of(rows_of, table_of(folder), chunk_files(folder)),
        )
    elif command == "compare":
        mtlrun.compare(folder, target="y", task="task", methods=["TraceNormMTL"])
    taken = {"s": time.perf_counter() - started, "cpu": time.process_time() - cpu}
    taken["MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps(taken))


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument(
        "--only",
        choices=["peak", "curves", "workers", "memory", "sgd"],
        action="append",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="for the files, which take 8 bytes per value (default: temporary)",
    )
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child[0], Path(given.child[1]))
        return
    wanted = given.only or ["peak", "curves", "workers", "memory", "sgd"]
    with threadpool_limits(1), tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        if "peak" in wanted or "workers" in wanted:
            large = make(folder / "large", given.rows, 100, 200)
        if "peak" in wanted:
            for command in ("imports", "pass", "compare"):
                found = peak(large, command)
                print(
                    f"{command}: {found['MB']:.0f} MB, {found['cpu']:.1f} CPU s, {found['s']:.1f} s",
                    flush=True,
                )
        if "workers" in wanted:
            workers(large)
        if "curves" in wanted:
            curves(folder, given.rows)
        if {"memory", "sgd"} & set(wanted):
            small = make(folder / "small", given.rows // 10, 100, 50)
        if "memory" in wanted:
            against_memory(small)
        if "sgd" in wanted:
            against_sgd(small)


if __name__ == "__main__":
    main()
