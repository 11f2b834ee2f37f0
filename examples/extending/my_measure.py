"""A measure of one's own: what is returned is anything but the score of a fit."""

import numpy as np

from mtlrun.data.load import load_dataset
from mtlrun.papers.measure import Measurement, measure


@measure({"largest": "largest correlation of two features", "mean": "mean of their absolute values"}, lower=["largest"])
def correlations(dataset, *, seed, rows=200):
    """Correlations of the features on some random rows."""
    chosen = np.random.default_rng(seed).permutation(dataset.n_samples)[:rows]
    pairs = np.corrcoef(dataset.X[chosen], rowvar=False)[np.triu_indices(dataset.n_features, 1)]
    return Measurement({"largest": float(np.abs(pairs).max()), "mean": float(np.abs(pairs).mean())})


def main() -> Measurement:
    """Measure a simulated data set."""
    found = correlations(load_dataset("simulated-rmtl", n=300, d=6, m=4, rank=2), seed=0)
    print({name: round(value, 3) for name, value in found.values.items()})
    return found


if __name__ == "__main__":
    main()
