"""Table 1 of the FETR paper: does "consistently lower" follow from the printed
errors?
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

from scipy.stats import ttest_ind_from_stats

from mtlrun.catalog.analysis import (
    AnalysisResult,
    Printed,
    analysis,
    of_data_set,
    read_printed,
)
from mtlrun.data.dataset import Dataset
from mtlrun.papers.fetr.curves import ESTIMATORS, PRINTED_ERRORS
from mtlrun.utils.io import published_path

#: Table 1 as printed, and the least errors of any linear model on the test rows of
#: SARCOS, relative to the folder of the experiments.
PRINTED = (PRINTED_ERRORS, "fetr/bound.csv")
#: The method of the paper.
OURS = "FETR"
#: The other linear methods.
LINEAR = ("STL", "MTFL", "MTRL", "MTFRL")
#: Number of folds on School.
FOLDS = 10
#: Methods whose printed errors on the large torques, of joints 1 to 4, are nearest to
#: FETR's.
CLOSE = ("MTRL", "MTFRL")
#: Relative distance from the least error of any linear model up to which printed errors
#: cannot be distinguished.
NEAR = 0.005


@analysis(
    {
        "comparisons": "printed pairs of FETR and a linear method",
        "lower": "pairs in which FETR is lower",
        "equal": "pairs that are equal to the printed digits",
        "higher": "pairs in which FETR is higher",
        "mtn_not_lower": "pairs of MTN and a linear method or STN in which MTN is not "
        "lower",
        "mtn_fetr_not_lower": "joints on which MTN-FETR is not lower than MTN",
        "mtn_smallest_gain": "smallest relative reduction by MTN against a linear "
        "method or STN",
        "near_bound": "pairs on SARCOS in which both are within 0.5% of the least "
        "error of any linear model",
        "below_bound": "printed errors of linear methods on SARCOS below that bound by "
        "more than rounding",
        "smallest_gain": "smallest relative reduction by FETR against MTRL or MTFRL on "
        "joints 1 to 4",
        "school_largest_p": "largest p-value of Welch's test of FETR against a linear "
        "method on School",
    },
    name="fetr-audit",
    labels={
        "lower": "pairs in which FETR is lower",
        "equal": "equal pairs",
        "higher": "pairs in which FETR is higher",
        "mtn_not_lower": "pairs in which MTN is not lower",
        "mtn_fetr_not_lower": "joints on which MTN-FETR is not lower",
        "smallest_gain": "smallest relative reduction by FETR",
        "school_largest_p": "largest p-value on School",
    },
    needs_data=False,
)
def audit_table(
    dataset: Dataset, *, seed: int, published: Sequence[str] = PRINTED
) -> AnalysisResult:
    """Compare the printed errors of all methods cell by cell.

    Least squares on the test rows themselves bounds the error of any linear model on
    SARCOS from below. Methods within 0.5% of this bound have found the same model up to
    noise, and nothing follows from their order.

    Parameters
    ----------
    dataset : None
    seed : int
        Without effect.
    published : (str, str)
        Files of the printed table and of the bound, relative to the folder of the
        experiments.
    """
    table_name, bound_name = published
    table = read_printed(published_path(table_name), f"configs/{table_name}")
    bounds = read_printed(published_path(bound_name), f"configs/{bound_name}")
    audit = _TableAudit(table, bounds)
    tests = _school_tests(table)
    values = {**audit.quantities(), "school_largest_p": max(tests.values())}
    title = f"{OURS} against the linear methods, as printed"
    p_values = ", ".join(f"{method} {p:.2g}" for method, p in tests.items())
    return AnalysisResult(
        {name: float(value) for name, value in values.items()},
        lines=[
            *audit.order_lines(),
            "School, Welch's test on the printed means and deviations of "
            f"{FOLDS} folds, p-values: {p_values}. (The folds are the same for all "
            "methods; a paired test would need their numbers, which are not printed.)",
            "SARCOS has one test set: the table says nothing about the variation of "
            "its numbers.",
            audit.bound_line(),
        ],
        tables={title: audit.rows()},
    )


class _Pair(NamedTuple):
    """Printed errors of a method and of another one, on the same data.

    Attributes
    ----------
    method : str
        The other method.
    cell : str
        Name of the data.
    ours, other : float
        Errors of the method and of the other one; lower is better.
    """

    method: str
    cell: str
    ours: float
    other: float

    @property
    def order(self) -> str:
        """How our error compares with the other one: lower, equal or higher."""
        if self.ours < self.other:
            return "lower"
        if self.ours == self.other:
            return "equal"
        return "higher"

    @property
    def gain(self) -> float:
        """Part of the other error by which ours is lower."""
        return 1 - self.ours / self.other


class _TableAudit:
    """All comparisons of two printed errors on the same data.

    Parameters
    ----------
    table : list of Printed
        The printed table.
    bounds : list of Printed
        Least error of any linear model for each joint.
    """

    def __init__(self, table: list[Printed], bounds: list[Printed]) -> None:
        self.table = table
        #: Task of SARCOS -> its name in texts.
        self.cells: dict[str, str] = {}
        #: Data -> least error of any linear model.
        self.least: dict[str, float] = {}
        for joint, number in enumerate(bounds, 1):
            cell = f"SARCOS, joint {joint}"
            self.cells[number.task] = cell
            self.least[cell] = float(number.value)
        #: Method -> data -> printed error.
        self.errors: dict[str, dict[str, float]] = {}
        for number in table:
            cell = self.cells.get(number.task, "School")
            self.errors.setdefault(number.head, {})[cell] = float(number.value)
        self.pairs = self._pairs_of(OURS, LINEAR, self.errors[OURS])
        #: Pairs of which both errors are close to the least one.
        self.near = [pair for pair in self.pairs if self._is_near(pair)]

    def _pairs_of(
        self, method: str, others: Iterable[str], cells: Iterable[str]
    ) -> list[_Pair]:
        """Return the pairs of a method with some others on some data."""
        errors = self.errors[method]
        return [
            _Pair(other, cell, errors[cell], self.errors[other][cell])
            for other, cell in product(others, cells)
        ]

    def _is_near(self, pair: _Pair) -> bool:
        if pair.cell not in self.least:
            return False
        limit = (1 + NEAR) * self.least[pair.cell]
        return max(pair.ours, pair.other) <= limit

    def _count(self, order: str) -> int:
        return sum(pair.order == order for pair in self.pairs)

    def quantities(self) -> dict[str, float]:
        """Return the counts and gains of the comparisons, by the name of the
        quantity.
        """
        networks = self._pairs_of("MTN", (*LINEAR, OURS, "STN"), self.least)
        related_networks = self._pairs_of("MTN-FETR", ("MTN",), self.least)
        first_joints = list(self.least)[:4]
        close_gains = []
        for pair in self.pairs:
            if pair.method in CLOSE and pair.cell in first_joints:
                close_gains.append(pair.gain)
        # Errors of linear methods that are too low even if they are rounded down.
        n_below_bound = 0
        for number in self.table:
            cell = self.cells.get(number.task)
            largest = float(number.value) + 0.5 * 10.0**-number.decimals
            if number.head in ESTIMATORS and cell in self.least:
                n_below_bound += largest < self.least[cell]
        return {
            "comparisons": len(self.pairs),
            "lower": self._count("lower"),
            "equal": self._count("equal"),
            "higher": self._count("higher"),
            "mtn_not_lower": _count_not_lower(networks),
            "mtn_fetr_not_lower": _count_not_lower(related_networks),
            "mtn_smallest_gain": min(pair.gain for pair in networks),
            "near_bound": len(self.near),
            "below_bound": n_below_bound,
            "smallest_gain": min(close_gains),
        }

    def rows(self) -> dict[str, list[Any]]:
        """Return the table of all comparisons for the report."""
        columns = [
            "method",
            "cell",
            f"error of {OURS}",
            "error of the method",
            f"{OURS} is",
            "least of any linear model",
        ]
        rows = [[*pair, pair.order, self.least.get(pair.cell)] for pair in self.pairs]
        return {"columns": columns, "rows": rows}

    def order_lines(self) -> list[str]:
        """Return the sentences on whether "consistently lower" follows."""
        n_lower = self._count("lower")
        follows = "follows" if n_lower == len(self.pairs) else "does not follow"
        lines = [
            f"{OURS} is lower in {n_lower} of {len(self.pairs)} printed comparisons, "
            f"equal in {self._count('equal')}, higher in {self._count('higher')}: "
            f'"consistently lower" {follows}.'
        ]
        higher = []
        equal = []
        for pair in self.pairs:
            if pair.order == "higher":
                errors = f"{pair.ours:g} against {pair.other:g}"
                higher.append(f"{pair.cell}: {errors} of {pair.method}")
            elif pair.order == "equal":
                cell = pair.cell.removeprefix("SARCOS, ")
                equal.append(f"{cell} with {pair.method}")
        if higher:
            lines.append(f"Higher: {'; '.join(higher)}.")
        if equal:
            lines.append(f"Equal to the printed digits: {'; '.join(equal)}.")
        return lines

    def bound_line(self) -> str:
        """Return the sentence on pairs close to the least error of any linear model."""
        joints: dict[str, list[str]] = {}
        for pair in self.near:
            joint = pair.cell.removeprefix("SARCOS, joint ")
            joints.setdefault(pair.method, []).append(joint)
        methods = "; ".join(
            f"{method} on joints {', '.join(names)}" for method, names in joints.items()
        )
        return (
            f"{len(self.near)} pairs lie within {NEAR:.1%} of the least error that any "
            "linear model can have on the test rows of SARCOS, least squares on these "
            f"rows: {OURS} and {methods or 'no other method'}. The order of such a pair "
            "is undecided: both methods have found the same model up to noise."
        )


def _count_not_lower(pairs: Sequence[_Pair]) -> int:
    return sum(pair.ours >= pair.other for pair in pairs)


def _school_tests(table: list[Printed]) -> dict[str, float]:
    """Return the p-values of Welch's test of FETR against each other linear method.

    The test needs the printed means and deviations only.
    """
    school = {}
    for number in of_data_set(table, "school"):
        school[number.head] = (float(number.value), float(number.std or 0), FOLDS)
    p_values = {}
    for method in LINEAR:
        test = ttest_ind_from_stats(*school[OURS], *school[method], equal_var=False)
        p_values[method] = float(test.pvalue)
    return p_values
