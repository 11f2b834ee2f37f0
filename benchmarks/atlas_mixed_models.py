"""Statistical packages on the tables of the atlas: statsmodels and lme4 on the rows and
splits of the run.

``python benchmarks/atlas_mixed_models.py results/atlas/gain/quick`` fits linear mixed
models to the tables with groups and a number to predict, and writes
``results/atlas/mixed_models.csv``. Each line is a table with some number of training
rows per task and one seed, as in the run: the same five folds, training rows and error.
Models are a random intercept per task (``intercept``), and one with random slopes of
all columns, with a full covariance (``slopes``), fitted by REML with the defaults of
``statsmodels.MixedLM``, of ``lme4::lmer`` if Rscript has it
(`benchmarks/lme4_predictions.R`), and of `HierarchicalMTL` (``mtlrun``). Columns are
standardized on the training rows, and collinear columns are left out. A model that
fails in a fold, or takes more than `LIMIT` processor seconds for it, has no error; at
most `MOST_SLOPES` columns have slopes. Nothing is tuned. ``noted`` counts the folds
with a note.

The gain is relative to the best method without sharing, with its error from the run;
``ours`` is the gain of `HierarchicalMTL` in the run, which selects its covariance.
Seconds are processor time of all folds, without loading packages. The mean of each task
is recomputed, and its error must equal that of the run, which shows that rows and
splits are the same.
"""

from __future__ import annotations

import argparse
import csv
import io
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import qr

from mtlrun.data.dataset import Dataset
from mtlrun.data.sets.load import load_dataset
from mtlrun.engine.fit import make_step
from mtlrun.engine.job import TABLE, Features
from mtlrun.estimators import HierarchicalMTL
from mtlrun.lab.report.run import Run, read_run, results_of
from mtlrun.papers.atlas.gain import protocol_of, with_splits

LIMIT, MOST_SLOPES = 10, 5
MODELS = ("intercept", "slopes")
R_SCRIPT = Path(__file__).with_name("lme4_predictions.R")
COLUMNS = (
    *(
        "table",
        "rows",
        "seed",
        "tool",
        "model",
        "error",
        "gain",
        "best_without",
        "ours",
        "ours_gain",
    ),
    *("seconds", "noted", "note"),
)

Array = np.ndarray[Any, Any]


class TooSlowError(Exception):
    """The time of a fit is over."""


def settings(run: Run, label: str) -> Iterator[tuple[int, Dataset, Any]]:
    """Yield number of rows, data and record of the finished cells of a table with
    groups and a number to predict.
    """
    facts = run.datasets[label]
    if facts["simulated"]:
        return
    data = load_dataset(facts["id"], **facts.get("options", {}))
    if data.task_id is None or data.task_type != "regression":
        return
    for method in run.methods:
        for record in results_of(run, label, method):
            yield int(method.split()[0]), data, record


def folds(data: Dataset) -> Iterator[tuple[Array, Array, Array, Array, Array]]:
    """Yield training columns, targets and tasks, and test columns and tasks, of
    every fold.
    """
    ((_, splits),) = data.splits.items()
    for train, test in splits:
        step = make_step(Features(TABLE), data)
        X, Z = (
            np.asarray(part, dtype=float)
            for part in (
                step.fit_transform(data.X[train]),
                step.transform(data.X[test]),
            )
        )
        mean, std = X.mean(axis=0), X.std(axis=0)
        X, Z = ((part - mean) / np.where(std > 0, std, 1) for part in (X, Z))
        _, r, order = qr(X, mode="economic", pivoting=True)
        kept = np.sort(order[np.abs(np.diag(r)) > 1e-8 * np.abs(r[0, 0])])
        yield (
            X[:, kept],
            data.y[train],
            data.task_id[train],
            Z[:, kept],
            data.task_id[test],
        )


def stop(*_: Any) -> None:
    """End a fit that takes too long."""
    raise TooSlowError(f"more than {LIMIT} s of processor time")


def by_statsmodels(
    X: Array, y: Array, ids: Array, Z: Array, of: Array, model: str
) -> tuple[Array, str]:
    """Return the predictions of statsmodels and whether it warned."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    A, B = (np.column_stack([np.ones(len(part)), part]) for part in (X, Z))
    q = 1 if model == "intercept" else A.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = MixedLM(y, A, ids, exog_re=A[:, :q]).fit(reml=True)
        effects = fit.random_effects
    own = np.array([effects[task] if task in effects else np.zeros(q) for task in of])
    return B @ np.asarray(fit.fe_params) + (B[:, :q] * own).sum(
        axis=1
    ), "" if fit.converged else "not converged"


def by_mtlrun(
    X: Array, y: Array, ids: Array, Z: Array, of: Array, model: str
) -> tuple[Array, str]:
    """Return our predictions."""
    fit = HierarchicalMTL("intercept" if model == "intercept" else "full").fit(
        X, y, task_id=ids
    )
    return fit.predict(Z, task_id=of), ""


def python_cells(
    parts: list[Any], fit: Callable[..., Any]
) -> Iterator[tuple[str, list[Array], list[str], float]]:
    """Yield model, predictions and notes of all folds, and seconds."""
    signal.signal(signal.SIGPROF, stop)
    for model in MODELS:
        told, notes, started = [], [], time.process_time()
        for part in parts:
            if model == "slopes" and part[0].shape[1] > MOST_SLOPES:
                notes.append(f"failed: more than {MOST_SLOPES} columns")
                break
            signal.setitimer(signal.ITIMER_PROF, LIMIT)
            try:
                found, note = fit(*part, model)
                told.append(found)
                notes.append(note)
            except (np.linalg.LinAlgError, ValueError, TooSlowError) as error:
                notes.append(f"failed: {error}")
                break
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        yield model, told, notes, time.process_time() - started


def lme4_cells(parts: list[Any]) -> Iterator[tuple[str, list[Array], list[str], float]]:
    """Yield the same of lme4, which runs once for all folds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for fold, (X, y, ids, Z, of) in enumerate(parts):
            columns = [f"x{j + 1}" for j in range(X.shape[1])]
            pd.DataFrame(X, columns=columns).assign(
                y=y, task=[f"t{t}" for t in ids]
            ).to_csv(folder / f"train-{fold}.csv")
            pd.DataFrame(Z, columns=columns).assign(task=[f"t{t}" for t in of]).to_csv(
                folder / f"test-{fold}.csv"
            )
        subprocess.run(
            ["Rscript", str(R_SCRIPT), name, str(LIMIT), str(MOST_SLOPES)], check=True
        )
        found = pd.read_csv(folder / "lme4.csv", keep_default_na=False)
        for model in MODELS:
            mine = found[found["model"] == model]
            files = [folder / f"{model}-{fold}.csv" for fold in range(len(parts))]
            told = [
                pd.read_csv(path)["told"].to_numpy() for path in files if path.is_file()
            ]
            yield model, told, mine["note"].tolist(), float(mine["seconds"].sum())


