"""An experiment or a training, ready to be planned: its validated file and the same as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtlrun.runs.spec import FULL, TRAIN, MethodSpec, Selection, Spec

#: Keys of a training file and of its method.
TRAIN_KEYS = (
    *("schema", "id", "title", "kind", "description", "dataset", "method", "features", "split", "metrics", "average"),
    *("seed", "selection", "keep", "refit"),
)
TRAIN_METHOD_KEYS = ("estimator", "params", "grid", "select_with", "scored")


def as_experiment(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a training file, as plain data, as the experiment with one data set and one method that it stands for."""
    made = {"title": "", **{name: value for name, value in data.items() if value is not None}}
    if "dataset" in made:
        made["datasets"] = [made.pop("dataset")]
    if "method" in made:
        method = made.pop("method")
        row = {"estimator": method} if isinstance(method, str) else method
        made["methods"] = [{"label": str(row.get("estimator") or TRAIN), **row} if isinstance(row, dict) else row]
    return made


def plain(spec: Spec) -> dict[str, Any]:
    """Return a specification as plain data without empty optional fields; values of `params` are kept as they are.

    That of a training file has the keys of a training file.
    """
    config = spec.model_dump(by_alias=True, exclude={"profiles", "readings", "grids", "extends"}, exclude_unset=True)
    config = {name: value for name, value in config.items() if value is not None}
    config["seed"] = spec.seed
    config["methods"] = [_plain_method(spec, method) for method in spec.methods]
    if "features" in config:
        config["features"] = spec.features.plain
    if not spec.measures:
        config["average"] = spec.average
    config["datasets"] = [
        {"id": d.id, **({"label": d.label} if d.label else {}), **d.own, **d.options} for d in spec.datasets
    ]
    if spec.selection is not None:
        config["selection"] = _plain_selection(spec, spec.selection)
    config["metrics"] = spec.all_metrics
    for name in ("timing", "limits", "statistics", "table"):
        section = getattr(spec, name)
        if section is not None:
            config[name] = section.model_dump(exclude_none=True)
    if spec.measures:
        config["repeats"] = spec.repeats
    if spec.split is not None:
        config["split"] = spec.split.model_dump(exclude={"trials"}, exclude_none=True)
        if spec.kind != TRAIN and (spec.split.kind != "kfold" or spec.split.trials):
            config["split"]["trials"] = spec.split.n_trials
    if spec.kind != TRAIN:
        return config
    (dataset,), (method,) = config.pop("datasets"), config.pop("methods")
    return {
        **config,
        "dataset": dataset,
        "method": {k: method[k] for k in TRAIN_METHOD_KEYS if k in method},
        "refit": spec.refit,
    }


def _plain_selection(spec: Spec, selection: Selection) -> dict[str, Any]:
    how = {"on": selection.on} if selection.on == "validation" else {"folds": selection.folds}
    one = all(dataset.metrics is None for dataset in spec.datasets)
    metric = selection.metric or (spec.metrics[0] if one else None)  # else it is the first of each data set
    return {**how, **({"metric": metric} if metric else {})}


def _plain_method(spec: Spec, method: MethodSpec) -> dict[str, Any]:
    where = {"datasets": method.datasets} if method.datasets else {}
    if method.measure:
        return {"label": method.label, "measure": method.measure, "params": method.params, **where}
    return {
        "label": method.label,
        "estimator": method.estimator,
        "params": method.params,
        "grid": {k: spec.grids[v] if isinstance(v, str) else v for k, v in method.grid.items()},
        "select_with": method.select_with,
        **({"scored": True} if method.scored else {}),
        **where,
    }


@dataclass(frozen=True)
class Experiment:
    """An experiment or a training with one profile and all overrides applied, ready to be planned.

    Attributes
    ----------
    spec : Spec
        Validated.
    config : dict
        The same as plain data, as `run.json` holds it: names of grids replaced by their values, no profiles.
    source : str
        The file, as messages call it.
    profile : str
    profiles : tuple of str
        All profiles of the file.
    overrides : tuple of str
        ``key=value`` as given, the seed included.
    places : tuple of str
        Where each data set stands: ``line 5``, or ``profile smoke, line 23``.
    paper_datasets : tuple of str
        Ids of the data sets that the file names before a profile changes them.
    reading : str
        Name of the reading; "" without readings.
    others : tuple of Experiment
        The same under the other readings, those left out that change nothing of this profile.
    """

    spec: Spec
    config: dict[str, Any]
    source: str
    profile: str = FULL
    profiles: tuple[str, ...] = (FULL,)
    overrides: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    paper_datasets: tuple[str, ...] = ()
    reading: str = ""
    others: tuple[Experiment, ...] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any], source: str) -> Experiment:
        """Return an experiment, or a training, of plain data that are known to be right."""
        spec = Spec.model_validate(as_experiment(data) if data.get("kind") == TRAIN else data)
        return cls(spec, plain(spec), source)

    @property
    def id(self) -> str:
        """``<paper>/<artefact>``."""
        return self.spec.id

    def folder(self, output: Path | str) -> Path:
        """Return the run folder below an output folder."""
        return Path(output) / self.spec.id / self.profile
