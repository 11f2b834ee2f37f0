"""Random Fourier features, on which linear models approximate a Gaussian kernel."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

Array = np.ndarray


class FourierFeatures(TransformerMixin, BaseEstimator):
    """Random Fourier features of the kernel ``exp(-gamma ||x - z||^2)``.

    They are orthogonal by default.

    ``phi(x) = (cos(x'v_1), sin(x'v_1), cos(x'v_2), ...) / sqrt(n_frequencies)`` with
    frequencies v_k of the normal distribution with variance 2 gamma, so that
    ``phi(x)'phi(z)`` has the kernel as its mean and ``||phi(x)|| = 1``. Orthogonal
    frequencies (drawn in blocks of n_features) have the same distribution one by one
    and a smaller error.

    Parameters
    ----------
    n_frequencies : int, default 100
        Half the number of features made.
    gamma : float or {"scale"}, default "scale"
        "scale" is 1 / (n_features * variance of all entries of X), as in scikit-learn's
        SVC.
    orthogonal : bool, default True
        Orthogonal within blocks, with the lengths of independent normal vectors.
    random_state : int, RandomState or None, default 0

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_features, n_frequencies)
    gamma_ : float
    n_features_in_ : int

    References
    ----------
    Rahimi and Recht, Random features for large-scale kernel machines, NIPS 2007; Yu et
    al., Orthogonal random features, NIPS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.features import FourierFeatures
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> phi = FourierFeatures(2000, gamma=0.5).fit_transform(X)
    >>> bool(abs(phi[0] @ phi[1] - np.exp(-0.5)) < 0.05)
    True
    """

    def __init__(
        self,
        n_frequencies: int = 100,
        *,
        gamma: float | str = "scale",
        orthogonal: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.n_frequencies = n_frequencies
        self.gamma = gamma
        self.orthogonal = orthogonal
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the frequencies.

        Only the number of columns of X counts, and its variance for ``gamma="scale"``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored

        Raises
        ------
        ValueError
            For a parameter out of range or values that are not finite.
        """
        n = self.n_frequencies
        gamma = self.gamma
        # A boolean is an integer and a real number for Python.
        is_int = isinstance(n, Integral) and not isinstance(n, bool)
        if not is_int or n < 1:
            raise ValueError(f"n_frequencies must be an int in [1, inf), got {n!r}")
        is_number = isinstance(gamma, Real) and not isinstance(gamma, bool)
        if isinstance(gamma, str):
            is_valid = gamma == "scale"
        else:
            is_valid = is_number and 0 < gamma < np.inf
        if not is_valid:
            raise ValueError(
                f"gamma must be a float in (0, inf) or 'scale', got {gamma!r}"
            )
        X = validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=np.float64,
        )
        d = X.shape[1]
        random = check_random_state(self.random_state)
        if isinstance(gamma, str):
            # As in scikit-learn: 1 / (n_features * variance of X).
            if isinstance(X, np.ndarray):
                square = X * X
            else:
                square = X.multiply(X)
            mean = X.mean()
            variance = float(square.mean() - mean**2)
            self.gamma_ = 1.0 / d
            if variance > 0:
                self.gamma_ = 1.0 / (d * variance)
        else:
            self.gamma_ = float(gamma)
        if self.orthogonal:
            # Columns are orthogonal within blocks of d.
            blocks = []
            for _ in range(0, n, d):
                directions = random.normal(size=(d, d))
                Q, R = np.linalg.qr(directions)
                # Frequencies have the lengths of independent normal vectors, or the
                # kernel would not be Gaussian. The signs make Q uniform among
                # orthogonal matrices.
                independent = random.normal(size=(d, d))
                lengths = np.linalg.norm(independent, axis=0)
                signs = np.sign(np.diag(R))
                blocks.append(Q * signs * lengths)
            normal = np.hstack(blocks)[:, :n]
        else:
            normal = random.normal(size=(d, n))
        std = np.sqrt(2.0 * self.gamma_)
        self.frequencies_ = std * normal
        return self

    def transform(self, X: Any) -> Array:
        """Return the features, shape (n_samples, 2 * n_frequencies)."""
        check_is_fitted(self)
        X = validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=np.float64,
            reset=False,
        )
        n_rows = X.shape[0]
        angles = np.asarray(X @ self.frequencies_)
        # In place, since the features are as large as any array of a fit. A cosine and
        # a sine per frequency make all rows have length 1.
        out = np.empty((n_rows, 2 * self.n_frequencies))
        np.cos(angles, out=out[:, 0::2])
        np.sin(angles, out=out[:, 1::2])
        out /= np.sqrt(self.n_frequencies)
        return out

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return ``cos0, sin0, cos1, ...``."""
        check_is_fitted(self)
        names = []
        for k in range(self.n_frequencies):
            names += [f"cos{k}", f"sin{k}"]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
