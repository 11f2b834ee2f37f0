"""Compare methods on tasks that are groups of rows: pupils of simulated schools.

Run with: python examples/compare_schools.py
"""

import numpy as np
import pandas as pd

import mtlrun


def simulated_schools(
    n_schools: int = 12, n_pupils: int = 20, seed: int = 0
) -> pd.DataFrame:
    """Return grades that depend on hours and age; the effect of hours varies
    slightly between schools.
    """
    rng = np.random.default_rng(seed)
    schools = []
    for k in range(n_schools):
        hours, age, sleep = rng.normal(size=(3, n_pupils))
        effect = 2 + 0.3 * rng.normal()
        grade = effect * hours + 0.5 * age + rng.normal(size=n_pupils)
        schools.append(
            pd.DataFrame(
                {
                    "hours": hours,
                    "age": age,
                    "sleep": sleep,
                    "grade": grade,
                    "school": f"school {k}",
                }
            )
        )
    return pd.concat(schools, ignore_index=True)


def main() -> object:
    """Compare three methods with the baselines; print the leaderboard and the
    verdict.
    """
    result = mtlrun.compare(
        simulated_schools(),
        target="grade",
        task="school",
        methods=["GraphMTL", "TraceNormMTL"],
        repeats=1,
    )
    print(result.leaderboard.to_string(index=False))
    print(result.verdict)
    return result


if __name__ == "__main__":
    main()
