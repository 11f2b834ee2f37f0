"""Pydantic models of experiment and training files, which refuse unknown keys.

The sections that reports read, too, are in `mtlrun.lab.experiment.claims`. A training file
is an experiment with one data set and one method. `mtlrun.lab.experiment.load` turns the errors of
pydantic into problems with a position in the file, and `mtlrun.lab.experiment.checks` checks what
involves more than one field.
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

from mtlrun.engine.environment import private_path
from mtlrun.lab.experiment.claims import (
    Claim,
    Count,
    DatasetName,
    Fraction,
    Limits,
    Main,
    MetricName,
    Names,
    Paper,
    ProfileName,
    Reference,
    ShortNamesOf,
    Statistics,
    Sweep,
    TableLayout,
    TimingSpec,
    Tolerance,
    Values,
    distinct,
    known,
)
from mtlrun.utils.io import as_list
from mtlrun.utils.sizes import CANDIDATES, FOLDS
from mtlrun.utils.yaml import StrictModel

#: The profile that is the file as it stands; it need not be declared.
FULL = "full"
#: The kind of training files.
TRAIN = "train"
#: Section of an experiment -> section of a training file, which has a single entry.
ONE_OF = {"datasets": "dataset", "methods": "method"}
#: Kinds whose jobs call an analysis instead of fitting on the splits of a data set.
ANALYSIS_KINDS = ("inspect", "trace", "scaling", "audit")
#: Kinds of analyses that measure seconds, whose jobs therefore run one after the other.
TIMED_KINDS = ("trace", "scaling")
#: Label of the only scenario of an experiment without data sets.
PUBLISHED = "published"


def experiment_id(value: str) -> str:
    """Return the id of an experiment if it has the form ``<paper>/<artifact>``.

    Raises
    ------
    ValueError
        If it has another form.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*/[A-Za-z0-9][A-Za-z0-9_-]*", value):
        raise ValueError(
            f"must be <paper>/<artifact> in letters, digits, '-' and '_', not {value!r}"
        )
    return value


def few_candidates(grid: dict[str, Any]) -> dict[str, Any]:
    """Return a grid of lists if it does not have too many candidates.

    Raises
    ------
    ValueError
        If it has more than `mtlrun.utils.sizes.CANDIDATES`.
    """
    lengths = [len(values) for values in grid.values() if isinstance(values, list)]
    n_candidates = math.prod(lengths)
    if n_candidates > CANDIDATES:
        raise ValueError(
            f"a grid may have {CANDIDATES:,} candidates, not {n_candidates:,}: leave "
            "out values"
        )
    return grid


Folds = Annotated[int, Field(ge=2, le=FOLDS)]

#: Kind of a split -> fields that it needs.
_REQUIRED_SPLIT_FIELDS = {
    "random": {"train"},
    "kfold": {"folds"},
    "published": {"name"},
    "balanced": {"train"},
}
#: Kind of a split -> fields that it may have.
_OPTIONAL_SPLIT_FIELDS = {
    "random": {"trials", "validation"},
    "kfold": {"trials", "train"},
    "published": {"trials", "validation"},
    "balanced": {"trials"},
}


