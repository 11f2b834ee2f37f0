"""Facts about a method, as the registry keeps them. Standard library only."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from mtlrun.estimators.bibliography import BIBTEX

ALL_DESIGNS = ("shared", "ragged", "masked")
CLASS_LOSSES = ("logistic", "squared_hinge", "squared")


@dataclass(frozen=True)
class MethodInfo:
    """Facts about a method that need none of its code.

    Attributes
    ----------
    name : str
        Name in the registry, that of the class.
    class_path : str
        ``package.module:Class``.
    summary : str
        One line.
    objective : str
        What is minimised, in plain text; ``loss`` is the sum over all entries of the loss named.
    losses : tuple of str
        Those the method offers; more than one means a parameter `loss`.
    kind : {"regressor", "classifier"}
        Regressors accept labels -1/+1 as numbers; their predictions are then scores.
    multitask : bool
        False for the baselines that learn tasks alone or all tasks as one.
    designs : tuple of str
        Of shared, ragged, masked (a shared design with missing targets).
    complexity : str
        Main cost, for n rows (N: of all tasks), d features, T tasks.
    source : str
        Short citation.
    bibtex_key : str
        Key into `mtlrun.estimators.bibliography.BIBTEX`.
    default_grid : dict of str to tuple
        Values to search when a user names none.
    default_params : dict
        Parameters that `build` fills in when they are not named.
    fast : dict
        Parameters under which the same objective is solved fastest, for the selection of the others.
    zero_from : str
        Method of the class that returns the strength from which on all coefficients are zero, empty for none.
    extra : str
        Optional dependency that the method needs (``pip install 'mtlrun[extra]'``), empty for none.
    """

    name: str
    class_path: str
    summary: str
    objective: str
    losses: tuple[str, ...]
    source: str
    bibtex_key: str
    complexity: str
    kind: str = "regressor"
    multitask: bool = True
    designs: tuple[str, ...] = ALL_DESIGNS
    default_grid: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    default_params: dict[str, Any] = field(default_factory=dict)
    fast: dict[str, Any] = field(default_factory=dict)
    zero_from: str = ""
    extra: str = ""

    @property
    def bibtex(self) -> str:
        """BibTeX entry of the source."""
        return BIBTEX[self.bibtex_key]


#: Default grid of a strength.
STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
SPECTRAL_COST = "per iteration one min(d, n) x T singular value thresholding; once an eigendecomposition of X"
SHRINK_COST = "O(N d) to O(d^2 T) per iteration"
LASSO_COST = (
    f"shared squared loss: per epoch features in use times rows, features or entries, times T; else {SHRINK_COST}"
)


def with_classifier(info: MethodInfo) -> list[MethodInfo]:
    """Return a regressor and its twin for classification."""
    twin = dataclasses.replace(
        info,
        name=f"{info.name}Classifier",
        class_path=f"{info.class_path}Classifier",
        kind="classifier",
        losses=CLASS_LOSSES,
        default_params={
            key: {**value, "estimator": f"{value['estimator']}Classifier"} for key, value in info.default_params.items()
        },
    )
    return [info, twin]
