"""What a claim's check, a reference entry and a tolerance may say, and the words of verdicts. Standard library only.

The pydantic models of experiment files are built on these tables, and `mtlrun.report.claims` evaluates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from mtlrun.utils.io import as_list


class Verdict(StrEnum):
    """The words of verdicts, on claims and then on reference numbers, each with its tone.

    Attributes
    ----------
    tone : {"good", "part", "bad", "none"}
        Class of the word in HTML; `STYLES` has its colour on a terminal.
    said : str
        How it is said to readers.
    """

    tone: str
    said: str

    def __new__(cls, word: str, tone: str, said: str = "") -> Verdict:
        """Return a word with its tone, and as it is said."""
        verdict = str.__new__(cls, word)
        verdict._value_, verdict.tone, verdict.said = word, tone, said or word
        return verdict

    CONFIRMED = "confirmed", "good", "holds"
    MOSTLY = "mostly", "good", "mostly holds"
    PARTLY = "partly", "part", "partly holds"
    NOT_CONFIRMED = "not confirmed", "bad", "does not hold"
    DEPENDS = "depends on the reading", "part", "depends on the interpretation"
    UNDECIDED = "undecided", "none"
    NOT_TESTABLE = "not testable here", "none", "not tested here"
    WITHIN = "within", "good", "within tolerance"
    OUTSIDE = "outside", "bad", "out of tolerance"
    NOT_RUN = "not run", "none"


def said(verdict: str) -> str:
    """Return a verdict as readers are told it; another word as it is."""
    return next((one.said for one in Verdict if one == verdict), verdict)


#: Verdicts on claims, in the order in which they are counted; those under which a claim holds.
VERDICTS = (
    *(Verdict.CONFIRMED, Verdict.MOSTLY, Verdict.PARTLY, Verdict.NOT_CONFIRMED, Verdict.DEPENDS, Verdict.UNDECIDED),
    Verdict.NOT_TESTABLE,
)
HOLDING = (Verdict.CONFIRMED, Verdict.MOSTLY)
#: Verdicts on reference numbers.
NUMBERS = (Verdict.WITHIN, Verdict.OUTSIDE, Verdict.NOT_RUN)
#: Colours of tones on a terminal.
STYLES = {"good": "green", "part": "yellow", "bad": "red", "none": "dim"}

#: Whose claim it is, and under what its verdict is counted: the paper's, on its data or on others, or ours.
CLAIM_SOURCES = {
    "paper": "of the {papers}",
    "other data": "of the {papers}, tested on other data",
    "ours": "of our own",
}

PARALLEL = "seconds_parallel"
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
}
_CAPITALS = ("auc", "rmse", "mse")
#: Names of quantities in tables and figures, where the name with blanks is not good enough.
_SPOKEN = {
    **{name: name.upper() for name in _CAPITALS},
    "nmse": "normalised MSE",
    "r2": "R²",
    "nmse_all": "normalised MSE",
    "largest_n": "rows",
    "seconds": "seconds to fit",
    PARALLEL: "seconds to fit, one worker per block",
    "seconds_predict": "seconds to predict",
    "speedup": "times faster than the baseline",
    "n_iter": "iterations",
    "gap": "duality gap",
    "truth_error": "relative error of the coefficients",
    # quantities of measures
    "low": "lower end of the interval",
    "high": "upper end of the interval",
    "over_independent": "gain over separate models",
    "over_pooled": "gain over pooling",
    "over_linear": "gain over linear models without sharing",
    "helps": "verdict 'helps' (1) or not (0)",
    "x_density": "share of X not zero",
    "cardinality": "labels per row",
    "labelsets": "distinct rows of labels",
    "label_min": "positives of the rarest label",
    "label_max": "positives of the commonest label",
    "half_width": "half of the 95% interval",
    "distance": "distance from print, in half intervals",
    "lower": "pairs in which FETR is lower",
    "equal": "equal pairs",
    "higher": "pairs in which FETR is higher",
    "mtn_not_lower": "pairs in which MTN is not lower",
    "mtn_fetr_not_lower": "joints on which MTN-FETR is not lower",
    "final_excess": "excess over the best objective",
    "excess": "authors' accuracy minus clean",
    "clean": "accuracy, clean protocol",
    "authors": "accuracy, authors' protocol",
    "authors_last": "accuracy at its last iteration",
    "leak": "gain by choosing on test rows",
    "reproduced": "comparisons that come out as printed",
    "not_reproduced": "comparisons that do not come out",
    "claimed_rejections": "methods rejected, by the text",
    "printed_rejections": "methods rejected, by the printed p-values",
    "rejections": "methods rejected, recomputed",
    "findings": "printed numbers that do not follow",
    "friedman_p": "p of Friedman's test",
    "claimed_distance": "largest distance among the three tasks",
    "others_distance": "smallest distance to another task",
    "off_line": "distance of the sum from 1",
    "dcd_difference": "distance of DCD from the optimum",
    "kernel_difference": "distance of the kernel solver from the optimum",
    "function_difference": "distance from the optimum",
    "orders_at_one_time": "orders of magnitude at one time",
    "times_more_precise": "share of times at which DCD is more precise",
    "speed_up": "largest speed-up",
    "speed_up_rows": "largest speed-up at equal rows",
    "speed_up_all_rows": "speed-up with all rows",
    "times_paper": "seconds over those of DCD as printed",
    "times_block": "seconds over those of DCD by blocks",
    "exponent": "exponent of seconds in rows",
    "auc_target": "AUC of the task with few rows",
}


def spoken(quantity: str) -> str:
    """Return the name of a quantity in words: ``balanced accuracy``, ``AUC``."""
    if quantity in _SPOKEN:
        return _SPOKEN[quantity]
    return " ".join(word.upper() if word in _CAPITALS else word for word in quantity.split("_"))


#: Quantity of a group of data sets; the label of the group when there is one only.
AVERAGE_RANK, ALL_DATA = "average_rank", "all data sets"
#: Unit of a paired test whose pairs are the test scores themselves: it needs no quantity.
PREDICTION = "prediction"
MEDIAN_QUANTITIES = ("seconds", PARALLEL, "seconds_predict", "speedup")


#: What is claimed to be about a number is claimed to lie within this factor of it.
ABOUT = 2.0
#: Fields that a kind of check needs beside `kind`, and those that it may have; one with bounds needs one of them.
#: `about` is a size, which holds within a factor of `ABOUT`; `ties` is a difference up to which two values are equal.
CHECKS = {
    "ratio": ("quantity of over", "dataset task effect bound stopped at_least at_most about"),
    "difference": ("quantity of over", "dataset task effect bound stopped at_least at_most"),
    "value": ("quantity of", "dataset task effect bound stopped at_least at_most about"),
    "paired": ("quantity of over", "dataset unit test ties at_least at_most"),
    "order": ("quantity methods", "dataset task direction effect"),
    "rejections": ("control", "dataset at_least at_most"),
}
#: Fields with a closed list of values; the first one is the default, but for `bound`: the number found is a bound. With
#: `stopped` it is one only where a run was stopped: where its `quantity` is at least its parameter `at_least`, or below
#: that of the method `below` on the same data. A number of a stopped run that is no bound decides nothing.
CHOICES = {
    "unit": ("trial", "task", PREDICTION),
    "test": ("wilcoxon", "t", "corrected_t"),
    "direction": ("increasing", "decreasing"),
    "bound": ("lower", "upper"),
}
REFERENCE_SOURCES = ("paper", "stored")


def check_problems(check: Mapping[str, Any], metrics: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """List what is wrong with one check of a claim.

    Parameters
    ----------
    check : mapping
        As written in the experiment file.
    metrics : tuple of str
        Metrics of the experiment; with an empty tuple the quantity is not looked up.

    Returns
    -------
    list of (field, problem)
        Empty when the check can be evaluated.
    """
    kind = str(check.get("kind"))
    if kind not in CHECKS:
        return [("kind", f"unknown kind of check {kind!r}; known: {', '.join(CHECKS)}")]
    needed, may = (names.split() for names in CHECKS[kind])
    allowed = ("kind", *needed, *may)
    given = {name for name, value in check.items() if value is not None}
    lacking = [name for name in needed if name not in given]
    if check.get("unit") == PREDICTION:
        lacking = [name for name in lacking if name != "quantity"]
    problems = [(name, f"a {kind} check needs {name!r}") for name in lacking]
    problems += [
        (name, f"a {kind} check has no {name!r}; it may have: {', '.join(allowed)}")
        for name in sorted(given.difference(allowed))
    ]
    for name in ("effect", "ties", "about"):
        value = check.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
            problems.append((name, f"{name} must be a number of at least 0, not {value!r}"))
    bounds = [name for name in ("at_least", "at_most", "about") if name in allowed]
    if bounds and not given.intersection(bounds):
        problems.append(("kind", f"a {kind} check needs {' or '.join(map(repr, bounds))}"))
    if "about" in given and given & {"at_least", "at_most"}:
        problems.append(("about", "a check has either 'about' or bounds"))
    if "stopped" in given:
        problems += _stopped_problems(check["stopped"], metrics)
    for name, choices in CHOICES.items():
        if name in given and check[name] not in choices:
            problems.append((name, f"{name} must be one of {', '.join(choices)}, not {check[name]!r}"))
    if check.get("unit") == PREDICTION and check.get("test") == "corrected_t":
        problems.append(("test", "predictions are tested split by split: corrected_t needs several splits"))
    if kind == "order" and len(as_list(check.get("methods"))) < 2:
        problems.append(("methods", "an order check needs at least two methods"))
    if metrics and "quantity" in given and check["quantity"] not in (*metrics, *QUANTITIES):
        known = ", ".join((*metrics, *QUANTITIES))
        problems.append(("quantity", f"unknown quantity {check['quantity']!r}; known: {known}"))
    return problems


def _stopped_problems(stopped: Any, metrics: tuple[str, ...]) -> list[tuple[str, str]]:
    if not isinstance(stopped, Mapping) or set(stopped) not in ({"quantity", "at_least"}, {"quantity", "below"}):
        return [("stopped", "stopped needs 'quantity' and one of 'at_least' (a parameter) and 'below' (a method)")]
    if metrics and stopped["quantity"] not in metrics:
        return [("stopped", f"unknown quantity {stopped['quantity']!r}; known: {', '.join(metrics)}")]
    return []