class SplitSpec(StrictModel):
    """How rows are divided into training and test rows.

    * `random`: a fraction `train` of the rows (of each task, for ragged data sets) is
      used for training, `trials` times.
    * `kfold`: each of `folds` folds is the test part once, with a new partition for
      each of the `trials`. With `train`, that fraction of the other rows (of each task)
      is used for training.
    * `published`: the splits that come with the data set.
    * `balanced`: at most the fraction `train` of each task is used for training, with
      equally many rows of each class if tasks are made of classes; a row is in the same
      part in all tasks. The rest is halved into a validation and a test part.

    `validation` sets further rows aside, at random within each task of ragged data
    sets: a fraction of all rows, taken from the test rows (`random`), or a fraction of
    the training rows (`published`); see `selection.on`.
    """

    kind: Literal["random", "kfold", "published", "balanced"] = "random"
    train: Fraction | None = Field(
        default=None, description="Fraction of the rows used for training."
    )
    trials: Count | None = Field(
        default=None,
        description=(
            "Number of splits; of a kfold split, number of folds that are tested. "
            "Default: 1; of a kfold split, all folds of one partition."
        ),
    )
    folds: Folds | None = Field(
        default=None, description="Number of folds of a kfold split."
    )
    name: str | None = Field(default=None, description="Name of a published split.")
    validation: Fraction | None = Field(
        default=None, description="Fraction of the rows set aside for selection."
    )

    @property
    def n_trials(self) -> int:
        """Number of divisions into training and test rows."""
        if self.trials:
            return self.trials
        if self.kind == "kfold" and self.folds:
            return self.folds
        return 1

    @model_validator(mode="after")
    def _fields_of_kind(self) -> SplitSpec:
        required = _REQUIRED_SPLIT_FIELDS[self.kind]
        allowed = required | _OPTIONAL_SPLIT_FIELDS[self.kind]
        present = {name for name, value in self if value is not None} - {"kind"}
        missing = sorted(required - present)
        if missing:
            raise ValueError(f"a {self.kind} split needs {', '.join(missing)}")
        foreign = sorted(present - allowed)
        if foreign:
            nulls = ", ".join(f"{name}: null" for name in foreign)
            raise ValueError(
                f"a {self.kind} split has no {', '.join(foreign)}: leave it out, or "
                f"write {nulls} if an extended file has it"
            )
        if self.kind == "random" and (self.train or 0) + (self.validation or 0) >= 1:
            raise ValueError("'train' and 'validation' leave no rows to test on")
        return self


