"""Methods ranked within blocks, with Friedman's and Nemenyi's tests (Demsar 2006)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mtlrun.stats import ControlTest, FriedmanTest, control_tests, friedman, rank_table

#: A test of fewer pairs or data sets cannot give a p-value worth printing.
MIN_BLOCKS = 2


@dataclass(frozen=True)
class Ranking:
    """Methods that are ranked within blocks: data sets, data sets at one value of a sweep, or splits of one data set.

    Attributes
    ----------
    label : str
        ``all data sets``, ``<axis> <value>``, ``3 data sets`` or ``5 splits of enron``.
    metric : str
    blocks : list of str
        Labels of the data sets that are ranked; numbers of the splits.
    methods : list of str
    values : list of list of float
        A row per block, a column per method.
    greater : bool
        Whether greater values are better.
    control : str or None
        Method that the others are compared with.
    significance : float
    left_out : list of str
        Why data sets or methods are not ranked.
    own : dict of str to str
        Data sets that do not have `metric` -> the first of their own metrics, by which they are ranked.
    """

    label: str
    metric: str
    blocks: list[str]
    methods: list[str]
    values: list[list[float]]
    greater: bool
    control: str | None = None
    significance: float = 0.05
    left_out: list[str] = field(default_factory=list)
    own: dict[str, str] = field(default_factory=dict)

    @cached_property
    def ranks(self) -> np.ndarray:
        """Ranks of shape (blocks, methods): 1 is best, ties share the mean of their ranks."""
        return rank_table(self.values, greater_is_better=self.greater)

    @cached_property
    def average(self) -> dict[str, float]:
        """Average rank of every method."""
        return dict(zip(self.methods, map(float, self.ranks.mean(axis=0)), strict=True))

    @property
    def standard_error(self) -> float:
        """Standard error of a difference of two average ranks: sqrt(k (k + 1) / (6 N)) for k methods on N blocks."""
        k = len(self.methods)
        return math.sqrt(k * (k + 1) / (6 * len(self.blocks))) if self.blocks else 0.0

    @property
    def friedman(self) -> FriedmanTest | None:
        """Friedman's test, None for a single block."""
        return friedman(self.values) if len(self.values) >= MIN_BLOCKS else None

    @cached_property
    def tests(self) -> list[tuple[str, ControlTest]]:
        """Every method against the control, smallest p-value first; empty without a control."""
        if self.control not in self.methods:
            return []
        at = self.methods.index(self.control)
        found = control_tests(
            self.values, at, level=self.significance, greater_is_better=self.greater
        )
        return [(self.methods[test.column], test) for test in found]

    @property
    def worse(self) -> list[str]:
        """The methods that rank significantly worse than the control."""
        return [name for name, test in self.tests if test.rejected and test.z > 0]