def compared(
    run: Run, tools: dict[str, Callable[[list[Any]], Iterator[Any]]], label: str
) -> Iterator[dict[str, Any]]:
    """Yield the lines of a table."""
    for rows, whole, record in settings(run, label):
        split = record.inputs["split"]
        data, _ = with_splits(whole, rows, 5, split["seed"])
        evaluation, parts = (
            protocol_of(data, 5, 3, split["seed"]).evaluation(data),
            list(folds(data)),
        )
        table = record.result["tables"]["methods"]
        known = {
            line[0]: dict(zip(table["columns"], line, strict=True))
            for line in table["rows"]
        }

        def error_of(told: list[Array], evaluation: Any = evaluation) -> float:
            losses = {
                fold: evaluation.losses(fold, scores)
                for fold, scores in enumerate(told)
            }
            return float(evaluation.gain(losses, losses, 1).first)

        means = [
            np.array([y[ids == t].mean() if (ids == t).any() else y.mean() for t in of])
            for _, y, ids, _, of in parts
        ]
        again = error_of(means)
        if abs(again - known["TaskMean"]["error"]) > 1e-4:
            raise SystemExit(
                f"{label}, {rows} rows: the mean of every task has an error of {again}, {known['TaskMean']}"
            )
        best, ours = record.metrics["error"], known["HierarchicalMTL"]
        for tool, cells in tools.items():
            for model, told, notes, seconds in cells(parts):
                line = {
                    "table": label,
                    "rows": rows,
                    "seed": split["trial"],
                    "tool": tool,
                    "model": model,
                }
                line |= {
                    "best_without": best,
                    "ours": ours["error"],
                    "ours_gain": ours["gain"],
                }
                line |= {"noted": sum(map(bool, notes))}
                failed = [note for note in notes if note.startswith("failed")]
                if failed:
                    yield {
                        **line,
                        "noted": "",
                        "note": failed[0].removeprefix("failed: "),
                    }
                    continue
                error = error_of(told)
                note = ", ".join(sorted({note for note in notes if note}))
                yield {
                    **line,
                    "error": error,
                    "gain": 1 - error / best,
                    "seconds": seconds,
                    "note": note,
                }


def written(
    path: Path,
    run: Run,
    tools: list[str],
    tables: list[str],
    lines: list[dict[str, Any]],
) -> None:
    """Write the lines of some tables; lines of other tables stay, in the order of the
    run.
    """
    kept = []
    if path.is_file():
        with path.open(encoding="utf-8") as stream:
            next(stream)
            kept = [
                line for line in csv.DictReader(stream) if line["table"] not in tables
            ]
    order = list(run.datasets)
    text = io.StringIO()
    what = f"{', '.join(tools)} on the rows of atlas/gain, profile {run.profile}, {datetime.now(UTC).date()}"
    text.write(f"# {what}; made by benchmarks/atlas_mixed_models.py\n")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        sorted([*kept, *lines], key=lambda line: order.index(line["table"]))
    )
    path.write_text(text.getvalue(), encoding="utf-8")


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--to", type=Path, help="default: mixed_models.csv beside the run"
    )
    parser.add_argument(
        "--only", nargs="+", help="tables; lines of others stay in the file"
    )
    given = parser.parse_args()
    tools: dict[str, Any] = {
        "mtlrun": lambda parts: python_cells(parts, by_mtlrun),
        "statsmodels": lambda parts: python_cells(parts, by_statsmodels),
    }
    if which("Rscript"):
        tools["lme4"] = lme4_cells
    run = read_run(given.folder)
    path = given.to or given.folder.resolve().parents[1] / "mixed_models.csv"
    for table in given.only or run.datasets:
        lines = []
        for line in compared(run, tools, table):
            lines.append(
                {
                    n: f"{value:.4g}" if isinstance(value, float) else value
                    for n, value in line.items()
                }
            )
            print(*line.values(), flush=True)
        if lines:
            written(path, run, list(tools), [table], lines)


if __name__ == "__main__":
    main()
