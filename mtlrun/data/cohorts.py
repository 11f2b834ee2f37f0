"""A simulated stand-in for the breast-cancer data of the graph SVM paper, which are not public in that form."""

from __future__ import annotations

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.errors import DataError

#: The three studies whose patients the paper pools, and their sizes (474 in all).
STUDIES = {"E-GEOD-16446": 114, "E-GEOD-20194": 278, "E-GEOD-22093": 82}


def simulate_breast_cancer(
    *, n_genes: int = 60, factors: int = 5, shared: float = 0.8, response: float = 0.25, seed: int = 0
) -> Dataset:
    """Draw 474 patients x 60 genes in 3 studies with a binary response. Nothing in it was measured on anybody.

    ``x = F z + e``: z has `factors` standard normal factors; F (genes x factors) has independent normal entries such
    that factors and noise e each explain half of a gene's variance of 1 on average; every study has its own shift of
    the means, of scale 0.3.
    The score of a patient is ``x'(shared * u + (1 - shared) * v_t)``, scaled to unit variance inside each study, plus
    logistic noise of scale 0.5; the share `response` of each study with the highest sums responds.

    Parameters
    ----------
    n_genes : int, default=60
    factors : int, default=5
    shared : float, default=0.8
        Share of the weights that the studies have in common, 0..1.
    response : float, default=0.25
        Share of responders, strictly between 0 and 1.
    seed : int, default=0

    Returns
    -------
    Dataset
        Ragged and binary, `truth`: ``W`` (n_genes, 3).

    Raises
    ------
    DataError
        If a parameter is out of range.
    """
    if not 0 <= shared <= 1 or not 0 < response < 1 or n_genes < 1 or factors < 1:
        raise DataError(
            f"out of range: shared={shared} (0..1), response={response} (between 0 and 1), n_genes={n_genes}, "
            f"factors={factors} (at least 1)"
        )
    generator = np.random.default_rng(seed)
    loadings = generator.standard_normal((n_genes, factors)) * np.sqrt(0.5 / factors)
    common = generator.standard_normal(n_genes)
    X, y, W = [], [], []
    for size in STUDIES.values():
        genes = generator.standard_normal((size, factors)) @ loadings.T
        genes += np.sqrt(0.5) * generator.standard_normal((size, n_genes))
        genes += 0.3 * generator.standard_normal(n_genes)
        weights = shared * common + (1 - shared) * generator.standard_normal(n_genes)
        score = genes @ weights
        total = (score - score.mean()) / score.std() + 0.5 * generator.logistic(size=size)
        X.append(genes)
        W.append(weights)
        y.append(np.where(total > np.quantile(total, 1 - response), 1.0, -1.0))
    return Dataset(
        X=np.vstack(X),
        y=np.concatenate(y),
        task_type="binary",
        task_id=np.repeat(np.arange(len(STUDIES)), list(STUDIES.values())),
        tasks=list(STUDIES),
        features=[f"gene{j + 1}" for j in range(n_genes)],
        truth={"W": np.column_stack(W)},
    )
