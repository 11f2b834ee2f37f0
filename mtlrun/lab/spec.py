"""What an experiment or training file may say: pydantic models that refuse unknown keys.

The sections that a report reads, too, are in `mtlrun.lab.report.checks`. A training file is an experiment with one data set
and one method. `load` turns the findings of pydantic into problems with a place in the file; what needs more than one
field is checked in `checks`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    field_validator,
    model_validator,
)

from mtlrun.engine.analysis import ANALYSES
from mtlrun.engine.interfaces import METRIC_INFO
from mtlrun.engine.methods import quantities_of
from mtlrun.engine.record import private_path
from mtlrun.estimators.registry import METHODS
from mtlrun.lab.report.checks import (
    Claim,
    Count,
    Fraction,
    Limits,
    Main,
    Names,
    Paper,
    Reference,
    Short,
    Statistics,
    Sweep,
    TableLayout,
    TimingSpec,
    Tolerance,
    Values,
    distinct,
)
from mtlrun.utils.io import as_list
from mtlrun.utils.sizes import CANDIDATES, FOLDS
from mtlrun.utils.yaml import StrictModel

SCHEMA = 1
#: The profile that is the file as it stands; it need not be declared.
FULL = "full"
#: The kind of a training file, which has one of each of these sections.
TRAIN = "train"
ONE_OF = {"datasets": "dataset", "methods": "method"}
#: Kinds whose cells are measurements: calls of a measure instead of fits on the splits of a data set.
ANALYSIS_KINDS = ("inspect", "trace", "scaling", "audit")
#: Those of them that measure seconds: their cells run one after the other.
TIMED_KINDS = ("trace", "scaling")
#: Label of the one place of an experiment without data sets.
PUBLISHED = "published"


def experiment_id(value: str) -> str:
    """Return the text when it is ``<paper>/<artefact>``; raises ValueError."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*/[A-Za-z0-9][A-Za-z0-9_-]*", value):
        raise ValueError(
            f"must be <paper>/<artefact> in letters, digits, '-' and '_', not {value!r}"
        )
    return value


def few_candidates(grid: dict[str, Any]) -> dict[str, Any]:
    """Return a grid of lists, unless it has too many candidates.

    Raises
    ------
    ValueError
    """
    count = math.prod(
        len(values) for values in grid.values() if isinstance(values, list)
    )
    if count > CANDIDATES:
        raise ValueError(
            f"a grid may have {CANDIDATES:,} candidates, not {count:,}: leave out values"
        )
    return grid


Folds = Annotated[int, Field(ge=2, le=FOLDS)]


class SplitSpec(StrictModel):
    """How rows are divided. `random`: a fraction of the rows (of every task, for ragged data sets) is used for
    training, `trials` times; `kfold`: each of `folds` folds is the test part once, in new partitions for more `trials`;
    with `train`, that fraction of the other rows (of every task) is trained on. `published`: the splits that come with
    the data set. `balanced`: at most the fraction `train` of every task is used for training (where tasks are made of
    classes, equally many rows of every class; a row is in the same part in all tasks), and the rest is halved into a
    validation and a test part. `validation` sets further rows aside, at random within every task of ragged data sets: a
    fraction of all rows, taken from the test rows (`random`), or a fraction of the training rows (`published`); see
    `selection.on`."""

    kind: Literal["random", "kfold", "published", "balanced"] = "random"
    train: Fraction | None = None
    trials: Count | None = None
    folds: Folds | None = None
    name: str | None = None
    validation: Fraction | None = None

    @property
    def n_trials(self) -> int:
        """How many divisions into training and test rows there are."""
        return self.trials or (self.folds if self.kind == "kfold" else 1) or 1

    @model_validator(mode="after")
    def _fields_of_kind(self) -> SplitSpec:
        needs, may = {
            "random": ({"train"}, {"trials", "validation"}),
            "kfold": ({"folds"}, {"trials", "train"}),
            "published": ({"name"}, {"trials", "validation"}),
            "balanced": ({"train"}, {"trials"}),
        }[self.kind]
        given = {name for name, value in self if value is not None} - {"kind"}
        if needs - given:
            raise ValueError(
                f"a {self.kind} split needs {', '.join(sorted(needs - given))}"
            )
        if given - needs - may:
            raise ValueError(
                f"a {self.kind} split has no {', '.join(sorted(given - needs - may))}"
            )
        if self.kind == "random" and (self.train or 0) + (self.validation or 0) >= 1:
            raise ValueError("'train' and 'validation' leave no rows to test on")
        return self


