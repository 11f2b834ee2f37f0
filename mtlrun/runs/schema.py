"""What an experiment file may say: pydantic models that refuse unknown keys.

`findings` turns pydantic's findings into problems with a path into the file; what needs more than one field
(estimators, parameters, grids, labels, what belongs to which kind) is checked in `crosscheck`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

SCHEMA = 1
#: Kinds whose cells are measurements: calls of a measure instead of fits on the splits of a data set.
MEASURE_KINDS = ("inspect", "trace", "scaling", "audit")
#: Those of them that measure seconds: their cells run one after the other.
TIMED_KINDS = ("trace", "scaling")
#: Label of the one place of an experiment without data sets.
PUBLISHED = "published"


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


class Split(Base):
    """How rows are parted. `random`: a fraction of the rows (of every task, for ragged sets) is for training, `trials`
    times; `kfold`: `folds` folds, each once the test part; `published`: the splits that come with the data set.
    `balanced`: the fraction `train` of every task (where tasks are made of classes: equally many rows of every class,
    at most that fraction of any; a row is in one part in all tasks), the rest halved into validation and test part.
    `validation` takes more rows out of what would be test rows (`random`: a fraction of all rows) or training rows
    (`published`: a fraction of those), at random within every task of ragged sets: see `selection.on`."""

    kind: Literal["random", "kfold", "published", "balanced"] = "random"
    train: Annotated[float, Field(gt=0, lt=1)] | None = None
    trials: Count | None = None
    folds: Annotated[int, Field(ge=2)] | None = None
    name: str | None = None
    validation: Annotated[float, Field(gt=0, lt=1)] | None = None

    @property
    def n_trials(self) -> int:
        """How many parts of training and test rows there are."""
        return (self.folds if self.kind == "kfold" else self.trials) or 1

    @model_validator(mode="after")
    def _fields_of_kind(self) -> Split:
        needs = {"random": {"train"}, "kfold": {"folds"}, "published": {"name"}, "balanced": {"train"}}[self.kind]
        more = {"random": {"trials", "validation"}, "published": {"trials", "validation"}, "balanced": {"trials"}}
        may = needs | more.get(self.kind, set())
        given = {n for n in ("train", "trials", "folds", "name", "validation") if getattr(self, n) is not None}
        if needs - given:
            raise ValueError(f"a {self.kind} split needs {', '.join(sorted(needs - given))}")
        if given - may:
            raise ValueError(f"a {self.kind} split has no {', '.join(sorted(given - may))}")
        if self.kind == "random" and (self.train or 0) + (self.validation or 0) >= 1:
            raise ValueError("'train' and 'validation' leave no rows to test on")
        return self


class FeatureStep(Base):
    """What is done to X first, learned on the training rows: `standardize` (mean 0, variance 1; sparse data are only
    scaled), `max-abs` (divide by the largest absolute value), `table` (fill gaps, standardise numbers, a 0/1 column per
    word; see `mtlrun.features.table`); DNA strings: `one-hot` (a 0/1 column per position and
    base), `weighted-degree` (a column per position and k-mer, k = 1..degree; see `mtlrun.features.WeightedDegree`)."""

    kind: Literal["none", "standardize", "max-abs", "table", "one-hot", "weighted-degree"] = "none"
    degree: Annotated[int, Field(ge=1, le=31)] | None = None
    normalize: bool | None = None
    hash_bits: Annotated[int, Field(ge=1, le=28)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _options_of_kind(self) -> FeatureStep:
        given = [n for n in ("degree", "normalize", "hash_bits") if getattr(self, n) is not None]
        if given and self.kind != "weighted-degree":
            raise ValueError(f"{self.kind} has no {', '.join(given)}")
        return self

    @property
    def plain(self) -> Any:
        """The step as a file has it: its kind alone, or a mapping."""
        given = self.model_dump(exclude_none=True)
        return given if len(given) > 1 else self.kind

    @property
    def strings(self) -> bool:
        """Whether it takes strings of letters."""
        return self.kind in ("one-hot", "weighted-degree")


class DatasetSpec(BaseModel):
    """A data set: its id, or a mapping with options of its reader; `label` tells two of the same id apart, `split`,
    `metrics` and `features` are used here instead of those of the experiment."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    id: str
    label: str = ""
    split: Split | None = None
    metrics: Annotated[list[str], AfterValidator(_distinct)] | None = None
    features: FeatureStep | None = None

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

    @property
    def own(self) -> dict[str, Any]:
        """What is used instead of the fields of the experiment, as plain data."""
        own = self.model_dump(include={"split", "metrics"}, exclude_none=True)
        return {**own, **({} if self.features is None else {"features": self.features.plain})}


