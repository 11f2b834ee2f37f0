"""Simulate two tables for the start pages: `python examples/make_tables.py` writes
them beside this file.

simulated-visits.csv has several visits of each patient of eight clinics,
simulated-photos.csv six tags per row. No real person is in them.
"""

from pathlib import Path

import numpy as np
import pandas as pd

CLINICS, PATIENTS, VISITS = 8, 12, 8
TAGS = ("beach", "boat", "forest", "mountain", "snow", "sunset")


def visits(rng: np.random.Generator) -> pd.DataFrame:
    """Return one row per visit; the effects differ between clinics, the level
    between patients.
    """
    clinic = np.repeat(np.arange(CLINICS), PATIENTS * VISITS)
    patient = np.repeat(np.arange(CLINICS * PATIENTS), VISITS)
    table = pd.DataFrame(
        {
            "clinic": [f"clinic {number + 1}" for number in clinic],
            "patient": [f"patient {number + 1:02d}" for number in patient],
            "date": pd.to_datetime("2024-01-08")
            + pd.to_timedelta(28 * np.tile(np.arange(VISITS), patient[-1] + 1), "D"),
            "dose": rng.choice([5, 10, 20], patient.size),
            "weight": rng.normal(75, 12, patient.size).round(1),
            "steps": rng.gamma(4, 1500, patient.size).round(-2).astype(int),
        }
    )
    scaled = (
        table[["dose", "weight", "steps"]].to_numpy(dtype=float) - [12, 75, 6000]
    ) / [6, 12, 3000]
    effects = np.array([-4.0, 3.0, -2.0]) + 1.5 * rng.normal(size=(CLINICS, 3))
    level = (
        140
        + 5 * rng.normal(size=CLINICS)[clinic]
        + 5 * rng.normal(size=patient[-1] + 1)[patient]
    )
    pressure = (
        level
        + (scaled * effects[clinic]).sum(axis=1)
        + 5 * rng.normal(size=patient.size)
    )
    return table.assign(pressure=pressure.round(1))


def photos(
    rng: np.random.Generator, rows: int = 300, columns: int = 10
) -> pd.DataFrame:
    """Return one row per photo; tags share two directions of the features, and some
    cells are empty: nobody looked.
    """
    looks = rng.normal(size=(rows, columns))
    weights = rng.normal(size=(columns, 2)) @ rng.normal(size=(2, len(TAGS)))
    there = looks @ weights + 2 * rng.normal(size=(rows, len(TAGS))) > [
        1.5,
        2,
        0.5,
        1,
        2.5,
        2,
    ]
    tags = pd.DataFrame(there, columns=[f"tag_{tag}" for tag in TAGS]).astype("Int64")
    tags = tags.mask(pd.DataFrame(rng.random(tags.shape) < 0.05, columns=tags.columns))
    return pd.DataFrame(
        looks.round(3), columns=[f"feature_{j + 1}" for j in range(columns)]
    ).join(tags)


if __name__ == "__main__":
    for make in (visits, photos):
        make(np.random.default_rng(1)).to_csv(
            Path(__file__).with_name(f"simulated-{make.__name__}.csv"), index=False
        )
