"""Sections of an experiment that its report reads, as pydantic models, and verdicts.

Experiment files consist of them (`mtlrun.lab.experiment.spec`), ``run.json`` is checked against
them (`mtlrun.lab.stored`), and `mtlrun.lab.report.claims` evaluates the checks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from mtlrun.errors import suggest
from mtlrun.show.quantities import PARALLEL
from mtlrun.utils.io import as_list, is_json_number
from mtlrun.utils.sizes import PLANNED
from mtlrun.utils.yaml import StrictModel

#: Label, singular and plural of verdicts that hold in part.
_IN_PART = ("holds in part", "holds in part", "hold in part")


class Verdict(StrEnum):
    """Verdicts on claims, then those on published numbers. The value is stored in
    files.

    Attributes
    ----------
    tone : {"good", "part", "bad", "none"}
        Class of the word in HTML; `STYLES` has its color on a terminal.
    label : str
        Verdict as readers see it.
    singular, plural : str
        Predicates after a count of claims, empty for verdicts on numbers. Claims that
        hold mostly and claims that hold in part are counted together.
    """

    tone: str
    label: str
    singular: str
    plural: str

    def __new__(
        cls,
        value: str,
        tone: str = "none",
        label: str = "",
        singular: str = "",
        plural: str = "",
    ) -> Verdict:
        """Create a verdict; without a label its value is shown."""
        verdict = str.__new__(cls, value)
        verdict._value_ = value
        verdict.tone = tone
        verdict.label = label or value
        verdict.singular = singular
        verdict.plural = plural
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
        "depends on the reading",
        "part",
        "depends on the interpretation",
        "depends on the interpretation",
        "depend on the interpretation",
    )
    UNDECIDED = "undecided", "none", "undecided", "is undecided", "are undecided"
    ARITHMETIC = (
        "arithmetic",
        "good",
        "holds by arithmetic",
        "holds by arithmetic",
        "hold by arithmetic",
    )
    UNTESTED = "not tested", "none", "not run", "was not run", "were not run"
    NOT_PUBLIC = (
        "not public",
        "none",
        "not public",
        "needs data that are not public",
        "need data that are not public",
    )
    NOT_TESTABLE = (
        "not testable here",
        "none",
        "not testable",
        "is not testable",
        "are not testable",
    )
    WITHIN = "within", "good", "within tolerance"
    OUTSIDE = "outside", "bad", "out of tolerance"
    NOT_RUN = "not run", "none"


def verdict_label(word: str) -> str:
    """Return the label of a verdict, and any other word unchanged."""
    for verdict in Verdict:
        if verdict == word:
            return verdict.label
    return word


#: Verdicts on claims, in the order in which they are counted.
VERDICTS = tuple(verdict for verdict in Verdict if verdict.singular)
#: Verdicts on published numbers, in the order in which they are counted.
NUMBERS = tuple(verdict for verdict in Verdict if not verdict.singular)
#: Verdicts under which a claim holds.
HOLDING = (Verdict.CONFIRMED, Verdict.ARITHMETIC)
#: Verdicts on claims of which no comparison was made.
UNTESTED = (Verdict.UNTESTED, Verdict.NOT_PUBLIC, Verdict.NOT_TESTABLE)
#: Labels of the verdicts on claims, which files may contain, with the stored values.
VERDICT_WORDS = {verdict.label: str(verdict) for verdict in VERDICTS}
#: Colors of tones on a terminal.
STYLES = {"good": "green", "part": "yellow", "bad": "red", "none": "dim"}

#: Sources of claims, with the words under which their verdicts are counted. An audit
#: checks whether the paper's printed numbers, or the files of its authors, support a
#: sentence of its text. It reproduces nothing, so it is counted separately.
CLAIM_SOURCES = {
    "paper": "of the {papers}",
    "other data": "of the {papers}, tested on other data",
    "audit": "of the {papers}, checked against printed numbers or files of the authors",
    "ours": "of our own",
}

#: Quantities other than the metrics, with their descriptions. Seconds and speed-up are
#: medians over the splits, all others means.
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
#: Quantities of analyses that are shares, in addition to the metrics.
SHARES = ("auc_target", "clean", "authors", "authors_last")
#: Quantities of analyses that are differences of shares.
SHARE_DIFFERENCES = (
    "gain",
    "gain_named",
    "gain_over_stl",
    "gain_over_one_kernel",
    "largest_gain",
    "leak",
    "excess",
)
#: Quantity of a group of data sets.
AVERAGE_RANK = "average_rank"
#: Label of the group of data sets if there is only one.
ALL_DATA = "all data sets"
#: Unit of a paired test on the test scores themselves, which needs no quantity.
PREDICTION = "prediction"
#: Quantities whose number is the median over the splits.
MEDIAN_QUANTITIES = ("seconds", PARALLEL, "seconds_predict", "speedup")


# ---------------------------------------------------------------------- values


def distinct(value: list[Any]) -> list[Any]:
    """Return a list without duplicates that is not empty; raise ValueError
    otherwise.
    """
    if not value:
        raise ValueError("must not be empty")
    if len({repr(v) for v in value}) != len(value):
        raise ValueError("must not hold the same value twice")
    return value


def _as_names(value: object) -> Any:
    """Return a list of names; a single name becomes a list of one, None an empty
    list.
    """
    if value is None or isinstance(value, str):
        return as_list(value)
    return value


def _one_or_list(names: list[str]) -> str | list[str]:
    """Return the name in a list of one, and other lists unchanged."""
    if len(names) == 1:
        return names[0]
    return names


@dataclass(frozen=True)
class Context:
    """Names that an experiment may use, against which its models are validated.

    Attributes
    ----------
    names : mapping of str to collection of str
        Valid names of each kind, such as ``method``.
    params : mapping of str to collection of str
        Parameters that the methods with a label set.
    has_ranks : bool
        Whether the methods are ranked over the data sets.
    axis : str or None
        Name of the axis of a sweep, which names of data sets may be followed by.
    """

    names: Mapping[str, Collection[str]]
    params: Mapping[str, Collection[str]]
    has_ranks: bool
    axis: str | None


def name_hint(name: str, names: Collection[str], kind: str) -> str:
    """Return the remedy for an unknown name."""
    near = suggest(name, names)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    if names:
        return f"known: {', '.join(sorted(names))}"
    return f"there is no {kind}"


def known(kind: str) -> AfterValidator:
    """Return a validator of texts that must name something of a kind.

    It only acts in a validation with a `Context`.
    """

    def check(name: str, info: ValidationInfo) -> str:
        context = info.context
        if not isinstance(context, Context):
            return name
        base_name = name
        if kind == DATASET:
            # Ranks are about groups of data sets.
            ranks = {info.data.get("kind"), info.data.get("quantity")}
            if ranks & {"rejections", AVERAGE_RANK}:
                return name
            # A name may be followed by the value of the axis of a sweep.
            base_name = name.rpartition(f" ({context.axis} ")[0] or name
        names = context.names[kind]
        if base_name in names:
            return name
        raise PydanticCustomError(
            "unknown_name",
            "{message}",
            {
                "message": f"unknown {kind} {base_name!r}",
                "hint": name_hint(base_name, names, kind),
            },
        )

    return AfterValidator(check)


Values = Annotated[list[Any], AfterValidator(distinct)]
Text = TypeVar("Text", bound=str)
#: Names; a single name is a list of one.
NamesOf = Annotated[
    list[Text],
    BeforeValidator(_as_names),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    ),
]
Names = NamesOf[str]
#: Names of which a resolved experiment shows a list of one without the list.
ShortNamesOf = Annotated[NamesOf[Text], PlainSerializer(_one_or_list)]
Short = ShortNamesOf[str]
#: Kind of the names of what claims and published numbers are about.
DATASET = "data set of this experiment"
MethodLabel = Annotated[str, known("method")]
DatasetName = Annotated[str, known(DATASET)]
ProfileName = Annotated[str, known("profile")]
Quantity = Annotated[str, known("quantity")]
OwnMetric = Annotated[str, known("metric of this experiment")]
MetricName = Annotated[str, known("metric")]
#: Numbers for computations; booleans are refused.
Number = Annotated[float | int, Field(ge=-1e150, le=1e150)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=PLANNED)]


# ---------------------------------------------------------------------- claims

#: A number is "about" another one if it lies within this factor of it.
ABOUT = 2.0
#: Orders of magnitude are printed in steps of this size.
ORDER_STEP = 0.5
#: Kind of check -> required fields and optional ones, besides `kind`. A check that may
#: have bounds needs at least one of them.
CHECKS = {
    "ratio": (
        "quantity of over",
        "dataset task effect drift bound stopped at_least at_most about orders",
    ),
    "difference": (
        "quantity of over",
        "dataset task effect drift bound stopped at_least at_most",
    ),
    "value": (
        "quantity of",
        "dataset task effect interval drift bound stopped at_least at_most about orders",
    ),
    "paired": ("quantity of over", "dataset unit test ties at_least at_most"),
    "order": ("quantity methods", "dataset task direction effect"),
    "rejections": ("control", "over dataset at_least at_most"),
}
REFERENCE_SOURCES = ("paper", "stored")
PAPER_SOURCE = REFERENCE_SOURCES[0]


class Stopped(StrictModel):
    """Condition under which a run counts as stopped before its end.

    Either its `quantity` is at least its parameter `at_least`, or it is below the
    quantity of the method `below` on the same data.
    """

    quantity: OwnMetric
    at_least: str | None = None
    below: MethodLabel | None = None

    @model_validator(mode="after")
    def _one_limit(self) -> Stopped:
        if (self.at_least is None) == (self.below is None):
            raise ValueError(
                "stopped needs one of 'at_least' (a parameter) and 'below' (a method)"
            )
        return self


class Check(StrictModel):
    """Comparison that decides a claim; `CHECKS` has the fields of each kind."""

    kind: Literal["ratio", "difference", "value", "paired", "order", "rejections"]
    quantity: Quantity | None = None
    of: ShortNamesOf[MethodLabel] = []
    over: ShortNamesOf[MethodLabel] = []
    methods: ShortNamesOf[MethodLabel] = []
    control: MethodLabel | None = None
    dataset: ShortNamesOf[DatasetName] = []
    task: Short = []
    unit: Literal["trial", "task", "prediction"] = "trial"
    test: Literal["wilcoxon", "t", "corrected_t"] = "wilcoxon"
    direction: Literal["increasing", "decreasing"] = "increasing"
    bound: Literal["lower", "upper"] | None = Field(
        default=None,
        description="Whether the computed number is a bound of the true one.",
    )
    stopped: Stopped | None = Field(
        default=None,
        description="Condition under which `bound` applies. Without `bound`, the number of a "
        "stopped run decides nothing.",
    )
    effect: NotNegative | None = Field(
        default=None,
        description="Smallest difference that counts. Default: two standard errors, with "
        "Student's factor and the correction for overlapping training rows; for ratios "
        "of seconds over fewer than three splits 0.3, on the natural logarithm.",
    )
    interval: Names = Field(
        default=[],
        description="Quantities that are the lower and the upper end of the interval of "
        "the number. The claim is undecided if the interval contains a claimed bound.",
    )
    drift: NotNegative | None = Field(
        default=None,
        description="Measured distance by which the number of a fit that did not converge can "
        "still move. Only a comparison less than ten times as far from its bound is "
        "undecided for that reason.",
    )
    ties: NotNegative = Field(
        default=0.0, description="Difference up to which two values are equal."
    )
    at_least: Number | None = Field(
        default=None, description="Claimed lower bound of the number."
    )
    at_most: Number | None = Field(
        default=None, description="Claimed upper bound of the number."
    )
    about: Annotated[Number, Field(ge=0)] | None = Field(
        default=None,
        description="Claimed size of the number, which holds within a factor of 2.",
    )
    orders: Number | None = Field(
        default=None,
        description="Claimed size of the number in orders of magnitude, rounded as printed: "
        "3 is 2.5 to 3.5, and 2.5 is 2.25 to 2.75.",
    )

    @field_validator("kind", "quantity")
    @classmethod
    def _has_ranks(cls, value: str | None, info: ValidationInfo) -> str | None:
        is_ranked = value in ("rejections", AVERAGE_RANK)
        context = info.context
        if is_ranked and isinstance(context, Context) and not context.has_ranks:
            raise ValueError("ranks need the section 'statistics'")
        return value

    @field_validator("stopped")
    @classmethod
    def _sets_limit(
        cls, stopped: Stopped | None, info: ValidationInfo
    ) -> Stopped | None:
        context = info.context
        if isinstance(context, Context) and stopped and stopped.at_least:
            for label in [*info.data.get("of", ()), *info.data.get("over", ())]:
                if stopped.at_least not in context.params[label]:
                    raise ValueError(
                        f"method {label!r} does not set the parameter "
                        f"{stopped.at_least!r}"
                    )
        return stopped

    @model_validator(mode="after")
    def _fields_of_kind(self) -> Check:
        required, optional = (names.split() for names in CHECKS[self.kind])
        present = set()
        for name in self.model_fields_set:
            if name != "kind" and getattr(self, name) not in (None, []):
                present.add(name)
        on_predictions = self.unit == PREDICTION
        missing = [name for name in required if name not in present]
        if on_predictions and "quantity" in missing:
            missing.remove("quantity")
        if missing:
            names = ", ".join(map(repr, missing))
            raise ValueError(f"a {self.kind} check needs {names}")
        foreign = sorted(present.difference(required, optional))
        if foreign:
            names = ", ".join(["kind", *required, *optional])
            raise ValueError(
                f"a {self.kind} check has no {foreign[0]!r}; it may have: {names}"
            )
        sizes = {"about", "orders"} & present
        bounds = {"at_least", "at_most", "about", "orders"}.intersection(optional)
        if bounds and not bounds & present:
            names = " or ".join(repr(name) for name in optional if name in bounds)
            raise ValueError(f"a {self.kind} check needs {names}")
        if len(sizes) > 1 or (sizes and present & {"at_least", "at_most"}):
            raise ValueError("a check has one of 'about', 'orders' and bounds")
        if self.bounds[0] > self.bounds[1]:
            raise ValueError(
                f"no number is at least {self.at_least:g} and at most {self.at_most:g}"
            )
        if self.interval and len(self.interval) != 2:
            raise ValueError("'interval' needs the quantities of its two ends")
        if on_predictions and self.test == "corrected_t":
            raise ValueError(
                "predictions are tested split by split: corrected_t needs several splits"
            )
        if self.kind == "order" and len(self.methods) < 2:
            raise ValueError("an order check needs at least two methods")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """Claimed lower and upper bound, infinite where nothing is claimed."""
        if self.about is not None:
            return self.about / ABOUT, self.about * ABOUT
        if self.orders is not None:
            half_step = ORDER_STEP if self.orders % 1 == 0 else ORDER_STEP / 2
            return 10 ** (self.orders - half_step), 10 ** (self.orders + half_step)
        low = -math.inf
        high = math.inf
        if self.at_least is not None:
            low = self.at_least
        if self.at_most is not None:
            high = self.at_most
        return low, high

    @property
    def is_size(self) -> bool:
        """Whether a size is claimed, whose bounds are those of its rounding."""
        return self.about is not None or self.orders is not None

    @property
    def ranked(self) -> bool:
        """Whether the check is about ranks over data sets."""
        return self.kind == "rejections" or self.quantity == AVERAGE_RANK

    @property
    def needs_splits(self) -> bool:
        """Whether the standard error over the splits decides."""
        is_average = self.kind in ("difference", "ratio", "order")
        is_median = self.quantity in MEDIAN_QUANTITIES
        return is_average and not is_median and not self.ranked and self.effect is None


class Expectation(StrictModel):
    """Expected verdict on a claim.

    The field `from` is the profile of the run that had it, `set` the day.
    """

    verdict: Annotated[
        str,
        # A label stands for its value.
        AfterValidator(lambda word: VERDICT_WORDS.get(word, word)),
        known("verdict"),
    ]
    set: Annotated[
        str, BeforeValidator(lambda value: str(date.fromisoformat(str(value))))
    ]
    from_: str = Field(alias="from")


class Claim(StrictModel):
    """Statement with the checks that decide it."""

    id: str
    text: str
    source: Literal["paper", "other data", "audit", "ours"] = Field(
        default="paper",
        description="Statement of the paper, tested on its data or on other data; audit of "
        "printed numbers or of the authors' files; or statement of ours. They are "
        "counted separately.",
    )
    where: str | None = None
    expect: Expectation | None = None
    not_run: str | None = Field(
        default=None,
        description="Reason why no comparison was made, although it could be.",
    )
    not_public: str | None = Field(
        default=None,
        description="Data or programs that the checks need, and that are not public or not "
        "at hand. The checks count where a run has them.",
    )
    not_testable: str | None = Field(
        default=None,
        description="Reason why no run can test the statement. Its checks do not count.",
    )
    arithmetic: str | None = Field(
        default=None,
        description="Calculation from which the statement follows. It needs no checks.",
    )
    all: bool = Field(
        default=False,
        description="Whether the statement says 'all', 'consistently' or 'best': a single "
        "comparison that fails refutes it, and one that is undecided or was not "
        "made leaves it undecided.",
    )
    usually: bool = Field(
        default=False,
        description="Whether the statement says 'usually' or 'tends to': it holds if more "
        "than half of its comparisons do.",
    )
    checks: list[Check] = []

    @property
    def without_test(self) -> tuple[Verdict, str] | None:
        """Verdict of a claim without a comparison, with its reason."""
        reasons = {
            Verdict.NOT_TESTABLE: self.not_testable,
            Verdict.ARITHMETIC: self.arithmetic,
            Verdict.NOT_PUBLIC: self.not_public,
            Verdict.UNTESTED: self.not_run,
        }
        for verdict, reason in reasons.items():
            if reason:
                return verdict, reason
        return None

    @model_validator(mode="after")
    def _is_consistent(self) -> Claim:
        if self.all and self.usually:
            raise ValueError("a claim has either 'all' or 'usually'")
        if not self.checks and self.without_test is None:
            raise ValueError("a claim needs 'checks' or 'not_testable'")
        # The bounds of all checks on one number.
        bounds: dict[str, tuple[float, float]] = {}
        no_bounds = dict.fromkeys(("at_least", "at_most", "about", "orders"))
        for check in self.checks:
            number = repr(check.model_copy(update=no_bounds))
            low, high = bounds.get(number, (-math.inf, math.inf))
            low = max(low, check.bounds[0])
            high = min(high, check.bounds[1])
            if low > high:
                raise ValueError(
                    f"two checks exclude each other: one number would be at least {low:g} "
                    f"and at most {high:g}"
                )
            bounds[number] = (low, high)
        return self


# ---------------------------------------------------------------------- other sections


class Paper(StrictModel):
    """Source of the published numbers."""

    cite: str
    artefact: str
    doi: str | None = None
    url: str | None = None


class TimingSpec(StrictModel):
    """Measurement of seconds.

    An untimed first fit is followed by `repeats` timed ones, of which the median
    counts, with a fixed number of BLAS threads.
    """

    repeats: Count = 1
    threads: Count = 1
    warmup: bool = True
    baseline: MethodLabel | None = None


class Limits(StrictModel):
    """Limit of the elapsed seconds of a fit, and of a fold of a search."""

    seconds: Positive


class Sweep(StrictModel):
    """Axis of a sweep: the experiment is repeated at each of its values.

    Exactly one of `split`, `option` and `params` says what varies.
    """

    name: Annotated[str, Field(min_length=1, description="Label of the axis.")]
    split: Literal["train"] | None = Field(
        default=None, description="Field of the split that varies."
    )
    option: str | None = Field(
        default=None, description="Option of the data sets that varies."
    )
    params: Annotated[Names, AfterValidator(distinct)] | None = Field(
        default=None,
        description="Parameters that vary, for example lam and base__lam, in the methods that "
        "have them. Other methods are unchanged.",
    )
    values: Values
    scale: Literal["linear", "log"] = Field(
        default="linear", description="Scale of the axis of the figure."
    )
    quantities: list[Quantity] = Field(
        default=[],
        description="Quantities of the figure. Default: the metrics, and seconds if they are "
        "measured.",
    )
    marks: dict[str, float | Literal["1/sqrt(tasks)"]] = Field(
        default={}, description="Lines across the axis of the figure: text -> value."
    )
    leave_out: dict[str, Values] = Field(
        default={}, description="Data set -> values at which it is not computed."
    )

    @model_validator(mode="after")
    def _one_axis(self) -> Sweep:
        axes = {"split": self.split, "option": self.option, "params": self.params}
        present = [name for name, value in axes.items() if value is not None]
        if len(present) != 1:
            names = ", ".join(present) or "none"
            raise ValueError(
                f"a sweep needs one of split, option and params, not {names}"
            )
        numbers = all(map(is_json_number, self.values))
        if self.split and not (numbers and all(0 < v < 1 for v in self.values)):
            raise ValueError("values of split.train must be between 0 and 1")
        if self.scale == "log" and not (numbers and all(v > 0 for v in self.values)):
            raise ValueError("a log scale needs positive numbers as values")
        return self


class TableLayout(StrictModel):
    """Layout of the table in the paper.

    Each value of an axis that is neither rows nor columns makes a separate table.
    """

    rows: Literal["dataset", "method", "quantity", "value", "task"] | None = Field(
        default=None, description="Axis of the rows."
    )
    columns: Literal["dataset", "method", "quantity", "value", "task"] | None = Field(
        default=None, description="Axis of the columns."
    )
    show: Names = Field(
        default=[],
        description="Quantities. Default: the metrics, and seconds if they are measured.",
    )
    percent: bool = Field(default=False, description="Whether scores are in percent.")
    foot: bool = Field(
        default=False, description="Whether the average ranks stand below."
    )


class Statistics(StrictModel):
    """Ranks of the methods over the data sets, by a metric.

    Friedman's test is followed by Holm's procedure against the method `control`.
    """

    metric: OwnMetric
    control: MethodLabel
    significance: Fraction = 0.05


class Tolerance(StrictModel):
    """Accepted distance of a number from a published one.

    For accuracies and AUCs, `error_rate` is a share of 1 minus the number.
    """

    quantity: str | None = None
    absolute: NotNegative | None = None
    error_rate: NotNegative | None = None
    relative: NotNegative | None = None
    sigmas: NotNegative | None = None


def rule_of(tolerances: Sequence[Tolerance], quantity: str) -> Tolerance:
    """Return the rule for the numbers of a quantity.

    It is the first rule for the quantity, else the first without a quantity, else an
    empty one.
    """
    for name in (quantity, None):
        for rule in tolerances:
            if rule.quantity == name:
                return rule
    return Tolerance()


class Reference(Tolerance):
    """Published number (`source: paper`) or stored number of ours (`source: stored`).

    It is the mean over all tasks, or the number of one task.
    """

    dataset: DatasetName
    method: MethodLabel
    quantity: Quantity
    task: str | None = None
    value: Annotated[float, Field(ge=-1e150, le=1e150)]
    std: Number | None = None
    n: Count | None = None
    decimals: Annotated[int, Field(ge=0, le=300)] | None = None
    profile: ShortNamesOf[ProfileName] = []
    source: Literal["paper", "stored"] | None = None


class PublishedCurve(StrictModel):
    """Published curve, or published values of a quantity, with its name."""

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
    """File of published curves."""

    curves: list[PublishedCurve]


class Main(StrictModel):
    """Rule that selects the main interpretation, which never depends on the claims.

    `of` are the methods whose published level decides; the paper's own are not among
    them.
    """

    rule: Literal["published level", "authors' code", "convention"]
    of: list[MethodLabel] = []

    @model_validator(mode="after")
    def _methods_of_level(self) -> Main:
        if (self.rule == "published level") != bool(self.of):
            raise ValueError(
                "the rule 'published level' needs 'of', the methods whose level decides; others have none"
            )
        return self
