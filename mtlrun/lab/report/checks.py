"""What an experiment says that its report reads, as pydantic models, and the words of verdicts.

Experiment files are made of them (`mtlrun.lab.spec`), ``run.json`` is checked against them (`mtlrun.lab.stored`),
and `mtlrun.lab.report.claims` evaluates the checks.
"""

from __future__ import annotations

import math
from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from mtlrun.tables.quantities import PARALLEL
from mtlrun.utils.io import as_list
from mtlrun.utils.sizes import PLANNED
from mtlrun.utils.yaml import StrictModel

#: How a verdict that holds in part is worded, and counted.
_IN_PART = ("holds in part", "holds in part", "hold in part")


class Verdict(StrEnum):
    """The words of verdicts, on claims and then on reference numbers, each with its tone.

    Attributes
    ----------
    tone : {"good", "part", "bad", "none"}
        Class of the word in HTML; `STYLES` has its colour on a terminal.
    said : str
        How it is said to readers.
    one, many : str
        What a claim does, and what several do, where they are counted: those that hold
        mostly are counted with those that hold in part.
    """

    tone: str
    said: str
    one: str
    many: str

    def __new__(
        cls,
        word: str,
        tone: str = "none",
        said: str = "",
        one: str = "",
        many: str = "",
    ) -> Verdict:
        """Return a word with its tone, and as it is said."""
        verdict = str.__new__(cls, word)
        verdict._value_, verdict.tone, verdict.said, verdict.one, verdict.many = (
            word,
            tone,
            said or word,
            one,
            many,
        )
        return verdict

    CONFIRMED = "confirmed", "good", "holds", "holds", "hold"
    MOSTLY = "mostly", "part", *_IN_PART
    PARTLY = "partly", "part", *_IN_PART
    NOT_CONFIRMED = (
        "not confirmed",
        "bad",
        "does not hold",
        "does not hold",
        "do not hold",
    )
    DEPENDS = (
        *("depends on the reading", "part", "depends on the interpretation"),
        *("depends on the interpretation", "depend on the interpretation"),
    )
    UNDECIDED = "undecided", "none", "undecided", "is undecided", "are undecided"
    NOT_TESTABLE = (
        "not testable here",
        "none",
        "not testable here",
        "is not testable here",
        "are not testable here",
    )
    WITHIN = "within", "good", "within tolerance"
    OUTSIDE = "outside", "bad", "out of tolerance"
    NOT_RUN = "not run", "none"


def said(verdict: str) -> str:
    """Return a verdict as readers are told it; another word as it is."""
    return next((one.said for one in Verdict if one == verdict), verdict)


#: Verdicts on claims, and on reference numbers, in the order in which they are counted.
VERDICTS, NUMBERS = (
    tuple(v for v in Verdict if v.one),
    tuple(v for v in Verdict if not v.one),
)
#: Those under which a claim holds.
HOLDING = (Verdict.CONFIRMED,)
#: The words of verdicts on claims, as readers see them and as files may give them, with
#: the values that records have.
VERDICT_WORDS = {verdict.said: str(verdict) for verdict in VERDICTS}
#: Colours of tones on a terminal.
STYLES = {"good": "green", "part": "yellow", "bad": "red", "none": "dim"}

#: The source of a claim, and the words under which its verdict is counted. An audit asks
#: whether the paper's printed numbers, or the files of its authors, support a sentence of
#: its text; it reproduces nothing, so it is counted apart.
CLAIM_SOURCES = {
    "paper": "of the {papers}",
    "other data": "of the {papers}, tested on other data",
    "audit": "of the {papers}, checked against printed numbers or files of the authors",
    "ours": "of our own",
}