class FeatureStep(StrictModel):
    """Preprocessing of X, learned on the training rows: `standardize` (mean 0, variance 1; sparse data are only
    scaled), `max-abs` (divide by the largest absolute value), `min-max` (to the range 0 to 1, dense data only),
    `unit-rows` (divide every row by its length), `table` (impute missing values, standardize numbers, one-hot encode
    text; see `mtlrun.features.table`), `table+levels` (the same, followed by the columns of further groups that a table
    has), `table+elapsed` (the same, followed by the time since the first row of the
    task); for DNA strings: `one-hot` (a 0/1 column per position and base) and
    `weighted-degree` (a column per position and k-mer, k = 1..degree; see `mtlrun.features.WeightedDegree`)."""

    kind: Literal[
        "none",
        "standardize",
        "max-abs",
        "min-max",
        "unit-rows",
        "table",
        "table+levels",
        "table+elapsed",
        "one-hot",
        "weighted-degree",
    ] = "none"
    degree: Annotated[int, Field(ge=1, le=31)] | None = None
    normalize: bool | None = None
    hash_bits: Annotated[int, Field(ge=1, le=28)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _options_of_kind(self) -> FeatureStep:
        given = [name for name, value in self if name != "kind" and value is not None]
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
        """Whether it applies to strings of letters."""
        return self.kind in ("one-hot", "weighted-degree")


class DatasetSpec(BaseModel):
    """A data set: its id, or a mapping with options of its reader. `label` distinguishes two data sets of the same id;
    `split`, `metrics` and `features` replace those of the experiment."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    id: str
    label: str = ""
    split: SplitSpec | None = None
    metrics: Annotated[list[str], AfterValidator(distinct)] | None = None
    features: FeatureStep | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> Any:
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
        """The sections that replace those of the experiment, as plain data."""
        own = self.model_dump(include={"split", "metrics"}, exclude_none=True)
        return {
            **own,
            **({} if self.features is None else {"features": self.features.plain}),
        }


class Selection(StrictModel):
    """How parameters are chosen: by cross-validation inside the training part, or (`on: validation`) by one fit on the
    training part that is scored on the validation part of the split. `metric` defaults to the first of the data set."""

    on: Literal["folds", "validation"] = "folds"
    folds: Folds = 3
    metric: str | None = None


class MethodSpec(StrictModel):
    """A row of the table: an `estimator`, or in measure kinds a `measure`, with its parameters. `select_with` replaces
    parameters during the search (a fast solver of the same objective). `halving`: after every fold of the search only
    the better half of the values goes on. `scored`: a method without a grid is scored in the folds, too. `features`
    replaces the step of the data set or experiment. `datasets` lists the ids or labels of the data sets that have this
    row (default: all)."""

    label: Annotated[str, Field(min_length=1)]
    estimator: str = ""
    measure: str = ""
    params: dict[str, Any] = {}
    grid: dict[str, Values | str] = {}
    select_with: dict[str, Any] = {}
    halving: bool = False
    scored: bool = False
    features: FeatureStep | None = None
    datasets: Annotated[list[str], Field(min_length=1)] | None = None

    def takes(self, dataset: DatasetSpec) -> bool:
        """Whether a data set has this row."""
        return (
            self.datasets is None
            or dataset.id in self.datasets
            or dataset.name in self.datasets
        )


class Reading(StrictModel):
    """A way to read what the paper leaves open: a layer over the file and its profile.

    `changes` is written like a profile; a mapping in the place of a list changes its entries (``"*"``: all of them).
    The reading with `main` is the file as it stands. One that is not `plausible` is shown for comparison and not used
    in the verdict."""

    why: Annotated[str, Field(min_length=1)]
    main: Main | None = None
    because: str | None = None
    changes: dict[str, Any] = {}
    plausible: bool = True

    @model_validator(mode="after")
    def _changes_or_main(self) -> Reading:
        if (self.main is None) != bool(self.changes):
            raise ValueError(
                "a reading needs either 'main' (the file as it stands) or 'changes'"
            )
        if self.main is not None and not self.plausible:
            raise ValueError("the main reading must be plausible")
        return self


class ReferenceFile(Tolerance):
    """Numbers as the paper prints them, in a csv file beside the experiment (`mtlrun.engine.analysis`).

    `quantity` is that of all numbers; without it, and without a column ``quantity``, the columns are named after
    quantities."""

    file: Annotated[str, Field(pattern=r"^[^/\\][^\\]*\.csv$")]
    method: str | None = None
    """Of all numbers; without it the columns are named after methods."""
    percent: bool = False
    """Whether the table prints per cent of what is computed here."""
    leave_out: list[str] = []
    """Names under ``data set`` whose numbers are not compared."""
    n: Count | None = None
    profile: Short = []
    source: Literal["paper", "stored"] | None = None


def _reference_kind(entry: object) -> str:
    in_file = isinstance(entry, ReferenceFile) or (
        isinstance(entry, dict) and "file" in entry
    )
    return "a table" if in_file else "a number"


#: When experiments are loaded, the numbers of a file take the place of its entry (`mtlrun.lab.load`).
AnyReference = Annotated[
    Annotated[Reference, Tag("a number")] | Annotated[ReferenceFile, Tag("a table")],
    Discriminator(_reference_kind),
]


class Spec(StrictModel):
    """A whole file with one profile applied, merged into the file that it `extends` (an id, or the path of a file):
    everything that is not given is taken from there, except `id`, `title`, `kind` and `default_for`."""

    schema_: Literal[1] = Field(alias="schema")
    id: Annotated[str, AfterValidator(experiment_id)]
    title: str
    kind: Literal[
        "evaluate", "sweep", "test", "inspect", "trace", "scaling", "audit", "train"
    ] = "evaluate"
    extends: str | None = None
    description: str | None = None
    default_for: Names = []
    paper: Paper | None = None
    datasets: list[DatasetSpec] = []
    split: SplitSpec | None = None
    repeats: Count = 1
    metrics: Annotated[list[str], Field(min_length=1)]
    average: Literal["task", "sample"] = "task"
    features: FeatureStep = FeatureStep()
    keep: list[Literal["predictions"]] = []
    seed: Annotated[int, Field(ge=0)] = 0
    selection: Selection | None = None
    timing: TimingSpec | None = None
    limits: Limits | None = None
    sweep: Sweep | None = None
    table: TableLayout | None = None
    grids: dict[str, Values] = {}
    methods: Annotated[list[MethodSpec], Field(min_length=1)]
    statistics: Statistics | None = None
    claims: list[Claim] = []
    reference: Annotated[list[AnyReference], BeforeValidator(as_list)] = []
    published: str | None = None
    tolerance: Annotated[list[Tolerance], BeforeValidator(as_list)] = []
    deviations: list[str] = []
    readings: dict[str, Reading] = {}
    profiles: dict[str, dict[str, Any] | None] = {}
    refit: bool | dict[str, Any] = False

    @field_validator("readings")
    @classmethod
    def _one_main(cls, readings: dict[str, Reading]) -> dict[str, Reading]:
        if (
            readings
            and sum(reading.main is not None for reading in readings.values()) != 1
        ):
            raise ValueError("exactly one reading must have 'main'")
        return readings

    @property
    def measures(self) -> bool:
        """Whether the cells are measurements."""
        return self.kind in ANALYSIS_KINDS

    @property
    def timed(self) -> bool:
        """Whether the cells of the table measure seconds, and therefore run one after the other."""
        return self.timing is not None or self.kind in TIMED_KINDS

    @property
    def dataset(self) -> DatasetSpec:
        """The data set of a training file."""
        return self.datasets[0]

    @property
    def method(self) -> MethodSpec:
        """The method of a training file."""
        return self.methods[0]

    @property
    def all_metrics(self) -> list[str]:
        """The metrics of the experiment and those of its data sets: the columns of the table."""
        own = [name for dataset in self.datasets for name in dataset.metrics or ()]
        return list(dict.fromkeys([*self.metrics, *own]))


# ---------------------------------------------------------------------- training files whose data come in chunks


class ChunkColumns(StrictModel):
    """The files of a training, relative to the folder of its file, and what their columns are."""

    files: str
    target: str | None = None
    task: str | None = None
    targets: list[str] = Field(default_factory=list)
    weight: str | None = None
    drop: list[str] = Field(default_factory=list)


class ChunkMethod(StrictModel):
    """Its parameters count for standardized features and targets."""

    estimator: str
    params: dict[str, Any] = Field(default_factory=dict)
    grid: Annotated[dict[str, Values], AfterValidator(few_candidates)] = Field(
        default_factory=dict
    )


class ChunkTraining(StrictModel):
    """A training file with a section `data`: a table in chunks. The first fold is tested, the others choose."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    id: Annotated[str, AfterValidator(experiment_id)]
    kind: Literal["train"]
    title: str = ""
    data: ChunkColumns
    method: ChunkMethod
    folds: Annotated[Folds, Field(ge=3)] = 5
    refit: bool = True
    seed: Annotated[int, Field(ge=0)] = 0

    _folder: Path = PrivateAttr(Path())  # of the file

    @property
    def files(self) -> Path:
        """Where the data lie."""
        return self._folder / self.data.files

    @property
    def config(self) -> dict[str, Any]:
        """The same as plain data, which name no folder of the user but as the file writes it."""
        found = self.model_dump(by_alias=True)
        found["data"]["files"] = private_path(self.data.files)
        return found


# ---------------------------------------------------------------------- an experiment, ready to be planned

#: Keys of a training file and of its method.
TRAIN_KEYS = (
    *(
        "schema",
        "id",
        "title",
        "kind",
        "description",
        "dataset",
        "method",
        "features",
        "split",
        "metrics",
        "average",
    ),
    *("seed", "selection", "keep", "refit"),
)
TRAIN_METHOD_KEYS = ("estimator", "params", "grid", "select_with", "halving", "scored")


def as_experiment(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a training file, as plain data, as the experiment with one data set and one method that it stands for."""
    made = {
        "title": "",
        **{name: value for name, value in data.items() if value is not None},
    }
    if "dataset" in made:
        made["datasets"] = [made.pop("dataset")]
    if "method" in made:
        method = made.pop("method")
        row = {"estimator": method} if isinstance(method, str) else method
        made["methods"] = [
            {"label": str(row.get("estimator") or TRAIN), **row}
            if isinstance(row, dict)
            else row
        ]
    return made


def plain(spec: Spec) -> dict[str, Any]:
    """Return a specification as plain data without empty optional fields; values of `params` are kept as they are.

    That of a training file has the keys of a training file.
    """
    config = spec.model_dump(
        by_alias=True,
        exclude={"profiles", "readings", "grids", "extends"},
        exclude_unset=True,
    )
    config = {name: value for name, value in config.items() if value is not None}
    config["seed"] = spec.seed
    config["methods"] = [_plain_method(spec, method) for method in spec.methods]
    if "features" in config:
        config["features"] = spec.features.plain
    if not spec.measures:
        config["average"] = spec.average
    config["datasets"] = [
        {"id": d.id, **({"label": d.label} if d.label else {}), **d.own, **d.options}
        for d in spec.datasets
    ]
    if spec.selection is not None:
        config["selection"] = _plain_selection(spec, spec.selection)
    config["metrics"] = spec.all_metrics
    sections = {
        "timing": spec.timing,
        "limits": spec.limits,
        "statistics": spec.statistics,
        "table": spec.table,
    }
    for name, section in sections.items():
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
    how = (
        {"on": selection.on}
        if selection.on == "validation"
        else {"folds": selection.folds}
    )
    one = all(dataset.metrics is None for dataset in spec.datasets)
    metric = selection.metric or (
        spec.metrics[0] if one else None
    )  # else it is the first of each data set
    return {**how, **({"metric": metric} if metric else {})}


def _plain_method(spec: Spec, method: MethodSpec) -> dict[str, Any]:
    where = {"datasets": method.datasets} if method.datasets else {}
    if method.measure:
        return {
            "label": method.label,
            "measure": method.measure,
            "params": method.params,
            **where,
        }
    flags = {"halving": method.halving, "scored": method.scored}
    if method.features is not None:
        where = {"features": method.features.plain, **where}
    return {
        "label": method.label,
        "estimator": method.estimator,
        "params": method.params,
        "grid": {
            k: spec.grids[v] if isinstance(v, str) else v
            for k, v in method.grid.items()
        },
        "select_with": method.select_with,
        **{name: True for name, is_set in flags.items() if is_set},
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
        Where each data set stands: ``configs/fetr/school.yaml:5:3``, or ``--set ...``.
    paper_datasets : tuple of str
        Ids of the data sets that the file names before a profile changes them.
    reading : str
        Name of the reading; "" without readings.
    others : tuple of Experiment
        The same under the other readings, those left out that change nothing of this profile.
    warnings : tuple of str
        Values of the file that a profile of an extended file replaces, a line each.
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
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any], source: str) -> Experiment:
        """Return an experiment, or a training, of plain data that are known to be right."""
        spec = Spec.model_validate(
            as_experiment(data) if data.get("kind") == TRAIN else data
        )
        return cls(spec, plain(spec), source)

    @property
    def id(self) -> str:
        """``<paper>/<artefact>``."""
        return self.spec.id

    def folder(self, output: Path | str) -> Path:
        """Return the run folder below an output folder."""
        return Path(output) / self.spec.id / self.profile


# ---------------------------------------------------------------------- JSON schema for editors

_PATH = {"type": "string", "pattern": "^[A-Za-z_][\\w.]*:[A-Za-z_]\\w*$"}


def config_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema 2020-12) of every file that mtlrun reads under ``configs``.

    It says what the pydantic models say, and in addition which short forms are read and which methods and metrics
    there are. Files may still be refused for what needs more than one value, see `mtlrun validate`.
    """
    schema: dict[str, Any] = Spec.model_json_schema(by_alias=True)
    models = schema.pop("$defs")
    method, experiment = models["MethodSpec"]["properties"], schema["properties"]
    method["estimator"], method["measure"] = _name("Estimator"), _name("Measure")
    models["DatasetSpec"] = {"anyOf": [{"type": "string"}, models["DatasetSpec"]]}
    step = models["FeatureStep"]
    models["FeatureStep"] = {
        "anyOf": [{"enum": step["properties"]["kind"]["enum"]}, step]
    }
    training = _training(schema, models["MethodSpec"])
    for name in ("tolerance", "reference"):
        experiment[name] = {
            "anyOf": [experiment[name]["items"], experiment[name]],
            "default": [],
        }
    experiment["metrics"] = {**experiment["metrics"], "items": _name("Quantity")}
    own = {
        "required": ["schema", "id", "title"]
    }  # the rest may stand in the file that it extends
    quantities = sorted({*METRIC_INFO, *(quantities_of(ANALYSES) or ())})
    named = {
        "EstimatorName": {
            "description": "A registered method, or package.module:Class of any scikit-learn estimator.",
            "anyOf": [{"enum": sorted(METHODS)}, _PATH],
        },
        "MeasureName": {
            "description": "A registered measure, or package.module:function.",
            "anyOf": [{"enum": sorted(ANALYSES)}, _PATH],
        },
        "MetricName": {"enum": sorted(METRIC_INFO)},
        "QuantityName": {"anyOf": [{"enum": quantities}, {"type": "string"}]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mtlrun experiment or training file",
        "if": {"properties": {"kind": {"const": TRAIN}}, "required": ["kind"]},
        "then": {"$ref": "#/$defs/Training"},
        "else": {"$ref": "#/$defs/Experiment"},
        "$defs": {
            **models,
            **named,
            "Training": training,
            "Experiment": {**schema, **own},
        },
    }


def _name(kind: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{kind}Name"}


def _training(schema: dict[str, Any], method: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a training file: some sections of an experiment, one data set and one method."""
    inner = {
        **method,
        "properties": {name: method["properties"][name] for name in TRAIN_METHOD_KEYS},
    }
    sections = {
        **schema["properties"],
        "metrics": {**schema["properties"]["metrics"], "items": _name("Metric")},
        "dataset": {"$ref": "#/$defs/DatasetSpec"},
        "method": {"anyOf": [_name("Estimator"), {**inner, "required": ["estimator"]}]},
    }
    required = [
        ONE_OF.get(name, name) for name in schema["required"] if name != "title"
    ]
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: sections[name] for name in TRAIN_KEYS},
        "required": [*required, "dataset", "split"],
    }
