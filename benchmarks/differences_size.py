"""How often do tests of differences between tasks reject at 5%?

``python benchmarks/differences_size.py [--tables 400]`` simulates 20 tasks with a level
each and one column. It prints how often the joint test of slopes ("slopes") and the
test of the column ("column") have p < .05, with standard errors, in the order

* size: no slope differs. One assumption of the tests fails in each scenario.
* power: slopes differ, and the assumptions hold.

"unchecked" are the same tests without a look at the rows. Seeds are 0, 1, ...
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from mtlrun.estimators import HierarchicalMTL
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.hierarchical.compress import of_data
from mtlrun.solvers.hierarchical.fit import HierarchicalProblem
from mtlrun.solvers.hierarchical.inference import ratio_test, score_test

N_TASKS = 20
DRAWS = 199
LEVEL = 0.05
SLOPES = np.array([1])

Noise = Callable[[np.random.Generator, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Scenario:
    """A design, noise and common curve of simulated tables.

    Attributes
    ----------
    name : str
    n_rows : int
        Rows per task.
    slope_std : float
        Standard deviation of slopes between tasks.
    correlation : float
        Of the noise of one row with the next.
    along_time : bool
        Whether the column is the number of the row.
    noise_ratio, leverage_ratio : float
        Of noise and column in every second task, to those in the others.
    heavy_tails : bool
        Whether the noise has a t distribution of three degrees of freedom.
    square : float
        Coefficient of the common square; the range of the column then differs between
        tasks.
    """

    name: str
    n_rows: int = 6
    slope_std: float = 0.0
    correlation: float = 0.0
    along_time: bool = False
    noise_ratio: float = 1.0
    leverage_ratio: float = 1.0
    heavy_tails: bool = False
    square: float = 0.0

    def table(self, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a column (N, 1), targets and tasks."""
        rng = np.random.default_rng(seed)
        shape = (N_TASKS, self.n_rows)
        is_second = np.arange(N_TASKS)[:, None] % 2 == 1
        x = rng.normal(size=shape)
        noise = rng.normal(size=shape)
        if self.heavy_tails:
            noise = rng.standard_t(3, size=shape)
        innovation = np.sqrt(1 - self.correlation**2)
        for i in range(1, self.n_rows):
            noise[:, i] = self.correlation * noise[:, i - 1] + innovation * noise[:, i]
        if self.along_time:
            x = np.tile(np.arange(self.n_rows) - self.n_rows / 2, (N_TASKS, 1))
        if self.square:
            x = 0.7 * x + rng.normal(size=(N_TASKS, 1))
            noise = 0.7 * noise
        x = x * np.where(is_second, self.leverage_ratio, 1.0)
        noise = noise * np.where(is_second, self.noise_ratio, 1.0)
        slopes = 1 + self.slope_std * rng.normal(size=(N_TASKS, 1))
        levels = rng.normal(size=(N_TASKS, 1))
        y = levels + slopes * x + self.square * x**2 + noise
        tasks = np.repeat(np.arange(N_TASKS), self.n_rows)
        return x.reshape(-1, 1), y.ravel(), tasks


SIZES = (
    Scenario("assumptions hold"),
    Scenario(
        "correlation .6 of neighboring rows, slopes along time", 10, 0.0, 0.6, True
    ),
    Scenario("correlation .3", 10, 0.0, 0.3, True),
    Scenario("common square, ranges differ", square=0.3),
    Scenario("noise and leverage 1 : 3", noise_ratio=3.0, leverage_ratio=3.0),
    Scenario("noise 1 : 3", noise_ratio=3.0),
    Scenario("noise with t3 distribution", heavy_tails=True),
)
POWERS = (
    Scenario("6 rows per task, slope sd .4", slope_std=0.4),
    Scenario("10 rows per task, slope sd .3", 10, slope_std=0.3),
    Scenario("10 rows along time, slope sd .12", 10, slope_std=0.12, along_time=True),
    Scenario("30 rows per task, slope sd .2", 30, slope_std=0.2),
)


def rejections(scenario: Scenario, seed: int) -> np.ndarray:
    """Return whether the tests reject: slopes, column, and both unchecked."""
    X, y, tasks = scenario.table(seed)
    model = HierarchicalMTL("diagonal").fit(X, y, task_id=tasks)
    data = of_data(TaskData.from_stacked(X, y, task_id=tasks))[0]
    problem = HierarchicalProblem(data, np.arange(2))
    p_values = [
        model.test("slopes", draws=DRAWS).p_value,
        model.test(0).p_value,
        score_test(data, SLOPES, np.array([0]), DRAWS).p_value,
        ratio_test(problem, SLOPES).p_value,
    ]
    return np.array(p_values) < LEVEL


def row(scenario: Scenario, n_tables: int) -> str:
    """Return a line of the table."""
    rejected = [rejections(scenario, seed) for seed in range(n_tables)]
    shares = np.mean(rejected, axis=0)
    errors = np.sqrt(shares * (1 - shares) / n_tables)
    cells = [
        f"{100 * share:.1f} ± {100 * error:.1f}%"
        for share, error in zip(shares, errors, strict=True)
    ]
    return " | ".join([f"| {scenario.name}", *cells]) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=400)
    n_tables = parser.parse_args().tables
    head = "| {} | slopes | column | slopes, unchecked | column, unchecked |\n"
    head += "| --- | --: | --: | --: | --: |\n"
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for title, scenarios in (("size", SIZES), ("power", POWERS)):
            sys.stdout.write(head.format(title))
            for scenario in scenarios:
                sys.stdout.write(f"{row(scenario, n_tables)}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
