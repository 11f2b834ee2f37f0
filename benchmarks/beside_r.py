"""Mixed models and curves compared with R's lme4 and mgcv, fit by fit.

``python benchmarks/beside_r.py [mixed crossed curves splits] [--data DIR]`` prints, for
tables of DIR/grouped:

* mixed: CPU seconds of `lmer` over those of `HierarchicalMTL`, with diagonal and full
  covariances, and of a million simulated rows in 10,000 tasks, `HierarchicalMTL` alone;
* crossed: 73,000 simulated rows with two crossed factors of 3,000 and 1,100 levels,
  `SmoothMTL` with levels compared with `lmer`;
* curves: CPU seconds of mgcv's `bam` (discrete, random levels) over those of
  `SmoothMTL`, one column;
* splits: root mean squared errors on 20 random splits (80% training rows, one column)
  of `bam` with random levels, with random levels and slopes, and of ours.

Fits alternate: one of ours in this process, one of R in a process that waits for the
next command. They come after one that does not count. A ratio is the median over the
rounds; above 1, mtlrun is faster. Set OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1. R
needs the packages lme4 and mgcv.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mtlrun.estimators import HierarchicalMTL, SmoothMTL

#: Table -> target, column of the tasks, column of numbers.
TABLES = {
    "sleepstudy": ("Reaction", "Subject", "Days"),
    "Orthodont": ("distance", "Subject", "age"),
    "Milk": ("protein", "Cow", "Time"),
    "Exam": ("normexam", "school", "standLRT"),
    "ScotsSec": ("attain", "primary", "verbal"),
}
N_SPLITS = 20
Fit = Callable[[], Any]


class R:
    """A process of R that waits for commands."""

    def __init__(self, folder: Path) -> None:
        script = str(Path(__file__).with_suffix(".R"))
        self.folder = folder
        self.process = subprocess.Popen(
            ["Rscript", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, *words: str) -> float:
        """Send a command and return the number that answers it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def read(self, frame: pd.DataFrame) -> None:
        """Read a table."""
        file = self.folder / "rows.csv"
        frame.to_csv(file, index=False)
        self.ask("read", str(file))

    def predict(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the predictions of the last fit."""
        new = self.folder / "new.csv"
        predicted = self.folder / "predicted.csv"
        frame.to_csv(new, index=False)
        self.ask("predict", str(new), str(predicted))
        return pd.read_csv(predicted)["predicted"].to_numpy()


def main() -> None:
    """Print the parts that are named, all by default."""
    parts = {"mixed": mixed, "crossed": crossed, "curves": curves, "splits": splits}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*parts, []])
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        r = R(Path(folder))
        for name in options.parts or parts:
            parts[name](r, options.data, options.rounds)
        r.process.communicate("quit\n")


def table(folder: Path, name: str) -> pd.DataFrame:
    """Return target y, task and column x1 of a table."""
    target, task, column = TABLES[name]
    frame = pd.read_csv(folder / "grouped" / f"{name}.csv.gz")
    frame = frame[[target, task, column]].dropna()
    return frame.set_axis(["y", "task", "x1"], axis=1).astype({"task": str})


def report(title: str, r: R, formula: str, ours: Fit, rounds: int) -> None:
    """Print the seconds of alternating fits, and their ratio."""
    ours()
    r.ask("fit", formula)
    seconds = []
    theirs = []
    for _ in range(rounds):
        started = time.process_time()
        ours()
        seconds.append(time.process_time() - started)
        theirs.append(r.ask("fit", formula))
    ratio = statistics.median(theirs) / statistics.median(seconds)
    print(
        f"{title:24s} ours {1e3 * statistics.median(seconds):9.1f} ms, "
        f"R {1e3 * statistics.median(theirs):9.1f} ms, R / ours {ratio:6.2f}",
        flush=True,
    )


def mixed(r: R, folder: Path, rounds: int) -> None:
    """Print linear mixed models with one column, compared with lme4."""
    effects = {"diagonal": "(x1 || task)", "full": "(x1 | task)"}
    for name in ("sleepstudy", "Exam", "ScotsSec"):
        frame = table(folder, name)
        r.read(frame)
        X = frame[["x1"]].to_numpy(float)
        y = frame["y"].to_numpy(float)
        ids = frame["task"].factorize()[0]
        for covariance, effect in effects.items():
            model = HierarchicalMTL(covariance)

            def ours(model: Any = model, rows: Any = (X, y, ids)) -> Any:
                return model.fit(*rows[:2], task_id=rows[2])

            report(f"{name} {covariance}", r, f"y ~ x1 + {effect}", ours, rounds)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_000_000, 10))
    ids = rng.integers(0, 10_000, len(X))
    y = X[:, 0] + rng.normal(size=10_000)[ids] + rng.normal(size=len(X))
    started = time.process_time()
    HierarchicalMTL("diagonal").fit(X, y, task_id=ids)
    seconds = time.process_time() - started
    print(f"1,000,000 rows x 10, 10,000 tasks, diagonal: ours {seconds:.2f} s")


def crossed(r: R, folder: Path, rounds: int) -> None:
    """Print a model with two crossed factors, compared with lme4."""
    rng = np.random.default_rng(0)
    n_rows = 73_000
    frame = pd.DataFrame(
        {"task": rng.integers(0, 3000, n_rows), "group": rng.integers(0, 1100, n_rows)}
    )
    frame["x1"] = rng.normal(size=n_rows)
    levels = 0.5 * rng.normal(size=3000)[frame["task"]]
    levels += 0.5 * rng.normal(size=1100)[frame["group"]]
    frame["y"] = frame["x1"] + levels + rng.normal(size=n_rows)
    r.read(frame)
    model = SmoothMTL(("linear",), ("level",), levels=("group",))

    def ours() -> Any:
        return model.fit(frame[["x1", "group"]], frame["y"], task_id=frame["task"])

    formula = "y ~ x1 + (1 | task) + (1 | group)"
    report("73,000 crossed", r, formula, ours, min(rounds, 3))


def curves(r: R, folder: Path, rounds: int) -> None:
    """Print curves with random levels, compared with mgcv's bam."""
    for name in ("sleepstudy", "Exam", "ScotsSec"):
        frame = table(folder, name)
        r.read(frame)
        model = SmoothMTL()

        def ours(model: Any = model, frame: Any = frame) -> Any:
            return model.fit(frame[["x1"]], frame["y"], task_id=frame["task"])

        formula = f"y ~ s(x1,k={knots(frame)}) + s(task,bs='re')"
        report(f"{name} curves", r, formula, ours, rounds)


def knots(frame: pd.DataFrame) -> int:
    """Return the number of basis functions of a curve: mgcv's 10, if there are values."""
    return min(10, frame["x1"].nunique())


def splits(r: R, folder: Path, rounds: int) -> None:
    """Print errors on random splits of the rows."""
    for name in ("sleepstudy", "Orthodont", "Milk", "Exam"):
        frame = table(folder, name)
        errors: dict[str, list[float]] = {}
        for split in range(N_SPLITS):
            order = np.random.default_rng(split).permutation(len(frame))
            n_train = int(0.8 * len(frame))
            train = frame.iloc[np.sort(order[:n_train])]
            test = frame.iloc[np.sort(order[n_train:])]
            test = test[test["task"].isin(train["task"])]
            r.read(train)
            curve = f"y ~ s(x1,k={knots(train)}) + s(task,bs='re')"
            predictions = {}
            for label, formula in {
                "bam, levels": curve,
                "bam, levels and slopes": f"{curve} + s(task,x1,bs='re')",
            }.items():
                r.ask("fit", formula)
                predictions[label] = r.predict(test)
            for model in (SmoothMTL(), HierarchicalMTL()):
                model.fit(train[["x1"]], train["y"], task_id=train["task"])
                predicted = model.predict(test[["x1"]], task_id=test["task"])
                predictions[type(model).__name__] = predicted
            for label, predicted in predictions.items():
                squares = np.square(predicted - test["y"].to_numpy())
                errors.setdefault(label, []).append(float(np.sqrt(squares.mean())))
        ours = np.array(errors["SmoothMTL"])
        for label, values in errors.items():
            ratios = ours / np.array(values)
            print(
                f"{name:12s} {label:24s} RMSE {np.mean(values):8.4g} "
                f"SmoothMTL / this {ratios.mean():.3f} ({ratios.min():.2f} to "
                f"{ratios.max():.2f}), SmoothMTL better in {(ratios < 1).sum()} of "
                f"{N_SPLITS}",
                flush=True,
            )


if __name__ == "__main__":
    main()
