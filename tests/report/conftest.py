"""Run folders made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mtlrun.core.records import CellRecord


class FolderMaker:
    """Writes a run folder: a plan of data sets x methods x trials, and the cells that are given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.info: dict[str, Any] = {
            "schema": 1,
            "id": "made/table1",
            "title": "A table made by hand",
            "kind": "evaluate",
            "profile": "quick",
            "paper": {"cite": "Nobody: Nothing & more, 2015", "artefact": "Table I"},
            "overrides": ["split.trials=2"],
            "paper_datasets": ["alpha", "beta"],
            "seed": 0,
            "methods": ["One Norm", "APG-RMTL", "LADM-DC-RMTL-10%"],
            "datasets": {
                "alpha": {
                    "id": "alpha",
                    "title": "Alpha",
                    "simulated": False,
                    "fingerprint": "f" * 64,
                    "statistics": {"n": 10, "d": 3},
                    "files": {"alpha.arff": "a" * 64},
                    "licence": "CC0",
                }
            },
            "command": "mtlrun reproduce made/table1 --profile quick",
            "config": {
                "seed": 0,
                "split": {"kind": "random", "train": 0.4, "trials": 2},
                "metrics": ["auc"],
                "timing": {"repeats": 3, "threads": 1, "warmup": True, "baseline": "APG-RMTL"},
                "selection": {"folds": 3, "metric": "auc"},
                "methods": [
                    {
                        "label": "One Norm",
                        "estimator": "SparseMTL",
                        "params": {"fit_intercept": False},
                        "grid": {"alpha": [0.1, 1, 10]},
                    },
                    {"label": "APG-RMTL", "estimator": "RobustMTL", "params": {"solver": "apg"}},
                    {"label": "LADM-DC-RMTL-10%", "estimator": "DivideAndConquerRMTL", "params": {"n_blocks": 10}},
                ],
                "claims": [],
                "reference": [],
                "deviations": ["AUC is averaged over the labels where it is defined."],
            },
        }
        self.trials = 2
        self.records: dict[tuple[str, str, int], CellRecord | None] = {}
        self.extra: list[CellRecord] = []
        self.provenance: dict[str, Any] = {"schema": 1, "runs": []}

    @property
    def config(self) -> dict[str, Any]:
        """The resolved experiment."""
        return self.info["config"]

    def cell(
        self, dataset: str, method: str, trial: int, auc: float | None = 0.7, fit: float = 1.0, **fields: Any
    ) -> CellRecord:
        """Add one record; `fields` are attributes of CellRecord."""
        record = CellRecord(
            key=f"{dataset}-{method}-{trial}".replace(" ", "_"),
            kind="evaluation",
            experiment="made/table1",
            profile="quick",
            dataset=dataset,
            method=method,
            split={"kind": "random", "train": 0.4, "trial": trial, "seed": trial},
            inputs={},
            metrics={"auc": auc},
            per_task={"auc": [auc, None, auc]},
            counts={"n_tasks": 3, "n_train": 4, "n_test": 6, "one_class_train": 1 + trial, "undefined_auc": 1},
            seconds={"fit": fit, "fit_all": [fit, fit, fit], "predict": 0.01},
            solver={"n_iter": 10, "converged": True, "gap": 1e-5, "objective": 3.5},
            environment={"threads": 1, "repeats": 3, "warmup": True, "serial": True, "cpu": "made", "blas": "made"},
        )
        for name, value in fields.items():
            setattr(record, name, value)
        self.records[dataset, method, trial] = record
        return record

    def fail(
        self, dataset: str, method: str, trial: int, status: str = "failed", error: str = "ValueError: no"
    ) -> None:
        """Add a failed record."""
        self.cell(
            dataset,
            method,
            trial,
            status=status,
            error=error,
            metrics={},
            per_task={},
            seconds={},
            solver={},
            counts={},
        )

    def fill(self, datasets: tuple[str, ...] = ("alpha",)) -> FolderMaker:
        """Add finished cells for every method; the later methods are better and faster."""
        for dataset in datasets:
            for place, method in enumerate(self.info["methods"]):
                for trial in range(self.trials):
                    self.cell(dataset, method, trial, auc=0.7 + 0.01 * place + 0.001 * trial, fit=8.0 / 4**place)
        return self

    def measure(self, kind: str, metrics: list[str], **config: Any) -> FolderMaker:
        """Make it an experiment of measurements of two methods; `config` goes into the resolved experiment."""
        self.info["kind"] = kind
        self.info["methods"] = ["DCD", "MTK"]
        self.info["quantities"] = {name: {"text": f"made {name}", "greater_is_better": False} for name in metrics}
        kept = {"seed": 0, "metrics": metrics, "repeats": 1, "claims": [], "reference": []}
        methods = [{"label": m, "measure": "made", "params": {"C": 10}} for m in self.info["methods"]]
        self.info["config"] = {**kept, "methods": methods, **config}
        return self

    def measurement(self, dataset: str, method: str, trial: int = 0, **fields: Any) -> CellRecord:
        """Add one record of a measurement."""
        fields = {"metrics": {}, "per_task": {}, "counts": {}, "seconds": {"total": 1.0}, "solver": {}, **fields}
        split = {"kind": "repeat", "trial": trial, "seed": trial}
        return self.cell(dataset, method, trial, kind="measurement", split=split, **fields)

    def skip(self, dataset: str, method: str, trial: int) -> None:
        """Plan a cell that was not computed."""
        self.records[dataset, method, trial] = None

    def write(self) -> Path:
        """Write the folder and return its path."""
        cells = self.folder / "cells"
        cells.mkdir(parents=True, exist_ok=True)
        plan = []
        for (dataset, method, trial), record in self.records.items():
            key = record.key if record else f"missing-{dataset}-{method}-{trial}".replace(" ", "_")
            plan.append(
                {
                    "key": key,
                    "kind": record.kind if record else "evaluation",
                    "dataset": dataset,
                    "method": method,
                    "trial": trial,
                    "split": {},
                }
            )
            if record:
                (cells / f"{key}.json").write_text(record.to_json(), encoding="utf-8")
        for record in self.extra:
            (cells / f"{record.key}.json").write_text(record.to_json(), encoding="utf-8")
        (self.folder / "run.json").write_text(json.dumps({**self.info, "cells": plan}), encoding="utf-8")
        (self.folder / "provenance.json").write_text(json.dumps(self.provenance), encoding="utf-8")
        return self.folder


@pytest.fixture(scope="session")
def folder_maker() -> type[FolderMaker]:
    """The class, for folders that several tests share."""
    return FolderMaker


@pytest.fixture
def maker(tmp_path: Path) -> FolderMaker:
    """An empty run folder of two trials; add cells, then write()."""
    return FolderMaker(tmp_path / "run")
