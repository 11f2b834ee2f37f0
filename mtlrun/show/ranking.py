"""Ranks of methods within blocks, with the tests of Friedman and Nemenyi (Demsar 2006).

A block is a data set, a data set at one value of a sweep, or a split of one data set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mtlrun.stats import ControlTest, FriedmanTest, control_tests, friedman, rank_table

#: With fewer blocks a test has no useful p-value.
MIN_BLOCKS = 2


@dataclass(frozen=True)
class Ranking:
    """Methods ranked within blocks.

    Attributes
    ----------
    label : str
        ``all data sets``, ``<axis> <value>``, ``3 data sets`` or ``5 splits of enron``.
    metric : str
    blocks : list of str
        Labels of the data sets, or numbers of the splits.
    methods : list of str
    values : list of list of float
        Values of the metric, one row per block and one column per method.
    greater : bool
        Whether greater values are better.
    control : str or None
        Method that the others are compared with.
    significance : float
        Level of the tests.
    left_out : list of str
        Reasons why data sets or methods are not ranked.
    own : dict of str to str
        Data sets that lack `metric`, with the metric by which they are ranked instead.
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
        """Ranks of shape (n_blocks, n_methods); 1 is best, ties share their mean
        rank.
        """
        return rank_table(self.values, greater_is_better=self.greater)

    @cached_property
    def average(self) -> dict[str, float]:
        """Average rank of each method; lower is better."""
        mean_ranks = self.ranks.mean(axis=0)
        return dict(zip(self.methods, map(float, mean_ranks), strict=True))

    @property
    def standard_error(self) -> float:
        """Standard error of the difference of two average ranks; 0 without blocks.

        For k methods on N blocks it is sqrt(k (k + 1) / (6 N)).
        """
        if not self.blocks:
            return 0.0
        k = len(self.methods)
        return math.sqrt(k * (k + 1) / (6 * len(self.blocks)))

    @property
    def friedman(self) -> FriedmanTest | None:
        """Friedman's test; None for a single block."""
        if len(self.values) < MIN_BLOCKS:
            return None
        return friedman(self.values)

    @cached_property
    def tests(self) -> list[tuple[str, ControlTest]]:
        """Tests of each method against the control, by p-value; empty without a
        control.
        """
        if self.control not in self.methods:
            return []
        tests = control_tests(
            self.values,
            self.methods.index(self.control),
            level=self.significance,
            greater_is_better=self.greater,
        )
        return [(self.methods[test.column], test) for test in tests]

    @property
    def worse(self) -> list[str]:
        """Methods that rank significantly worse than the control."""
        worse = []
        for name, test in self.tests:
            if test.rejected and test.z > 0:
                worse.append(name)
        return worse