class Selection(Base):
    """Cross-validation inside the training part, or (`on: validation`) one fit on the training part that is scored on
    the validation part of the split; `metric` is the first of the data set when not given."""

    on: Literal["folds", "validation"] = "folds"
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
    seconds when they are measured). `marks` are lines across it: a text and its value."""

    name: Annotated[str, Field(min_length=1)]
    split: Literal["train"] | None = None
    option: str | None = None
    params: Annotated[list[str], BeforeValidator(_as_list), AfterValidator(_distinct)] | None = None
    values: Values
    scale: Literal["linear", "log"] = "linear"
    quantities: list[str] = []
    marks: dict[str, float | Literal["1/sqrt(tasks)"]] = {}

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
    """A row of the table: an `estimator`, or in measure kinds a `measure`, with its parameters. `select_with` replaces
    parameters during selection (a fast solver of the same objective). `datasets` are ids or labels of those data sets
    that have this row; default all."""

    label: Annotated[str, Field(min_length=1)]
    estimator: str = ""
    measure: str = ""
    params: dict[str, Any] = {}
    grid: dict[str, Values | str] = {}
    select_with: dict[str, Any] = {}
    datasets: Annotated[list[str], Field(min_length=1)] | None = None

    def takes(self, dataset: DatasetSpec) -> bool:
        """Whether a data set has this row."""
        return self.datasets is None or dataset.id in self.datasets or dataset.name in self.datasets


class Claim(Base):
    """A statement of the paper and the checks that decide it (`mtlrun.report.checks`)."""

    id: str
    text: str
    where: str | None = None
    expect: str | None = None
    not_testable: str | None = None
    checks: list[dict[str, Any]] = []


class Statistics(Base):
    """Ranks of the methods by a metric over the data sets, Friedman's test, Holm's procedure against the `control`."""

    metric: str
    control: str
    significance: Annotated[float, Field(gt=0, lt=1)] = 0.05


class Reference(Base):
    """A published number (`source: paper`) or one of ours (`source: stored`), of all tasks or of one."""

    dataset: str
    method: str
    quantity: str
    task: str | None = None
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
    """A whole experiment file, with one profile applied, laid over the file that it `extends` (an id, or the path of a
    file): all but `id`, `title`, `kind` and `default_for` is taken from there where it is not given."""

    schema_: Literal[1] = Field(alias="schema")
    id: Annotated[str, AfterValidator(experiment_id)]
    title: str
    kind: Literal["evaluate", "sweep", "test", "inspect", "trace", "scaling", "audit"] = "evaluate"
    extends: str | None = None
    description: str | None = None
    default_for: Annotated[list[str], BeforeValidator(_as_list)] = []
    paper: Paper | None = None
    datasets: list[DatasetSpec] = []
    split: Split | None = None
    repeats: Count = 1
    metrics: Annotated[list[str], Field(min_length=1)]
    average: Literal["task", "sample"] = "task"
    features: FeatureStep = FeatureStep()
    keep: list[Literal["predictions"]] = []
    seed: Annotated[int, Field(ge=0)] = 0
    selection: Selection | None = None
    timing: Timing | None = None
    limits: Limits | None = None
    sweep: Sweep | None = None
    grids: dict[str, Values] = {}
    methods: Annotated[list[Method], Field(min_length=1)]
    statistics: Statistics | None = None
    claims: list[Claim] = []
    reference: list[Reference] = []
    published: str | None = None
    tolerance: Annotated[list[Tolerance], BeforeValidator(_as_list)] = []
    deviations: list[str] = []
    profiles: dict[str, dict[str, Any] | None] = {}

    @property
    def measures(self) -> bool:
        """Whether the cells are measurements."""
        return self.kind in MEASURE_KINDS

    @property
    def timed(self) -> bool:
        """Whether the cells of the table measure seconds, and therefore run one after the other."""
        return self.timing is not None or self.kind in TIMED_KINDS

    @property
    def all_metrics(self) -> list[str]:
        """The metrics of the experiment and those that data sets have instead: the columns of the table."""
        own = [name for dataset in self.datasets for name in dataset.metrics or ()]
        return list(dict.fromkeys([*self.metrics, *own]))