#: Quantities beside the metrics of the experiment. Seconds and speed-up are medians over the splits, all others means.
QUANTITIES = {
    "seconds": "seconds to fit (median over the splits of the median over the repeats)",
    PARALLEL: "seconds to fit with every block on its own worker; without blocks the seconds",
    "seconds_predict": "seconds to predict the test part",
    "speedup": "seconds of the baseline of `timing` divided by the seconds of the method, same data set",
    "n_iter": "iterations of the solver",
    "gap": "relative duality gap at the end",
    "objective": "objective at the end",
    "average_rank": "rank of the method averaged over the data sets (1 is best), by the metric of `statistics`",
    "truth_error": "||W - W*||_F / ||W*||_F, W* the true coefficients (simulated regression data only)",
    "rank": "rank of the low-rank part L of a robust model",
    "n_outliers": "columns of the outlier part E of a robust model that are not zero",
    "low_rank_error": "||L - L*||_F / ||L*||_F, L* the true low-rank part (simulated data only)",
}
#: Quantities of measures, beside the metrics, that are shares, and those that are differences of shares.
SHARES = ("auc_target", "clean", "authors", "authors_last")
SHARE_DIFFERENCES = (
    "gain",
    "gain_named",
    "gain_over_stl",
    "gain_over_one_kernel",
    "largest_gain",
    "leak",
    "excess",
)
#: Quantity of a group of data sets; the label of the group when there is one only.
AVERAGE_RANK, ALL_DATA = "average_rank", "all data sets"
#: Unit of a paired test whose pairs are the test scores themselves: it needs no quantity.
PREDICTION = "prediction"
MEDIAN_QUANTITIES = ("seconds", PARALLEL, "seconds_predict", "speedup")


# ---------------------------------------------------------------------- values


def distinct(value: list[Any]) -> list[Any]:
    """Return a list that holds something, and nothing twice; raises ValueError."""
    if not value:
        raise ValueError("must not be empty")
    if len({repr(v) for v in value}) != len(value):
        raise ValueError("must not hold the same value twice")
    return value


def _iso_date(value: object) -> Any:
    """Return a date of YAML, or a text that is one, as text; raises ValueError."""
    return str(date.fromisoformat(str(value)))


def _verdict_value(word: str) -> str:
    """Return the value of a verdict that may be given as readers see it."""
    return VERDICT_WORDS.get(word, word)


def _as_names(value: object) -> Any:
    return as_list(value) if value is None or isinstance(value, str) else value


Values = Annotated[list[Any], AfterValidator(distinct)]
#: Texts; one stands for a list of one.
Names = Annotated[
    list[str],
    BeforeValidator(_as_names),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    ),
]
#: The same, where the text of a list of one is what a resolved experiment has.
Short = Annotated[
    Names, PlainSerializer(lambda names: names[0] if len(names) == 1 else names)
]
#: Numbers that are computed with; booleans are none.
Number = Annotated[float | int, Field(ge=-1e150, le=1e150)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=PLANNED)]


# ---------------------------------------------------------------------- claims

#: What is claimed to be about a number is claimed to lie within this factor of it.
ABOUT = 2.0
#: Fields that a kind of check needs beside `kind`, and those that it may have; one with bounds needs one of them.
CHECKS = {
    "ratio": (
        "quantity of over",
        "dataset task effect drift bound stopped at_least at_most about",
    ),
    "difference": (
        "quantity of over",
        "dataset task effect drift bound stopped at_least at_most",
    ),
    "value": (
        "quantity of",
        "dataset task effect drift bound stopped at_least at_most about",
    ),
    "paired": ("quantity of over", "dataset unit test ties at_least at_most"),
    "order": ("quantity methods", "dataset task direction effect"),
    "rejections": ("control", "over dataset at_least at_most"),
}
REFERENCE_SOURCES = ("paper", "stored")


class Stopped(StrictModel):
    """When a run was stopped: where its `quantity` is at least its parameter `at_least`, or below that of the method
    `below` on the same data."""

    quantity: str
    at_least: str | None = None
    below: str | None = None

    @model_validator(mode="after")
    def _one_limit(self) -> Stopped:
        if (self.at_least is None) == (self.below is None):
            raise ValueError(
                "stopped needs one of 'at_least' (a parameter) and 'below' (a method)"
            )
        return self


