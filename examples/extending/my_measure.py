"""A custom measure: an experiment can record quantities other than the score of a
fitted model.
"""

import numpy as np

from mtlrun.catalog.analysis import AnalysisResult, analysis
from mtlrun.data.sets.load import load_dataset


@analysis(
    {
        "largest": "largest correlation of two features",
        "mean": "mean of their absolute values",
    },
    lower=["largest"],
)
def correlations(dataset, *, seed, rows=200):
    """Return the correlations between features on a random subset of rows."""
    chosen = np.random.default_rng(seed).permutation(dataset.n_samples)[:rows]
    pairs = np.corrcoef(dataset.X[chosen], rowvar=False)[
        np.triu_indices(dataset.n_features, 1)
    ]
    return AnalysisResult(
        {"largest": float(np.abs(pairs).max()), "mean": float(np.abs(pairs).mean())}
    )


def main() -> AnalysisResult:
    """Apply the measure to a simulated data set."""
    found = correlations(
        load_dataset("simulated-rmtl", n=300, d=6, m=4, rank=2), seed=0
    )
    print({name: round(value, 3) for name, value in found.values.items()})
    return found


if __name__ == "__main__":
    main()
