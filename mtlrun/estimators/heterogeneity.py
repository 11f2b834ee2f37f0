"""Tests of differences between the tasks of a hierarchical model, with what they
assume.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mtlrun.solvers.hierarchical import inference
from mtlrun.solvers.hierarchical.fit import HierarchicalProblem, fit_covariance
from mtlrun.solvers.hierarchical.row_checks import RowChecks, noise_differs
from mtlrun.stats import holm

Array = np.ndarray

#: Default numbers of simulated tables of a bootstrap, and of draws of a score test.
BOOTSTRAP = 199
DRAWS = 999
#: Labels whose correlation has a smaller p-value are not tested: there is no correction.
MAX_CORRELATION_P = 0.01
#: With a larger correlation of neighboring rows, a level of each task and a slow drift
#: cannot be distinguished.
MAX_CORRELATION_OF_LEVELS = 0.9
#: Curves that an assumption names.
MAX_NAMED_CURVES = 3


@dataclass(frozen=True)
class HeterogeneityTest:
    """A test of the hypothesis that tasks do not differ in something.

    Attributes
    ----------
    tested : str
        "all", "slopes" or the name of a column.
    method : {"score", "f", "lrt", "bootstrap"}
    statistic, p_value : float
        The p-value of several columns tested one by one is adjusted by Holm; NaN where
        the rows do not suffice.
    assumes : str
        What the test assumes of rows, noise and effects, after checks of the rows.
    untestable : str
        Why there is no p-value, or why a large one says little, where the rows
        contradict what the test assumes.
    """

    tested: str
    method: str
    statistic: float
    p_value: float
    assumes: str = ""
    untestable: str = ""


@dataclass(frozen=True)
class CheckedRows:
    """The rows of a fitted model, as far as it has them, for tests.

    Attributes
    ----------
    problem : HierarchicalProblem
        With corrected rows.
    checks : RowChecks or None
        None where only sums of the rows are left.
    noise_differs : bool
        Whether the variance of the noise differs between tasks.
    """

    problem: HierarchicalProblem
    checks: RowChecks | None
    noise_differs: bool

    @classmethod
    def of(cls, problem: HierarchicalProblem, checks: RowChecks | None) -> CheckedRows:
        """Return rows for tests; sums of rows are checked for unequal noise only."""
        if checks is not None:
            return cls(problem, checks, checks.noise_differs)
        # The squares that the coefficients of each task leave.
        data = problem.data
        degrees = data.n.astype(float)
        for block in data.blocks:
            degrees[block.tasks] -= inference.is_row(block).sum(axis=1)
        return cls(problem, None, noise_differs(data.rest, degrees))

    def assumes(self, method: str, names: Callable[[Array], list[str]]) -> str:
        """Return what a test assumes.

        Parameters
        ----------
        method : str
        names : callable
            Returns the names of standardized columns.
        """
        noise = "equal noise"
        if self.noise_differs and method == "score":
            noise = "noise that differs between tasks"
        elif self.noise_differs:
            noise += " (it seems to differ)"
        if self.checks is None:
            return f"{noise}; unchecked: independent rows and linear effects"
        rows = rows_text(self.checks, names)
        return f"{rows}, {noise} and {effects_text(self.checks, names)}"

    def untestable(self, names: Callable[[Array], list[str]]) -> str:
        """Return why differences in level may stay unnoticed, or an empty text."""
        checks = self.checks
        if checks is None or checks.correlation <= MAX_CORRELATION_OF_LEVELS:
            return ""
        rows = rows_text(checks, names)
        return f"levels of the tasks cannot be distinguished from slow drift: {rows}"

    def test(
        self, columns: Array, untested: Array, how: str, draws: int | None, seed: int
    ) -> inference.SignificanceTest:
        """Run one test; NaN for columns that vary within too few tasks.

        Raises
        ------
        ValueError
            For "lrt" of several variances.
        """
        problem = self.problem
        if not problem.data.can_differ(problem.intercept)[columns].any():
            return inference.SignificanceTest(np.nan, np.nan)
        match how:
            case "score":
                return inference.score_test(
                    problem.data,
                    columns,
                    untested,
                    draws or DRAWS,
                    seed,
                    noise_differs=self.noise_differs,
                )
            case "f":
                return inference.f_test(problem.data, columns, untested)
            case "lrt" if len(columns) != 1:
                raise ValueError(
                    "method='lrt' tests one variance; for several use "
                    "method='bootstrap', 'score' or 'f'"
                )
            case "lrt":
                return inference.ratio_test(problem, columns, 0, seed)
        return inference.ratio_test(problem, columns, draws or BOOTSTRAP, seed)

    def test_each(
        self, columns: Array, how: str, draws: int | None, seed: int
    ) -> list[inference.SignificanceTest]:
        """Test columns one by one, while level and other slopes may differ.

        The p-values are not adjusted.
        """
        problem = self.problem
        if how == "lrt":
            return inference.ratio_tests(problem, columns)
        varying = problem.random
        if how == "score":
            # A slope that differs between tasks takes a row of each task from the test.
            large = fit_covariance(problem, "diagonal")
            is_differing = large.fit.value.Theta > 0
            differing = large.m.random[is_differing]
            level = np.arange(int(problem.intercept))
            varying = np.union1d(differing, level)
        outcomes = []
        for j in columns:
            tested = np.array([j])
            untested = np.setdiff1d(varying, j)
            outcome = self.test(tested, untested, how, draws, seed)
            outcomes.append(outcome)
        return outcomes


def assumptions_of_labels(
    checks: RowChecks | None, names: Callable[[Array], list[str]]
) -> tuple[str, str]:
    """Return what tests of logistic models assume, and why there is no test if so."""
    if checks is None:
        return "unchecked: independent rows and linear log-odds", ""
    rows = rows_text(checks, names)
    if checks.correlation_p < MAX_CORRELATION_P:
        return "independent rows", f"no test whether the tasks differ: {rows}"
    effects = effects_text(checks, names).replace("effects", "log-odds")
    return f"independent rows and {effects}", ""


def rows_text(checks: RowChecks, names: Callable[[Array], list[str]]) -> str:
    """Return what is assumed of neighboring rows of a task."""
    if checks.correlation == 0:
        return "independent rows"
    text = f"rows correlated with the next one by {checks.correlation:.2f}"
    if checks.along is not None:
        column = np.array([checks.along])
        [name] = names(column)
        text += f" along {name}"
    return text


def effects_text(checks: RowChecks, names: Callable[[Array], list[str]]) -> str:
    """Return what is assumed of the effects that tasks share."""
    if not checks.curves:
        return "linear effects"
    effects = []
    for columns in checks.curves:
        factors = names(np.array(columns))
        text = factors[0]
        if len(factors) > 1:
            text = f"the product of {' and '.join(factors)}"
        effects.append(text)
    text = ", ".join(effects[:MAX_NAMED_CURVES])
    if len(effects) > MAX_NAMED_CURVES:
        text += f" and {len(effects) - MAX_NAMED_CURVES} more"
    return f"common curves in {text}"


def adjusted(
    outcomes: Sequence[inference.SignificanceTest],
    names: Sequence[str],
    method: str,
    family: int,
    assumes: str,
    untestable: str = "",
) -> list[HeterogeneityTest]:
    """Return tests of single slopes, adjusted as if all of a family were tested and the
    others had shown nothing.
    """
    p_values = holm([outcome.p_value for outcome in outcomes], family).tolist()
    tests = []
    for name, outcome, p_value in zip(names, outcomes, p_values, strict=True):
        test = HeterogeneityTest(
            name, method, outcome.statistic, p_value, assumes, untestable
        )
        tests.append(test)
    return tests
