"""Synthetic run folders."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from mtlrun.engine.job import choose
from mtlrun.engine.record import JobKind, Record, SearchResult, Seconds
from mtlrun.lab.stored import StoredExperiment, upgrade
from mtlrun.utils.io import sealed


def stored_experiment(**content: Any) -> StoredExperiment:
    """Return an experiment as read from a run.json with some content."""
    config = {
        "id": "made/table1",
        "title": "Made by hand",
        "metrics": ["auc"],
        "methods": [{"label": "A", "estimator": "RidgeSTL"}],
        **content.pop("config", {}),
    }
    return StoredExperiment.model_validate(upgrade({**content, "config": config}))


class FolderMaker:
    """Writes a run: a plan of data sets x methods x trials, and the cells that are
    given.

    Parameters
    ----------
    output : Path
        The plan goes into `folder`, three levels below, the cells into ``cells``.
    """

    def __init__(self, output: Path) -> None:
        self.output = output
        self.cells = output / "cells"
        self.folder = output / "made" / "table1" / "quick"
        self.info: dict[str, Any] = {
            "schema": 2,
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
                "timing": {
                    "repeats": 3,
                    "threads": 1,
                    "warmup": True,
                    "baseline": "APG-RMTL",
                },
                "selection": {"folds": 3, "metric": "auc"},
                "methods": [
                    {
                        "label": "One Norm",
                        "estimator": "SparseMTL",
                        "params": {"fit_intercept": False},
                        "grid": {"alpha": [0.1, 1, 10]},
                    },
                    {
                        "label": "APG-RMTL",
                        "estimator": "RobustMTL",
                        "params": {"solver": "apg"},
                    },
                    {
                        "label": "LADM-DC-RMTL-10%",
                        "estimator": "DivideAndConquerRMTL",
                        "params": {"n_blocks": 10},
                    },
                ],
                "claims": [],
                "reference": [],
                "deviations": ["AUC is averaged over the labels where it is defined."],
            },
        }
        self.trials = 2
        self.records: dict[tuple[str, str, int], Record | None] = {}
        self.provenance: dict[str, Any] = {"schema": 1, "runs": []}

    @property
    def config(self) -> dict[str, Any]:
        """The resolved experiment."""
        return self.info["config"]

    def cell(
        self,
        dataset: str,
        method: str,
        trial: int,
        auc: float | None = 0.7,
        fit: float = 1.0,
        **fields: Any,
    ) -> Record:
        """Add one record; `fields` are attributes of Record."""
        record = Record(
            key=f"{dataset}-{method}-{trial}".replace(" ", "_"),
            family=JobKind.FIT,
            inputs={},
            metrics={"auc": auc},
            per_task={"auc": [auc, None, auc]},
            counts={
                "n_tasks": 3,
                "n_train": 4,
                "n_test": 6,
                "one_class_train": 1 + trial,
                "undefined_auc": 1,
            },
            seconds=Seconds(fit=fit, fit_all=[fit, fit, fit], predict=0.01),
            solver={"n_iter": 10, "converged": True, "gap": 1e-5, "objective": 3.5},
            environment={
                "threads": 1,
                "repeats": 3,
                "warmup": True,
                "serial": True,
                "cpu": "made",
                "blas": "made",
            },
        )
        for name, value in fields.items():
            if name == "selection":
                value = SearchResult(**value)
            setattr(record, name, value)
        self.records[dataset, method, trial] = record
        return record

    def fail(
        self,
        dataset: str,
        method: str,
        trial: int,
        status: str = "failed",
        error: str = "ValueError: no",
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
            seconds=Seconds(),
            solver={},
            counts={},
        )

    def fill(self, datasets: tuple[str, ...] = ("alpha",)) -> FolderMaker:
        """Add finished jobs for each method; later methods are better and faster."""
        for dataset in datasets:
            for index, method in enumerate(self.info["methods"]):
                for trial in range(self.trials):
                    self.cell(
                        dataset,
                        method,
                        trial,
                        auc=0.7 + 0.01 * index + 0.001 * trial,
                        fit=8.0 / 4**index,
                    )
        return self

    def measure(self, kind: str, metrics: list[str], **config: Any) -> FolderMaker:
        """Turn it into analyses of two methods; `config` updates the experiment."""
        self.info["kind"] = kind
        self.info["methods"] = ["DCD", "MTK"]
        self.info["quantities"] = {
            name: {"text": f"made {name}", "greater_is_better": False}
            for name in metrics
        }
        kept = {
            "seed": 0,
            "metrics": metrics,
            "repeats": 1,
            "claims": [],
            "reference": [],
        }
        methods = [
            {"label": m, "measure": "made", "params": {"C": 10}}
            for m in self.info["methods"]
        ]
        self.info["config"] = {**kept, "methods": methods, **config}
        return self

    def measurement(
        self, dataset: str, method: str, trial: int = 0, **fields: Any
    ) -> Record:
        """Add one record of an analysis."""
        fields = {
            "metrics": {},
            "per_task": {},
            "counts": {},
            "seconds": Seconds(total=1.0),
            "solver": {},
            **fields,
        }
        return self.cell(dataset, method, trial, family=JobKind.ANALYSIS, **fields)

    def search(
        self,
        dataset: str,
        method: str,
        trial: int,
        grid: dict[str, list[Any]],
        *folds: list[float | None],
    ) -> SearchResult:
        """Let a search select the parameters of a job, from the scores of all
        candidates by fold (None: failed).
        """
        columns = []
        for number, scores in enumerate(folds):
            errors = [
                None if score is not None else "ValueError: no" for score in scores
            ]
            column = SearchResult(
                scores=scores,
                errors=errors,
                undefined=[0] * len(scores),
                not_converged=[False] * len(scores),
                warm_started=False,
            )
            columns.append((f"{dataset} {method} {trial} {number}", column))
        record = self.records[dataset, method, trial]
        assert record is not None
        record.selection = choose(grid, "auc", True, columns)
        return record.selection

    def skip(self, dataset: str, method: str, trial: int) -> None:
        """Plan a job that was not computed."""
        self.records[dataset, method, trial] = None

    def file(self, dataset: str, method: str, trial: int) -> Path:
        """Return the file of a job."""
        record = self.records[dataset, method, trial]
        assert record is not None
        return self.cells / f"{record.key}.json"

    def change(self, old: str, new: str, dataset: str, method: str, trial: int) -> None:
        """Replace text in the file of a job, with a valid digest."""
        path = self.file(dataset, method, trial)
        text = json.dumps(json.loads(path.read_text(encoding="utf-8"))["record"])
        assert old in text
        text = text.replace(old, new, 1)
        digest = hashlib.sha256(text.encode()).hexdigest()
        path.write_text(f'{{"sha256":"{digest}","record":{text}}}\n', encoding="utf-8")

    def write(self) -> Path:
        """Write everything and return the run folder."""
        self.cells.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        plan = []
        for (dataset, method, trial), record in self.records.items():
            key = (
                record.key
                if record
                else f"missing-{dataset}-{method}-{trial}".replace(" ", "_")
            )
            plan.append(
                {
                    "key": key,
                    "family": record.family if record else JobKind.FIT,
                    "dataset": dataset,
                    "method": method,
                    "trial": trial,
                }
            )
            if record:
                (self.cells / f"{key}.json").write_text(record.line(), encoding="utf-8")
        (self.folder / "run.json").write_text(
            json.dumps(sealed({**self.info, "cells": plan})), encoding="utf-8"
        )
        (self.folder / "provenance.json").write_text(
            json.dumps(self.provenance), encoding="utf-8"
        )
        return self.folder


@pytest.fixture(scope="session")
def folder_maker() -> type[FolderMaker]:
    """Return the class, for folders shared by several tests."""
    return FolderMaker


@pytest.fixture
def maker(tmp_path: Path) -> FolderMaker:
    """Return an empty run of two trials; add jobs, then call write()."""
    return FolderMaker(tmp_path / "runs")
