"""Facts about the method and the table of a model: the content of ``model.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from mtlrun.data.clock import Clock
from mtlrun.engine.job import DatasetRef
from mtlrun.utils.io import read_fields


@dataclass(frozen=True)
class ModelColumns:
    """Columns that a model reads.

    Attributes
    ----------
    n_features : int
    names : list of str
        Empty if columns have no names.
    strings : bool
        Whether the rows are DNA strings.
    categories : dict of str to list of str
        Words of each column of text.
    task_column : str or None
    table : bool
        Whether the feature step is made for tables.
    ranges : dict of str to list of float
        Smallest and largest training value of columns of numbers.
    kept : list of str
        Columns that predictions show next to the task.
    levels : list of str
        Columns of further groups.
    clock : dict or None
        As `mtlrun.data.clock.Clock.to_dict` returns it.
    """

    n_features: int = 0
    names: list[str] = field(default_factory=list)
    strings: bool = False
    categories: dict[str, list[str]] = field(default_factory=dict)
    task_column: str | None = None
    table: bool = False
    ranges: dict[str, Any] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    levels: list[str] = field(default_factory=list)
    clock: dict[str, Any] | None = None

    def read_clock(self) -> Clock | None:
        """Return when each task begins, if features are derived from times."""
        if self.clock is None:
            return None
        return Clock.of_model(self.clock, self.names, self.categories)


@dataclass(frozen=True)
class ModelEstimator:
    """Estimator of a model: its name in the training file, its class and parameters."""

    name: str = ""
    class_: str = ""
    per_task: bool = False
    params: dict[str, Any] = field(default_factory=dict)

    def mentions(self, text: str) -> bool:
        """Whether its names, or the names of estimators inside, contain a text."""
        return text in json.dumps(asdict(self))

    @property
    def method(self) -> str:
        """Name of the method, without wrappers that scale targets."""
        name = self.name
        inner = self.params.get("estimator")
        while isinstance(inner, Mapping):
            name = inner["estimator"]
            params = inner.get("params") or {}
            inner = params.get("estimator")
        return str(name).rpartition(":")[2]


@dataclass(frozen=True)
class ModelDescription:
    """Facts about the method and the table of a model.

    Attributes
    ----------
    task_type : {"regression", "binary", "multiclass"}
    design : {"ragged", "shared", "single"}
        Whether each row belongs to one task, has a target for each task, or there is
        one task.
    tasks : list of str
    input : ModelColumns
    estimator : ModelEstimator
    dataset : DatasetRef
    targets : list of str
        Columns of targets of a table.
    labels : dict of str to list of str
        Labels of each target, or of each task where rows belong to tasks.
    label_types : dict of str to str
        Types that the labels of each target had in the table.
    positive : str or None
        Label that counts as positive.
    transform : str or None
        Transform of the targets.
    intervals : dict of str to dict
        Errors on other rows; of known tasks and of new ones.
    config : dict
        Settings of the training.
    cell : str or None
        Key of the job.
    files : dict of str to str
        Digests of the files next to ``model.json``.
    """

    task_type: str = ""
    design: str = ""
    tasks: list[str] = field(default_factory=list)
    input: ModelColumns = ModelColumns()
    estimator: ModelEstimator = ModelEstimator()
    dataset: DatasetRef = field(default_factory=lambda: DatasetRef(""))
    targets: list[str] = field(default_factory=list)
    labels: dict[str, list[str]] = field(default_factory=dict)
    label_types: dict[str, str] = field(default_factory=dict)
    positive: str | None = None
    transform: str | None = None
    intervals: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    cell: str | None = None
    files: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> ModelDescription:
        """Return the description in the content of ``model.json``."""
        dataset = {"id": "", **(content.get("dataset") or {})}
        typed: dict[str, Any] = {"dataset": read_fields(DatasetRef, dataset)}
        for name, part in (("input", ModelColumns), ("estimator", ModelEstimator)):
            typed[name] = read_fields(part, content.get(name) or {})
        return read_fields(cls, {**content, **typed})

    @property
    def is_regression(self) -> bool:
        """Whether the targets are numbers."""
        return self.task_type == "regression"
