"""Simulate the grades of pupils in 25 schools: `python examples/make_grades.py` writes
a table beside this file.

Effects differ between schools. The table contains no real people.
"""

from pathlib import Path

import numpy as np
import pandas as pd

#: Points of grade per standard deviation of a column, in the mean over the schools.
EFFECTS = {
    "prior_score": 4.0,
    "study_hours": 3.0,
    "days_absent": -2.0,
    "age": 0.5,
    "books": 1.0,
}
SCHOOLS, NOISE = 25, 6.0


def table(spread: float, seed: int = 1) -> pd.DataFrame:
    """Return one row per pupil; `spread` is the standard deviation of the effects
    between schools.
    """
    rng = np.random.default_rng(seed)
    found = []
    for school in range(1, SCHOOLS + 1):
        n = int(rng.integers(15, 40))
        pupils = pd.DataFrame(
            {
                "school": f"school {school:02d}",
                "prior_score": rng.normal(60, 10, n).round().astype(int),
                "study_hours": rng.gamma(4, 1.5, n).round(1),
                "days_absent": rng.poisson(4, n),
                "age": rng.normal(15, 0.5, n).round(1),
                "books": rng.poisson(3, n),
            }
        )
        scaled = (pupils[list(EFFECTS)] - [60, 6, 4, 15, 3]) / [10, 3, 2, 0.5, 1.7]
        effects = np.array(list(EFFECTS.values())) + spread * rng.normal(size=5) * [
            1,
            1,
            1,
            0.5,
            0.5,
        ]
        level = 60 + 2 * spread * rng.normal()
        pupils["grade"] = (level + scaled @ effects + NOISE * rng.normal(size=n)).round(
            1
        )
        found.append(pupils)
    return pd.concat(found)


if __name__ == "__main__":
    path = Path(__file__).with_name("simulated-grades.csv")
    table(2.0).to_csv(path, index=False)