class FeatureStep(StrictModel):
    """Preprocessing of X, learned on the training rows.

    * `standardize`: mean 0 and variance 1; sparse data are only scaled.
    * `max-abs`: divide each column by its largest absolute value.
    * `min-max`: scale each column to the range 0 to 1, for dense data only.
    * `unit-rows`: divide each row by its length.
    * `table`: impute missing values, standardize numbers, and one-hot encode text (see
      `mtlrun.features.table`).
    * `table+levels`: the same, followed by the columns of further groups of a table.
    * `table+elapsed`: the same, followed by the time since the first row of the task.
    * `one-hot`: a 0/1 column for each position and base of DNA strings.
    * `weighted-degree`: a column for each position and k-mer of DNA strings, with
      k = 1..degree (see `mtlrun.features.WeightedDegree`).
    """

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
    degree: Annotated[int, Field(ge=1, le=31)] | None = Field(
        default=None, description="Longest k-mer of weighted-degree."
    )
    normalize: bool | None = Field(
        default=None, description="Whether weighted-degree scales each row to length 1."
    )
    hash_bits: Annotated[int, Field(ge=1, le=28)] | None = Field(
        default=None,
        description=(
            "Binary logarithm of the number of columns to which weighted-degree hashes "
            "k-mers."
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> Any:
        if isinstance(value, str):
            return {"kind": value}
        return value

    @model_validator(mode="after")
    def _options_of_kind(self) -> FeatureStep:
        present = [name for name, value in self if value is not None]
        options = [name for name in present if name != "kind"]
        if options and self.kind != "weighted-degree":
            raise ValueError(f"{self.kind} has no {', '.join(options)}")
        return self

    @property
    def plain(self) -> str | dict[str, Any]:
        """The step as files have it: its kind alone, or a mapping with its options."""
        fields = self.model_dump(exclude_none=True)
        has_options = len(fields) > 1
        if has_options:
            return fields
        return self.kind


class DatasetSpec(BaseModel):
    """A data set: its id, or a mapping with its id and options of its reader.

    `label` distinguishes two data sets with the same id. `split`, `metrics` and
    `features` replace the sections of the experiment.
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    id: Annotated[str, known("data set")] = Field(description="Name of the data set.")
    label: str = Field(default="", description="Label in tables. Default: the id.")
    split: SplitSpec | None = Field(
        default=None, description="Split in place of the split of the experiment."
    )
    metrics: Annotated[list[MetricName], AfterValidator(distinct)] | None = Field(
        default=None, description="Metrics in place of the metrics of the experiment."
    )
    features: FeatureStep | None = Field(
        default=None, description="Feature step in place of the step of the experiment."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> Any:
        if isinstance(value, str):
            return {"id": value}
        return value

    @property
    def name(self) -> str:
        """Label in tables."""
        return self.label or self.id

    @property
    def options(self) -> dict[str, Any]:
        """Options of the reader, as keyword arguments of `load_dataset`."""
        return dict(self.model_extra or {})

    @property
    def sections(self) -> dict[str, Any]:
        """Sections that replace sections of the experiment, as plain data."""
        sections = self.model_dump(include={"split", "metrics"}, exclude_none=True)
        if self.features is not None:
            sections["features"] = self.features.plain
        return sections


class Selection(StrictModel):
    """How parameters are selected.

    By default, by cross-validation inside the training part. With `on: validation`, by
    one fit on the training part, which is scored on the validation part of the split.
    `metric` defaults to the first metric of the data set.
    """

    on: Literal["folds", "validation"] = Field(
        default="folds", description="Rows on which candidates are scored."
    )
    folds: Folds = Field(
        default=3, description="Number of folds of the cross-validation."
    )
    metric: MetricName | None = Field(
        default=None,
        description="Metric that decides. Default: the first metric of the data set.",
    )


class MethodSpec(StrictModel):
    """A row of the table: an `estimator`, or a `measure` in kinds of analyses.

    `params` are its parameters, and `grid` has the values that are searched.
    `select_with` replaces parameters during the search, for example by a fast solver of
    the same objective. With `halving`, only the better half of the values goes on after
    each fold of the search. With `scored`, a method without a grid is scored in the
    folds, too. `features` replaces the step of the data set or experiment. `datasets`
    lists the ids or labels of the data sets that have this row (default: all).
    """

    label: Annotated[str, Field(min_length=1)] = Field(description="Name of the row.")
    estimator: str = Field(
        default="",
        description="Method, or package.module:Class of any scikit-learn estimator.",
    )
    measure: str = Field(
        default="", description="Analysis, or package.module:function."
    )
    params: dict[str, Any] = Field(default={}, description="Parameters.")
    grid: dict[str, Values | str] = Field(
        default={},
        description="Parameter -> searched values, or the name of a list in `grids`.",
    )
    select_with: dict[str, Any] = Field(
        default={}, description="Parameters that replace others during the search."
    )
    halving: bool = Field(
        default=False,
        description="Whether only the better half goes on after each fold.",
    )
    scored: bool = Field(
        default=False,
        description="Whether a method without a grid is scored in the folds, too.",
    )
    features: FeatureStep | None = Field(
        default=None,
        description="Feature step in place of the step of the data set or experiment.",
    )
    datasets: Annotated[list[DatasetName], Field(min_length=1)] | None = Field(
        default=None,
        description="Ids or labels of the data sets with this row. Default: all.",
    )


class Interpretation(StrictModel):
    """An interpretation of an open question of the paper: a layer over the profile.

    `changes` is written like a profile; a mapping in place of a list changes the
    entries of the list (``"*"``: all of them). The interpretation with `main` is the
    file as it stands. An interpretation that is not `plausible` is shown for
    comparison, and does not count for the verdict.
    """

    why: Annotated[str, Field(min_length=1)] = Field(
        description="Reason for this interpretation."
    )
    main: Main | None = Field(
        default=None,
        description="Reason why the file as it stands is the main interpretation.",
    )
    because: str | None = Field(
        default=None, description="Reason for the rule of the main interpretation."
    )
    changes: dict[str, Any] = Field(
        default={}, description="Changes of the file, written like a profile."
    )
    plausible: bool = Field(
        default=True, description="Whether the interpretation counts for verdicts."
    )

    @model_validator(mode="after")
    def _changes_or_main(self) -> Interpretation:
        if (self.main is None) != bool(self.changes):
            raise ValueError(
                "a reading needs either 'main' (the file as it stands) or 'changes'"
            )
        if self.main is not None and not self.plausible:
            raise ValueError("the main reading must be plausible")
        return self


class ReferenceFile(Tolerance):
    """Numbers as printed in the paper, in a csv file in the folder of the experiment.

    The format of the file is described in `mtlrun.catalog.analysis`. `quantity` and
    `method` hold for all numbers. Without `quantity`, and without a column
    ``quantity``, the columns are named after quantities; without `method`, after
    methods. With `percent`, the numbers of the table are per cent. `leave_out` lists
    names under ``data set`` whose numbers are not compared.
    """

    file: Annotated[str, Field(pattern=r"^[^/\\][^\\]*\.csv$")] = Field(
        description="Name of the csv file."
    )
    method: str | None = Field(
        default=None,
        description="Method of all numbers. Default: as the columns are named.",
    )
    percent: bool = Field(
        default=False, description="Whether the numbers are printed in per cent."
    )
    leave_out: list[str] = Field(
        default=[], description="Names under `data set` whose numbers are not compared."
    )
    n: Count | None = Field(
        default=None, description="Number of splits behind a published number."
    )
    profile: ShortNamesOf[ProfileName] = Field(
        default=[],
        description="Profiles in which the numbers are compared. Default: all.",
    )
    source: Literal["paper", "stored"] | None = Field(
        default=None,
        description="Whether the numbers are published or stored results of ours.",
    )


def _reference_tag(entry: object) -> str:
    """Return the tag of the model that validates an entry of `reference`."""
    if isinstance(entry, ReferenceFile):
        return "a table"
    if isinstance(entry, dict) and "file" in entry:
        return "a table"
    return "a number"


#: When an experiment is loaded, the numbers of a file replace its entry (see
#: `mtlrun.lab.experiment.load`).
AnyReference = Annotated[
    Annotated[Reference, Tag("a number")] | Annotated[ReferenceFile, Tag("a table")],
    Discriminator(_reference_tag),
]


class Spec(StrictModel):
    """An experiment file with one profile applied.

    It is merged into the file that it `extends`, which is given by its id or path: what
    it leaves out is inherited, except `id`, `title`, `kind` and `default_for`.
    """

    schema_: Literal[1] = Field(alias="schema", description="Version of the format.")
    id: Annotated[str, AfterValidator(experiment_id)] = Field(
        description="Name of the experiment, <paper>/<artifact>."
    )
    title: str = Field(description="Title of the report.")
    kind: Literal[
        "evaluate", "sweep", "test", "inspect", "trace", "scaling", "audit", "train"
    ] = Field(
        default="evaluate",
        description=(
            "What is computed: fits and scores (evaluate, sweep, test), analyses "
            "(inspect, trace, scaling, audit), or a model (train)."
        ),
    )
    extends: str | None = Field(
        default=None,
        description=(
            "Experiment from which missing keys are inherited: its id, or the path of "
            "its file."
        ),
    )
    description: str | None = Field(
        default=None, description="Introduction of the report."
    )
    default_for: Names = Field(
        default=[], description="Short names that mean this experiment."
    )
    paper: Paper | None = Field(
        default=None, description="Source of the published numbers."
    )
    datasets: list[DatasetSpec] = Field(
        default=[], description="Data sets, each with a table of its own."
    )
    split: SplitSpec | None = Field(
        default=None, description="Split of the rows of each data set."
    )
    repeats: Count = Field(default=1, description="Number of repeats of an analysis.")
    metrics: Annotated[list[str], Field(min_length=1)] = Field(
        description="Quantities in the table."
    )
    average: Literal["task", "sample"] = Field(
        default="task",
        description="Average of the metrics over the tasks, or over all rows.",
    )
    features: FeatureStep = Field(
        default=FeatureStep(), description="Feature step learned on the training rows."
    )
    keep: list[Literal["predictions"]] = Field(
        default=[], description="Results that are stored in addition."
    )
    seed: Annotated[int, Field(ge=0)] = Field(
        default=0, description="Base seed, from which all random numbers are derived."
    )
    selection: Selection | None = Field(
        default=None, description="How parameters are selected."
    )
    timing: TimingSpec | None = Field(
        default=None,
        description="How seconds are measured. Without it, fits are not timed.",
    )
    limits: Limits | None = Field(default=None, description="Time limit of a fit.")
    sweep: Sweep | None = Field(
        default=None, description="Axis along which the experiment is repeated."
    )
    table: TableLayout | None = Field(default=None, description="Layout of the tables.")
    grids: dict[str, Values] = Field(
        default={},
        description="Named lists of values, which grids of methods refer to.",
    )
    methods: Annotated[list[MethodSpec], Field(min_length=1)] = Field(
        description="Rows of the tables."
    )
    statistics: Statistics | None = Field(
        default=None, description="Ranking of the methods over the data sets."
    )
    claims: list[Claim] = Field(
        default=[], description="Statements and the checks that decide them."
    )
    reference: Annotated[list[AnyReference], BeforeValidator(as_list)] = Field(
        default=[], description="Published numbers, or files of them."
    )
    published: str | None = Field(
        default=None,
        description="File of published curves, below the folder of the experiments.",
    )
    tolerance: Annotated[list[Tolerance], BeforeValidator(as_list)] = Field(
        default=[], description="How far numbers may be from the published ones."
    )
    deviations: list[str] = Field(
        default=[], description="Known differences from the protocol of the paper."
    )
    readings: dict[str, Interpretation] = Field(
        default={}, description="Interpretations of what the paper leaves open."
    )
    profiles: dict[str, dict[str, Any] | None] = Field(
        default={},
        description="Name -> changes of the file, for example for a quick run.",
    )
    refit: bool | dict[str, Any] = Field(
        default=False,
        description=(
            "Training files: whether the model is fitted to all rows after the "
            "evaluation, or its parameters then."
        ),
    )

    @field_validator("readings")
    @classmethod
    def _one_main(
        cls, readings: dict[str, Interpretation]
    ) -> dict[str, Interpretation]:
        n_main = sum(reading.main is not None for reading in readings.values())
        if readings and n_main != 1:
            raise ValueError("exactly one reading must have 'main'")
        return readings

    @property
    def is_analysis(self) -> bool:
        """Whether the jobs call analyses instead of fitting methods on splits."""
        return self.kind in ANALYSIS_KINDS

    @property
    def is_timed(self) -> bool:
        """Whether the jobs measure seconds, and therefore run one after the other."""
        return self.timing is not None or self.kind in TIMED_KINDS

    @property
    def dataset(self) -> DatasetSpec:
        """Data set of a training file."""
        return self.datasets[0]

    @property
    def method(self) -> MethodSpec:
        """Method of a training file."""
        return self.methods[0]


# ------------------------------------------- training files whose data come in chunks


class ChunkColumns(StrictModel):
    """Data files, relative to the folder of the training file, and their columns."""

    files: str = Field(description="Folder or pattern of the data files.")
    target: str | None = Field(default=None, description="Column to predict.")
    task: str | None = Field(
        default=None, description="Column that names the task of each row."
    )
    targets: list[str] = Field(
        default_factory=list, description="Columns to predict, each a task."
    )
    weight: str | None = Field(default=None, description="Column of row weights.")
    drop: list[str] = Field(
        default_factory=list, description="Columns that are not features."
    )


class ChunkMethod(StrictModel):
    """A method, whose parameters refer to standardized features and targets."""

    estimator: str
    params: dict[str, Any] = Field(default_factory=dict)
    grid: Annotated[dict[str, Values], AfterValidator(few_candidates)] = Field(
        default_factory=dict
    )


class ChunkTraining(StrictModel):
    """A training file with a section `data`, which is a table in chunks.

    The first fold is the test part, and the other folds select parameters.
    """

    schema_: Annotated[Literal[1], Field(alias="schema")]
    id: Annotated[str, AfterValidator(experiment_id)]
    kind: Literal["train"]
    title: str = ""
    data: ChunkColumns
    method: ChunkMethod
    folds: Annotated[Folds, Field(ge=3)] = 5
    refit: bool = True
    seed: Annotated[int, Field(ge=0)] = 0

    #: Folder of the training file.
    _folder: Path = PrivateAttr(Path())

    @property
    def files(self) -> Path:
        """Path or pattern of the data files."""
        return self._folder / self.data.files

    @property
    def config(self) -> dict[str, Any]:
        """The file as plain data, without folders of the user."""
        config = self.model_dump(by_alias=True)
        config["data"]["files"] = private_path(self.data.files)
        return config


# --------------------------------------------- an experiment, ready to be planned

#: Keys of training files.
TRAIN_KEYS = (
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
    "seed",
    "selection",
    "keep",
    "refit",
)
#: Keys of the section `method` of training files.
TRAIN_METHOD_KEYS = ("estimator", "params", "grid", "select_with", "halving", "scored")


def as_experiment(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a training file as an experiment with one data set and one method.

    Parameters
    ----------
    data : mapping
        Plain data of the file, which need not be valid.
    """
    experiment: dict[str, Any] = {"title": ""}
    for name, value in data.items():
        if value is not None:
            experiment[name] = value
    if "dataset" in experiment:
        experiment["datasets"] = [experiment.pop("dataset")]
    if "method" in experiment:
        method = experiment.pop("method")
        if isinstance(method, str):
            method = {"estimator": method}
        if isinstance(method, dict):
            method = {"label": str(method.get("estimator") or TRAIN), **method}
        experiment["methods"] = [method]
    return experiment


def plain(spec: Spec) -> dict[str, Any]:
    """Return a specification as plain data without empty optional fields.

    Names of grids are replaced by their values. Values of `params` are kept as they
    are. A training file keeps the keys of training files.
    """
    config = spec.model_dump(
        by_alias=True,
        exclude={"profiles", "readings", "grids", "extends"},
        exclude_unset=True,
    )
    datasets = []
    # Metrics of the experiment and of its data sets: the columns of the table.
    metrics = list(spec.metrics)
    for dataset in spec.datasets:
        label = {"label": dataset.label} if dataset.label else {}
        sections = {**dataset.sections, **dataset.options}
        datasets.append({"id": dataset.id, **label, **sections})
        metrics += dataset.metrics or ()
    selection: dict[str, Any] | None = None
    if spec.selection is not None:
        metric = spec.selection.metric
        if not metric and all(dataset.metrics is None for dataset in spec.datasets):
            # If data sets have metrics of their own, the default depends on the data
            # set.
            metric = spec.metrics[0]
        selection = {"folds": spec.selection.folds}
        if spec.selection.on == "validation":
            selection = {"on": spec.selection.on}
        if metric:
            selection["metric"] = metric
    features = None
    if "features" in config:
        features = spec.features.plain
    average = None
    repeats = None
    if spec.is_analysis:
        repeats = spec.repeats
    else:
        average = spec.average
    split = None
    if spec.split is not None:
        split = plain_split(spec, spec.split)
    config |= {
        "seed": spec.seed,
        "methods": [_plain_method(spec, method) for method in spec.methods],
        "features": features,
        "average": average,
        "datasets": datasets,
        "selection": selection,
        "metrics": list(dict.fromkeys(metrics)),
        "timing": spec.timing,
        "limits": spec.limits,
        "statistics": spec.statistics,
        "table": spec.table,
        "repeats": repeats,
        "split": split,
    }
    for name, value in config.items():
        if isinstance(value, BaseModel):
            config[name] = value.model_dump(exclude_none=True)
    if spec.kind == TRAIN:
        (dataset_entry,) = config.pop("datasets")
        (method,) = config.pop("methods")
        fields = {name: method[name] for name in TRAIN_METHOD_KEYS if name in method}
        config |= {"dataset": dataset_entry, "method": fields, "refit": spec.refit}
    return {name: value for name, value in config.items() if value is not None}


def plain_split(spec: Spec, split: SplitSpec) -> dict[str, Any]:
    """Return a split as plain data, with the number of trials last."""
    entry = split.model_dump(exclude={"trials"}, exclude_none=True)
    # A kfold split without trials has as many as folds, and a training file has one.
    has_trials = split.kind != "kfold" or split.trials
    if spec.kind != TRAIN and has_trials:
        entry["trials"] = split.n_trials
    return entry


def _plain_method(spec: Spec, method: MethodSpec) -> dict[str, Any]:
    entry: dict[str, Any] = {"measure": method.measure, "params": method.params}
    if not method.measure:
        entry = {
            "estimator": method.estimator,
            "params": method.params,
            "grid": plain_grid(spec, method),
            "select_with": method.select_with,
            "halving": method.halving or None,
            "scored": method.scored or None,
            "features": method.features and method.features.plain,
        }
    entry = {"label": method.label, **entry, "datasets": method.datasets or None}
    return {name: value for name, value in entry.items() if value is not None}


def plain_grid(spec: Spec, method: MethodSpec) -> dict[str, Values]:
    """Return the grid of a method with names of grids replaced by their values."""
    grid = {}
    for name, values in method.grid.items():
        if isinstance(values, str):
            values = spec.grids[values]
        grid[name] = values
    return grid


@dataclass(frozen=True)
class Experiment:
    """An experiment or a training with one profile and all overrides applied.

    Attributes
    ----------
    spec : Spec
        Validated file.
    config : dict
        The same as plain data for `run.json`: names of grids are replaced by their
        values, and there are no profiles.
    source : str
        Name of the file in messages.
    profile : str
    profiles : tuple of str
        All profiles of the file.
    overrides : tuple of str
        ``key=value`` as written by the user, the seed included.
    places : tuple of str
        Position of each data set: ``configs/fetr/school.yaml:5:3``, or ``--set ...``.
    paper_datasets : tuple of str
        Ids of the data sets that the file names before a profile changes them.
    interpretation : str
        Name of the interpretation; "" if the file has none.
    others : tuple of Experiment
        The same experiment under each other interpretation that changes something in
        this profile.
    warnings : tuple of str
        A line for each value of the file that a profile of an extended file replaces.
    """

    spec: Spec
    config: dict[str, Any]
    source: str
    profile: str = FULL
    profiles: tuple[str, ...] = (FULL,)
    overrides: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    paper_datasets: tuple[str, ...] = ()
    interpretation: str = ""
    others: tuple[Experiment, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any], source: str) -> Experiment:
        """Return the experiment or training of valid plain data."""
        if data.get("kind") == TRAIN:
            data = as_experiment(data)
        spec = Spec.model_validate(data)
        return cls(spec, plain(spec), source)

    @property
    def id(self) -> str:
        """Id, ``<paper>/<artifact>``."""
        return self.spec.id

    def folder(self, output: Path | str) -> Path:
        """Return the run folder below an output folder."""
        return Path(output) / self.spec.id / self.profile