class Check(StrictModel):
    """A comparison that decides a claim; `CHECKS` has the fields of each kind.

    `at_least` and `at_most` are the bounds of the number that is claimed, `about` is a
    size, which holds within a factor of 2, `ties` a difference up to which two values are
    equal, and `effect` the smallest difference that counts (default: one standard error).
    `drift` is how far the number of a fit that did not converge can still move, as
    measured: only a comparison nearer to its bound is undecided for that reason. `bound`:
    the number found is a bound of the true one; with `stopped` only where a run was
    stopped, whose number decides nothing without `bound`.
    """

    kind: Literal["ratio", "difference", "value", "paired", "order", "rejections"]
    quantity: str | None = None
    of: Short = []
    over: Short = []
    methods: Short = []
    control: str | None = None
    dataset: Short = []
    task: Short = []
    unit: Literal["trial", "task", "prediction"] = "trial"
    test: Literal["wilcoxon", "t", "corrected_t"] = "wilcoxon"
    direction: Literal["increasing", "decreasing"] = "increasing"
    bound: Literal["lower", "upper"] | None = None
    stopped: Stopped | None = None
    effect: NotNegative | None = None
    drift: NotNegative | None = None
    ties: NotNegative = 0.0
    at_least: Number | None = None
    at_most: Number | None = None
    about: Annotated[Number, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _fields_of_kind(self) -> Check:
        needed, may = (names.split() for names in CHECKS[self.kind])
        given = {
            name
            for name in self.model_fields_set
            if getattr(self, name) not in (None, [])
        } - {"kind"}
        on_predictions = self.unit == PREDICTION
        lacking = [
            name
            for name in needed
            if name not in given and not (on_predictions and name == "quantity")
        ]
        if lacking:
            raise ValueError(
                f"a {self.kind} check needs {', '.join(map(repr, lacking))}"
            )
        if foreign := sorted(given.difference(needed, may)):
            allowed = ", ".join(["kind", *needed, *may])
            raise ValueError(
                f"a {self.kind} check has no {foreign[0]!r}; it may have: {allowed}"
            )
        bounds = [name for name in ("at_least", "at_most", "about") if name in may]
        if bounds and not given.intersection(bounds):
            raise ValueError(
                f"a {self.kind} check needs {' or '.join(map(repr, bounds))}"
            )
        if "about" in given and given & {"at_least", "at_most"}:
            raise ValueError("a check has either 'about' or bounds")
        if on_predictions and self.test == "corrected_t":
            raise ValueError(
                "predictions are tested split by split: corrected_t needs several splits"
            )
        if self.kind == "order" and len(self.methods) < 2:
            raise ValueError("an order check needs at least two methods")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which numbers that of the claim lies, infinite where nothing is claimed."""
        if self.about is not None:
            return self.about / ABOUT, self.about * ABOUT
        low, high = self.at_least, self.at_most
        return -math.inf if low is None else low, math.inf if high is None else high

    @property
    def ranked(self) -> bool:
        """Whether it is about ranks over data sets."""
        return self.kind == "rejections" or self.quantity == AVERAGE_RANK


class Expectation(StrictModel):
    """The verdict that a claim had: `from` is the profile of the run that it was taken from, `set` the day."""

    verdict: Annotated[str, AfterValidator(_verdict_value)]
    set: Annotated[str, BeforeValidator(_iso_date)]
    from_: str = Field(alias="from")


class Claim(StrictModel):
    """A statement and the checks that decide it.

    `all`: the statement says "all", "consistently" or "best", so a single comparison that fails refutes it, and one
    that is undecided or was not made leaves it undecided. `usually`: it says "usually" or "tends to", so it holds when
    more than half of its comparisons do. `source`: the paper's statement, asked of its data or of
    other data, an audit of printed numbers or of the authors' files, or our own statement; they are counted
    separately."""

    id: str
    text: str
    source: Literal["paper", "other data", "audit", "ours"] = "paper"
    where: str | None = None
    expect: Expectation | None = None
    not_testable: str | None = None
    all: bool = False
    usually: bool = False
    checks: list[Check] = []

    @model_validator(mode="after")
    def _one_quantifier(self) -> Claim:
        if self.all and self.usually:
            raise ValueError("a claim has either 'all' or 'usually'")
        return self


# ---------------------------------------------------------------------- other sections


class Paper(StrictModel):
    """Where the published numbers are printed."""

    cite: str
    artefact: str
    doi: str | None = None
    url: str | None = None


class TimingSpec(StrictModel):
    """How seconds are measured: an untimed first fit, then `repeats` timed ones (the median counts), with a fixed
    number of BLAS threads."""

    repeats: Count = 1
    threads: Count = 1
    warmup: bool = True
    baseline: str | None = None


class Limits(StrictModel):
    """Wall-clock limit, in seconds, of one fit and of one fold of a search."""

    seconds: Positive


class Sweep(StrictModel):
    """The axis of a sweep: everything is repeated at each of `values`.

    Exactly one of: `split`, the field of the split that varies; `option`, the option of the data sets; `params`, one
    or several parameters, which vary in the methods that have them (`lam` and `base__lam`) while other methods stay as
    they are. `name` and `scale` describe the axis of the figure, which draws `quantities` (default: the metrics, and
    seconds when they are measured). `marks` are lines across it: a text and its value. `leave_out` names data sets and
    the values at which they are not computed."""

    name: Annotated[str, Field(min_length=1)]
    split: Literal["train"] | None = None
    option: str | None = None
    params: Annotated[Names, AfterValidator(distinct)] | None = None
    values: Values
    scale: Literal["linear", "log"] = "linear"
    quantities: list[str] = []
    marks: dict[str, float | Literal["1/sqrt(tasks)"]] = {}
    leave_out: dict[str, Values] = {}

    @model_validator(mode="after")
    def _one_axis(self) -> Sweep:
        axes = {"split": self.split, "option": self.option, "params": self.params}
        given = [name for name, value in axes.items() if value is not None]
        if len(given) != 1:
            raise ValueError(
                f"a sweep needs one of split, option and params, not {', '.join(given) or 'none'}"
            )
        numbers = all(
            isinstance(v, int | float) and not isinstance(v, bool) for v in self.values
        )
        if self.split and not (numbers and all(0 < v < 1 for v in self.values)):
            raise ValueError("values of split.train must be between 0 and 1")
        if self.scale == "log" and not (numbers and all(v > 0 for v in self.values)):
            raise ValueError("a log scale needs positive numbers as values")
        return self


class TableLayout(StrictModel):
    """The table as the paper prints it: what its rows and columns stand for, the quantities shown (default: the
    metrics, and measured seconds), scores per cent, average ranks below. What is neither rows nor columns makes a
    table of its own for each of its values."""

    rows: Literal["dataset", "method", "quantity", "value", "task"] | None = None
    columns: Literal["dataset", "method", "quantity", "value", "task"] | None = None
    show: Names = []
    percent: bool = False
    foot: bool = False


class Statistics(StrictModel):
    """Ranks of the methods by a metric over the data sets, Friedman's test, Holm's procedure against the `control`."""

    metric: str
    control: str
    significance: Fraction = 0.05


class Tolerance(StrictModel):
    """How far a number may be from a reference. `error_rate` is a share of 1 - the number: for accuracies and AUCs."""

    quantity: str | None = None
    absolute: NotNegative | None = None
    error_rate: NotNegative | None = None
    relative: NotNegative | None = None
    sigmas: NotNegative | None = None


class Reference(Tolerance):
    """A published number (`source: paper`) or one of ours (`source: stored`), of all tasks or of one."""

    dataset: str
    method: str
    quantity: str
    task: str | None = None
    value: Annotated[float, Field(ge=-1e150, le=1e150)]
    std: Number | None = None
    n: Count | None = None
    decimals: Annotated[int, Field(ge=0, le=300)] | None = None
    profile: Short = []
    source: Literal["paper", "stored"] | None = None


class PublishedCurve(StrictModel):
    """A published curve, or the published values of a quantity; `name` is that of the curve or the quantity."""

    dataset: str
    method: str
    name: str
    x: list[Number]
    y: list[Number]
    source: Any = None

    @model_validator(mode="after")
    def _of_one_length(self) -> PublishedCurve:
        if len(self.x) != len(self.y):
            raise ValueError("'x' and 'y' must have the same length")
        return self


class Curves(StrictModel):
    """A file of published curves."""

    curves: list[PublishedCurve]


class Main(StrictModel):
    """Why a reading is the main one: never because a claim holds under it. `of` are the methods, not the paper's own,
    whose published level decides."""

    rule: Literal["published level", "authors' code", "convention"]
    of: list[str] = []

    @model_validator(mode="after")
    def _methods_of_level(self) -> Main:
        if (self.rule == "published level") != bool(self.of):
            raise ValueError(
                "the rule 'published level' needs 'of', the methods whose level decides; others have none"
            )
        return self
