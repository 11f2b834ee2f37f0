"""What a training file may say (`kind: train`): one data set, one method, one split; and how such a file is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from mtlrun.errors import ConfigError
from mtlrun.runs.catalogue import find, shown_path
from mtlrun.runs.crosscheck import Finding, crosscheck
from mtlrun.runs.findings import describe_problems
from mtlrun.runs.layers import Layers, Origin
from mtlrun.runs.schema import (
    Base,
    DatasetSpec,
    ExperimentSpec,
    FeatureStep,
    Selection,
    Split,
    Values,
    experiment_id,
)
from mtlrun.runs.spec import FULL, Experiment
from mtlrun.utils.yaml import KeyPath, Problem, load_file, render

KIND = "train"
#: Keys that an override may not touch.
FIXED = ("schema", "id", "title", "kind")


class TrainMethod(Base):
    """A registered method or ``package.module:Class``, its parameters, and the grid that is searched."""

    estimator: str
    params: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, Values] = Field(default_factory=dict)
    select_with: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"estimator": value} if isinstance(value, str) else value


class TrainSpec(Base):
    """A whole training file."""

    schema_: Literal[1] = Field(alias="schema")
    id: Annotated[str, AfterValidator(experiment_id)]
    title: str = ""
    kind: Literal["train"]
    description: str | None = None
    dataset: DatasetSpec
    method: TrainMethod
    features: FeatureStep | None = None
    split: Split
    metrics: Annotated[list[str], Field(min_length=1)]
    average: Literal["task", "sample"] = "task"
    seed: Annotated[int, Field(ge=0)] = 0
    selection: Selection | None = None
    refit: bool = False

    @model_validator(mode="after")
    def _one_split(self) -> TrainSpec:
        if self.split.n_trials > 1:
            raise ValueError("a training file evaluates one split: leave 'trials' out and use random or published")
        return self

    @model_validator(mode="after")
    def _own_sections(self) -> TrainSpec:
        if self.dataset.own:
            raise ValueError(f"a training file has {next(iter(self.dataset.own))!r} itself, not inside 'dataset'")
        if self.split.validation is not None or (self.selection and self.selection.on != "folds"):
            raise ValueError("a training file chooses parameters by folds: it has no validation part")
        return self

    @property
    def datasets(self) -> list[DatasetSpec]:
        """The data set, as an experiment has it."""
        return [self.dataset]

    @property
    def step(self) -> dict[str, Any] | None:
        """The feature step as plain data, None without one."""
        return None if self.features is None else self.features.model_dump(exclude_none=True)

    @property
    def selection_metric(self) -> str:
        """The metric that parameters are chosen by."""
        return (self.selection.metric if self.selection else None) or self.metrics[0]


@dataclass(frozen=True)
class Training:
    """A validated training file.

    Attributes
    ----------
    spec : TrainSpec
    config : dict
        The same as plain data.
    source : str
        The file, as messages call it.
    """

    spec: TrainSpec
    config: dict[str, Any]
    source: str

    @property
    def id(self) -> str:
        """``<paper>/<artefact>``, where results go below the output folder."""
        return self.spec.id


def experiment_of(training: Training) -> Experiment:
    """Return a training file as an experiment of one data set, one method and one split: what is planned and run."""
    config = training.config
    method = config["method"]
    data: dict[str, Any] = {
        **{name: config[name] for name in ("id", "split", "metrics", "average", "seed")},
        **{name: config[name] for name in ("features", "selection") if name in config},
        "schema": 1,
        "title": training.spec.title or training.id,
        "datasets": [config["dataset"]],
        "methods": [{"label": method["estimator"], **method}],
    }
    spec = ExperimentSpec.model_validate(data)
    return Experiment(spec, config, FULL, (FULL,), (), {}, training.source, ())


def load_training(
    target: str | Path,
    *,
    overrides: Iterable[str] = (),
    seed: int | None = None,
    data_dir: Path | str | None = None,
) -> Training:
    """Load and validate a training file.

    Parameters
    ----------
    target : str or Path
        The path of a YAML file, or the name of one that comes with mtlrun (``train/school``).
    overrides : iterable of str
        ``a.b=c``; they win over the file.
    seed : int, optional
        Wins over everything.
    data_dir : path, optional
        Data directory whose own cards count as known data sets.

    Raises
    ------
    UnknownNameError, ConfigError
        As `load_experiment`: all problems at once, each at its place.
    """
    path = find(str(target))
    document = load_file(path, shown_path(path))
    layers = Layers.of(document)
    for text in overrides:
        _widen(layers, text)
        layers.apply_override(text, FIXED)
    if seed is not None:
        layers.put(("seed",), seed, Origin("--seed", where=f"--seed {seed}"))
    if layers.data.get("kind", "evaluate") != KIND:
        raise ConfigError(f"{document.name}: not a training file (kind: train)", f"mtlrun reproduce {target} runs it.")
    spec, problems = validate_training(layers, None if data_dir is None else Path(data_dir))
    if problems or spec is None:
        raise ConfigError(render(problems, document))
    return Training(spec, _plain(spec), document.name)


def training_of(config: Mapping[str, Any], source: str) -> Training:
    """Return a training file that is given as plain data and known to be right.

    Raises
    ------
    ValidationError
        If it is not.
    """
    spec = TrainSpec.model_validate(config)
    return Training(spec, _plain(spec), source)


def validate_training(layers: Layers, data_dir: Path | None) -> tuple[TrainSpec | None, list[Problem]]:
    """Return the specification, None if it is none, and all problems found."""
    problems = list(layers.problems)
    spec = None
    findings = list(_crosscheck(layers.data, data_dir))
    try:
        spec = TrainSpec.model_validate(layers.data)
    except ValidationError as error:
        findings += describe_problems(error, layers.data, TrainSpec)
    for path, at_key, message, hint in findings:
        origin = layers.origin(path)
        problems.append(Problem(origin.key if at_key else origin.value, message, hint, origin.where))
    return spec, problems


def _widen(layers: Layers, override: str) -> None:
    """Make a mapping of ``method: NAME`` when an override reaches into it."""
    for section, name in (("method", "estimator"), ("dataset", "id"), ("features", "kind")):
        value = layers.data.get(section)
        if override.startswith(f"{section}.") and isinstance(value, str):
            layers.data[section] = {name: value}
            layers.origins[(section, name)] = layers.origin((section,))


def _crosscheck(data: Mapping[str, Any], data_dir: Path | None) -> Iterator[Finding]:
    """Check the file as an experiment with one data set and one method, and its metrics against the data."""
    method, dataset = data.get("method"), data.get("dataset")
    view = {
        **{k: v for k, v in data.items() if k not in ("method", "dataset")},
        "methods": [{"estimator": method} if isinstance(method, str) else method],
        "datasets": [dataset],
    }
    for path, at_key, message, hint in crosscheck(view, data_dir):
        yield _own_path(path, data), at_key, message, hint
    yield from _metrics_of_labels(data, data_dir)


def _own_path(path: KeyPath, data: Mapping[str, Any]) -> KeyPath:
    """Turn ``("methods", 0, "params", ...)`` into ``("method", "params", ...)``."""
    for several, one in (("methods", "method"), ("datasets", "dataset")):
        if path[:2] == (several, 0):
            return (one,) if isinstance(data.get(one), str) else (one, *path[2:])
    return path


def _metrics_of_labels(data: Mapping[str, Any], data_dir: Path | None) -> Iterator[Finding]:
    from mtlrun.data.cards import card_paths, read_card
    from mtlrun.data.files import data_directory
    from mtlrun.metricfacts import METRIC_FACTS

    dataset = data.get("dataset")
    name = dataset.get("id") if isinstance(dataset, dict) else dataset
    paths = card_paths(data_directory(data_dir))
    if not isinstance(name, str) or name not in paths or read_card(paths[name]).task_type != "regression":
        return
    metrics = data.get("metrics")
    for i, metric in enumerate(metrics if isinstance(metrics, list) else []):
        if isinstance(metric, str) and metric in METRIC_FACTS and METRIC_FACTS[metric].needs != "value":
            known = ", ".join(name for name, m in METRIC_FACTS.items() if m.needs == "value")
            yield ("metrics", i), False, f"{metric!r} is for labels, {name} has numbers as targets", f"use: {known}"


def _plain(spec: TrainSpec) -> dict[str, Any]:
    """Return the specification as plain data without empty optional fields."""
    config = spec.model_dump(by_alias=True, exclude={"dataset"}, exclude_none=True)
    config["dataset"] = {"id": spec.dataset.id, **spec.dataset.options}
    if spec.selection is not None:
        config["selection"] = {"folds": spec.selection.folds, "metric": spec.selection_metric}
    return config
