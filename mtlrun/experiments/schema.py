"""What an experiment file may say: pydantic models that refuse unknown keys.

`describe_problems` turns pydantic's findings into problems with a path into the file; what needs more than one field
(estimators, parameters, grids, labels) is checked in `crosscheck`.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from mtlrun.core.errors import suggest
from mtlrun.experiments.yamlmarks import KeyPath

SCHEMA = 1


class Base(BaseModel):
    """Strict types (a quoted number is a text), no unknown keys, unchangeable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _distinct(value: list[Any]) -> list[Any]:
    if not value:
        raise ValueError("must not be empty")
    if len({repr(v) for v in value}) != len(value):
        raise ValueError("must not hold the same value twice")
    return value


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, dict | str) else value


def experiment_id(value: str) -> str:
    """Return the text when it is ``<paper>/<artefact>``; raises ValueError."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*/[A-Za-z0-9][A-Za-z0-9_-]*", value):
        raise ValueError(f"must be <paper>/<artefact> in letters, digits, '-' and '_', not {value!r}")
    return value


Values = Annotated[list[Any], AfterValidator(_distinct)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class Paper(Base):
    """Where the published numbers stand."""

    cite: str
    artefact: str
    doi: str | None = None
    url: str | None = None


class DatasetSpec(BaseModel):
    """A data set: its id, or a mapping with options of its reader; `label` tells two of the same id apart."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    id: str
    label: str = ""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"id": value} if isinstance(value, str) else value

    @property
    def name(self) -> str:
        """Label in tables."""
        return self.label or self.id

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of `load_dataset`."""
        return dict(self.model_extra or {})


class Split(Base):
    """How rows are parted. `random`: a fraction of the rows (of every task, for ragged sets) is for training, `trials`
    times; `kfold`: `folds` folds, each once the test part; `published`: the splits that come with the data set."""

    kind: Literal["random", "kfold", "published"] = "random"
    train: Annotated[float, Field(gt=0, lt=1)] | None = None
    trials: Count | None = None
    folds: Annotated[int, Field(ge=2)] | None = None
    name: str | None = None

    @property
    def n_trials(self) -> int:
        """How many parts of training and test rows there are."""
        return (self.folds if self.kind == "kfold" else self.trials) or 1

    @model_validator(mode="after")
    def _fields_of_kind(self) -> Split:
        needs = {"random": {"train"}, "kfold": {"folds"}, "published": {"name"}}[self.kind]
        may = needs if self.kind == "kfold" else needs | {"trials"}
        given = {n for n in ("train", "trials", "folds", "name") if getattr(self, n) is not None}
        if needs - given:
            raise ValueError(f"a {self.kind} split needs {', '.join(sorted(needs - given))}")
        if given - may:
            raise ValueError(f"a {self.kind} split has no {', '.join(sorted(given - may))}")
        return self


class Selection(Base):
    """Cross-validation inside the training part; `metric` is the first of the experiment when not given."""

    folds: Annotated[int, Field(ge=2)] = 3
    metric: str | None = None


class Timing(Base):
    """How seconds are measured: an untimed first fit, `repeats` timed ones (the median counts), BLAS threads fixed."""

    repeats: Count = 1
    threads: Count = 1
    warmup: bool = True
    baseline: str | None = None


class Limits(Base):
    """Wall-clock limit, in seconds, of one evaluation cell and of one fold of a selection cell."""

    seconds: Positive


class Sweep(Base):
    """The axis of a sweep: everything is done at each of `values`.

    One of: `split`, the field of the split that changes; `option`, that of the data sets; `params`, one or several
    parameters, each of which changes in the methods that have it (`lam` and `base__lam`); other methods stay as they
    are. `name` and `scale` are those of the axis in the figure, which draws `quantities` (default: the metrics, and
    seconds when they are measured)."""

    name: Annotated[str, Field(min_length=1)]
    split: Literal["train"] | None = None
    option: str | None = None
    params: Annotated[list[str], BeforeValidator(_as_list), AfterValidator(_distinct)] | None = None
    values: Values
    scale: Literal["linear", "log"] = "linear"
    quantities: list[str] = []

    @model_validator(mode="after")
    def _one_axis(self) -> Sweep:
        given = [name for name in ("split", "option", "params") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"a sweep needs one of split, option and params, not {', '.join(given) or 'none'}")
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.values)
        if self.split and not (numbers and all(0 < v < 1 for v in self.values)):
            raise ValueError("values of split.train must be between 0 and 1")
        if self.scale == "log" and not (numbers and all(v > 0 for v in self.values)):
            raise ValueError("a log scale needs positive numbers as values")
        return self


class Method(Base):
    """A row of the table. `select_with` replaces parameters during selection (a fast solver of the same objective)."""

    label: Annotated[str, Field(min_length=1)]
    estimator: str
    params: dict[str, Any] = {}
    grid: dict[str, Values | str] = {}
    select_with: dict[str, Any] = {}


class Claim(Base):
    """A statement of the paper and the checks that decide it (`mtlrun.report.checks`)."""

    id: str
    text: str
    where: str | None = None
    expect: str | None = None
    not_testable: str | None = None
    checks: list[dict[str, Any]] = []


class Reference(Base):
    """A published number (`source: paper`) or one of ours (`source: stored`)."""

    dataset: str
    method: str
    quantity: str
    value: float
    std: float | None = None
    n: Count | None = None
    decimals: Annotated[int, Field(ge=0)] | None = None
    profile: str | list[str] | None = None
    source: Literal["paper", "stored"] | None = None
    absolute: Annotated[float, Field(ge=0)] | None = None
    relative: Annotated[float, Field(ge=0)] | None = None
    sigmas: Annotated[float, Field(ge=0)] | None = None


class Tolerance(Base):
    """How far from a reference a number may be."""

    quantity: str | None = None
    absolute: Annotated[float, Field(ge=0)] | None = None
    relative: Annotated[float, Field(ge=0)] | None = None
    sigmas: Annotated[float, Field(ge=0)] | None = None


class ExperimentSpec(Base):
    """A whole experiment file, with one profile applied."""

    schema_: Literal[1] = Field(alias="schema")
    id: Annotated[str, AfterValidator(experiment_id)]
    title: str
    kind: Literal["evaluate", "sweep", "test"] = "evaluate"
    description: str | None = None
    default_for: Annotated[list[str], BeforeValidator(_as_list)] = []
    paper: Paper | None = None
    datasets: Annotated[list[DatasetSpec], Field(min_length=1)]
    split: Split
    metrics: Annotated[list[str], Field(min_length=1)]
    average: Literal["task", "sample"] = "task"
    seed: Annotated[int, Field(ge=0)] = 0
    selection: Selection | None = None
    timing: Timing | None = None
    limits: Limits | None = None
    sweep: Sweep | None = None
    grids: dict[str, Values] = {}
    methods: Annotated[list[Method], Field(min_length=1)]
    claims: list[Claim] = []
    reference: list[Reference] = []
    tolerance: Annotated[list[Tolerance], BeforeValidator(_as_list)] = []
    deviations: list[str] = []
    profiles: dict[str, dict[str, Any] | None] = {}

    @model_validator(mode="after")
    def _section_of_kind(self) -> ExperimentSpec:
        if self.sweep is None if self.kind == "sweep" else self.sweep is not None and self.kind != "test":
            raise ValueError("kind: sweep and the section 'sweep' belong together (kind: test may have it)")
        paired = any(check.get("kind") == "paired" for claim in self.claims for check in claim.checks)
        if self.kind == "test" and not paired:
            raise ValueError("kind: test needs a claim with a check of the kind 'paired'")
        return self

    @property
    def selection_metric(self) -> str:
        """The metric that parameters are chosen by."""
        return (self.selection.metric if self.selection else None) or self.metrics[0]


def describe_problems(
    error: ValidationError, data: Any, model: type[BaseModel] | None = None
) -> Iterator[tuple[KeyPath, bool, str, str]]:
    """Yield (path, at_key, message, hint) for every finding of pydantic.

    Parameters
    ----------
    error : ValidationError
        From `ExperimentSpec.model_validate(data)`.
    data : dict
        What was validated: pydantic's locations are mapped onto it.
    model : type, optional
        The model it was validated with, when that is not `ExperimentSpec`.
    """
    seen = set()
    for finding in error.errors(include_url=False):
        path, rest = locate(data, finding["loc"])
        name = str(path[-1]) if path else "the file"
        if finding["type"] == "extra_forbidden":
            known = _fields_at(path[:-1], model or ExperimentSpec)
            near = suggest(name, known, 1)
            hint = f"did you mean {near[0]!r}?   " if near else ""
            text = f"unknown key {name!r}{_inside(path[:-1])}"
            yield path, True, text, f"{hint}valid keys: {', '.join(known)}"
        elif finding["type"] == "missing":
            yield path, True, f"missing key {rest[-1]!r}{_inside(path)}", ""
        elif path not in seen:  # one message per value, not one per alternative of a union
            text = _reworded(finding)
            yield path, False, f"{_titled(path)} {text}" if text.startswith("must") else text, ""
        seen.add(path)


def locate(data: Any, location: tuple[str | int, ...]) -> tuple[KeyPath, tuple[str | int, ...]]:
    """Split a pydantic location into the part that exists in the data and the rest; union tags are skipped."""
    path: list[str | int] = []
    rest: list[str | int] = []
    for step in location:
        inside = (isinstance(data, dict) and step in data) or (
            isinstance(data, list) and isinstance(step, int) and step < len(data)
        )
        if inside:
            data = data[step]
            path.append(step)
        else:
            rest.append(step)
    return tuple(path), tuple(rest)


def _inside(path: KeyPath) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    return f" in {text}" if text else ""


def _titled(path: KeyPath) -> str:
    if not path:
        return "the file"
    names = [step for step in path if isinstance(step, str)]
    return f"an entry of {names[-1]!r}" if isinstance(path[-1], int) and names else repr(path[-1])


_EXPECTED = {
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
}


def _reworded(finding: Any) -> str:
    text = _EXPECTED.get(finding["type"]) or str(finding["msg"]).removeprefix("Value error, ")
    text = text.replace("Input should be", "must be").replace("String should match", "must match")
    value = finding.get("input")
    if not text.startswith("must be ") or ", not " in text or isinstance(value, dict | list):
        return text
    return f"{text}, not {'null' if value is None else str(value).lower() if isinstance(value, bool) else repr(value)}"


def _fields_at(path: KeyPath, root: type[BaseModel]) -> list[str]:
    """Return the keys that the model at a path knows."""
    annotation: Any = root
    for step in path:
        annotation = _step(annotation, step)
    model = _model_in(annotation)
    return [info.alias or name for name, info in model.model_fields.items()] if model else []


def _step(annotation: Any, step: str | int) -> Any:
    model = _model_in(annotation)
    if model is not None and isinstance(step, str) and step in model.model_fields:
        return model.model_fields[step].annotation
    return annotation  # lists and mappings hold models of one kind: keep looking inside


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (Annotated, list, dict, typing.Union, types.UnionType):
        for argument in typing.get_args(annotation):
            found = _model_in(argument)
            if found is not None:
                return found
    return None
