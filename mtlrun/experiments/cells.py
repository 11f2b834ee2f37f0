"""Cells: the pieces of work of an experiment, and everything that changes their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mtlrun.core.records import TIMEOUT, CellRecord
from mtlrun.experiments.axis import Setting
from mtlrun.experiments.keys import cell_key
from mtlrun.experiments.load import Experiment
from mtlrun.experiments.measures.lookup import measure_path
from mtlrun.experiments.measures.published import published_hash
from mtlrun.experiments.methods import class_paths, complete, resolved
from mtlrun.experiments.params import with_params
from mtlrun.experiments.schema import PUBLISHED, Limits, Method
from mtlrun.experiments.seeds import derive_seed
from mtlrun.experiments.store import Names
from mtlrun.runs.code import code_of

SCHEMA = 1
EVALUATION, SELECTION, MEASUREMENT = "evaluation", "selection", "measurement"
#: Where the code that computes a cell starts.
_COMPUTED_BY = {
    kind: f"mtlrun.experiments.{name}"
    for kind, name in ((EVALUATION, "evaluate"), (SELECTION, "selection"), (MEASUREMENT, "measuring"))
}
State = Literal["done", "missing", "stale", "failed", "damaged"]


@dataclass(frozen=True)
class Cell:
    """One piece of work.

    Attributes
    ----------
    key : str
    kind : {"evaluation", "selection", "measurement"}
    dataset, method : str
        Labels; a selection that several methods share has the name of the first. In a sweep the first is that of the
        setting (`axis.Setting`).
    trial : int
        From 0.
    inputs : dict
        Everything that changes the number; its sha256 is the key.
    needs : str or None
        Key of the selection cell that an evaluation starts from.
    state : {"done", "missing", "stale", "failed", "damaged"}
        `stale`: an older record of the same names exists, under another key. `damaged`: its file is not as written.
    reason : str
        Why it is stale, failed or damaged.
    wanted : bool
        False for cells outside `only`.
    """

    key: str
    kind: str
    dataset: str
    method: str
    trial: int
    inputs: Mapping[str, Any]
    needs: str | None = None
    state: State = "missing"
    reason: str = ""
    wanted: bool = True

    @property
    def name(self) -> str:
        """Name for people: ``enron/APG-RMTL/trial 0``."""
        note = " (selection)" if self.kind == SELECTION else ""
        return f"{self.dataset}/{self.method}/trial {self.trial}{note}"

    @property
    def names(self) -> Names:
        """Names under which records are looked up."""
        return self.kind, self.dataset, self.method, self.trial


def settled(record: CellRecord, limits: Limits | None) -> bool:
    """Whether a cell need not be computed again.

    That is so when it is done, and for a measurement that was stopped at a limit no lower than today's: its result is
    that it takes longer.
    """
    if record.done or limits is None:
        return record.done
    stopped = record.kind == MEASUREMENT and record.status == TIMEOUT
    return stopped and record.seconds.get("limit", 0) >= limits.seconds


@dataclass(frozen=True)
class CellMaker:
    """Builds the cells of one (setting, method, trial).

    Attributes
    ----------
    fingerprint, reader : str
        Of the data set: its content, and ``module:function`` of what reads or generates it; empty without one.
    prints : dict
        Digests of code found so far, by where it starts.
    """

    experiment: Experiment
    place: Setting
    fingerprint: str
    reader: str
    method: Method
    trial: int
    prints: dict[tuple[str, ...], dict[str, str]]

    def selection(self) -> Cell | None:
        """Return the search for the parameters, None without a grid."""
        spec, method = self.experiment.spec, self.method
        if not method.grid or spec.selection is None:
            return None
        metric = spec.selection.metric or self.place.metrics[0]
        folds = 1 if spec.selection.on == "validation" else spec.selection.folds
        params = with_params(complete(method.estimator, method.params), method.select_with)
        grid = {k: list(spec.grids[v]) if isinstance(v, str) else list(v) for k, v in method.grid.items()}
        inputs = {
            **self._common(SELECTION, params),
            "grid": grid,
            "search": {"folds": folds, "metric": metric, "seed": self._seed("selection")},
        }
        if spec.selection.on == "validation":  # one fit, on the training part: the same search as a single fold
            inputs["search"]["on"] = "validation"
        return Cell(cell_key(inputs), SELECTION, self.place.name, method.label, self.trial, inputs)

    def evaluation(self, needs: str | None) -> Cell:
        """Return the cell that fits, times and scores."""
        spec, timing = self.experiment.spec, self.experiment.spec.timing
        inputs = {
            **self._common(EVALUATION, self.method.params),
            "selection": needs,
            "metrics": list(self.place.metrics),
            "timing": timing and {"repeats": timing.repeats, "threads": timing.threads, "warmup": timing.warmup},
        }
        if spec.keep:
            inputs["keep"] = sorted(set(spec.keep))
        return Cell(cell_key(inputs), EVALUATION, self.place.name, self.method.label, self.trial, inputs, needs)

    def measurement(self) -> Cell:
        """Return the cell that calls a measure."""
        spec, dataset, method = self.experiment.spec, self.place.dataset, self.method
        path = measure_path(method.measure)
        published = published_hash(method.params)
        inputs = {
            "schema": SCHEMA,
            "kind": MEASUREMENT,
            "dataset": {"id": dataset.id, "options": dataset.options, "fingerprint": self.fingerprint}
            if dataset
            else {"id": "", "options": {}, "fingerprint": ""},
            **({"published": published} if published else {}),
            "split": {"kind": "repeat", "trial": self.trial, "seed": self._seed()},
            "measure": {"measure": path, "params": dict(method.params)},
            "timing": {"threads": spec.timing.threads if spec.timing else 1} if spec.timed else None,
            "code": self._code(MEASUREMENT, path),
            **self._features(),
        }
        return Cell(cell_key(inputs), MEASUREMENT, self.place.name, method.label, self.trial, inputs)

    def _common(self, kind: str, params: Mapping[str, Any]) -> dict[str, Any]:
        spec = self.experiment.spec
        dataset, place_split = self.place.dataset, self.place.split
        assert dataset is not None  # only measurements have none
        assert place_split is not None
        split = {k: v for k, v in place_split.model_dump(exclude={"trials"}).items() if v is not None}
        estimator = resolved(self.method.estimator, params, self._seed("estimator"))
        return {
            "schema": SCHEMA,
            "kind": kind,
            "dataset": {"id": dataset.id, "options": dataset.options, "fingerprint": self.fingerprint},
            "split": {**split, "trial": self.trial, "seed": self._split_seed()},
            "estimator": estimator,
            "average": spec.average,
            "code": self._code(kind, *class_paths(estimator)),
            **self._features(),
        }

    def _features(self) -> dict[str, str]:
        return {} if self.place.features == "none" else {"features": self.place.features}

    def _code(self, kind: str, *paths: str) -> dict[str, str]:
        starts = (_COMPUTED_BY[kind], *paths, *filter(None, [self.reader]))
        if starts not in self.prints:
            self.prints[starts] = code_of(starts)
        return self.prints[starts]

    def _split_seed(self) -> int:
        split = self.place.split
        if split is not None and split.kind == "kfold":  # the trials are the folds of one partition
            return derive_seed(self.experiment.spec.seed, self._place_id)
        return self._seed()

    def _seed(self, *purpose: str) -> int:
        return derive_seed(self.experiment.spec.seed, self._place_id, self.trial, *purpose)

    @property
    def _place_id(self) -> str:
        return self.place.dataset.id if self.place.dataset else PUBLISHED
