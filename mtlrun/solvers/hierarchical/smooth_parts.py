"""Parts of a smooth hierarchical model: kernels between rows, and their features.

A function of the columns is a sum of Gaussian processes, its parts. Part k has the
covariance theta_k K_k(a, b) between the rows a and b. Rows are standardized, z = (x -
mean) / std::

    part                   K(a, b)
    linear, slopes         a'b / p
    level                  1
    additive               mean over curved columns j of exp(-(a_j - b_j)^2 / (2 l^2))
    wide, narrow, smooth   exp(-|a - b|^2 / (2 l^2 p))
    levels of COLUMN       1 if a and b have the same value of COLUMN, else 0

Gaussian kernels see z clipped at +-CLIP, so that rare categories and outliers are not
isolated. Parts that all tasks share are features F with F F' = K, at `n_centers` rows
(Nystroem's approximation). Parts of a task are exact kernels between its rows, or the
same kind of features in tasks with many rows.

Centers are chosen by the content of the rows and a seed, so that the order of rows,
tasks and columns does not matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

Array = np.ndarray

COMMON_PARTS: tuple[str, ...] = ("linear", "additive", "wide", "narrow")
TASK_PARTS: tuple[str, ...] = ("level", "slopes", "smooth", "additive")
#: Parts whose functions are not linear.
CURVED_PARTS = ("additive", "wide", "narrow", "smooth")
#: Common parts whose features are exact at the centers only.
CENTER_PARTS = ("wide", "narrow")
#: Lengths of Gaussian kernels, in root mean square distances of columns.
ADDITIVE_LENGTH = 0.8
SMOOTH_LENGTH = 1.5
CENTER_LENGTHS = {"wide": 2.0, "narrow": 0.7}
#: Standardized columns are clipped at plus and minus this value in Gaussian kernels.
CLIP = 3.0
#: Knots of the curve of one column.
N_KNOTS = 9
#: With more columns there are no curves of single columns.
MAX_ADDITIVE_COLUMNS = 40
#: Levels of a grouping factor that is crossed with the tasks, at most.
MAX_CROSSED_LEVELS = 2000
#: Eigenvalues of a kernel between centers below this share of the largest are dropped.
MIN_EIGENVALUE = 1e-6
#: Rows whose features are computed at once.
BATCH_ROWS = 10_000
#: Standard deviations below this share of the largest absolute value are rounding.
MIN_RELATIVE_STD = 1e-7


@dataclass(frozen=True)
class SmoothRows:
    """Rows as the parts see them, with any leading dimensions.

    Attributes
    ----------
    z : ndarray of shape (..., n, p)
        Standardized columns that vary.
    levels : ndarray of int, shape (..., n, n_factors)
        Codes of further grouping factors, -1 for an unknown level.
    """

    z: Array
    levels: Array

    @property
    def clipped(self) -> Array:
        """Columns as Gaussian kernels see them."""
        return np.asarray(np.clip(self.z, -CLIP, CLIP))

    def take(self, index: Any) -> SmoothRows:
        """Return some of the rows, in the shape of `index`."""
        return SmoothRows(self.z[index], self.levels[index])

    def __len__(self) -> int:
        return len(self.z)


@dataclass(frozen=True)
class Standardizer:
    """Means and standard deviations of the columns that vary.

    Attributes
    ----------
    columns : ndarray of int, shape (p,)
        Positions of the columns that vary.
    mean, std : ndarray of shape (p,)
    """

    columns: Array
    mean: Array
    std: Array

    @classmethod
    def fit(cls, X: Array, weights: Array) -> Standardizer:
        """Return the weighted means and standard deviations of X (n, d)."""
        total = weights.sum()
        # Large values are scaled first: their squares would overflow.
        largest = np.abs(X).max(axis=0, initial=0.0)
        unit = np.maximum(largest, 1e-300)
        scaled = X / unit
        mean = weights @ scaled / total
        deviations = scaled - mean
        variance = weights @ np.square(deviations) / total
        std = np.sqrt(variance)
        columns = np.flatnonzero(std > MIN_RELATIVE_STD)
        unit = unit[columns]
        return cls(
            columns,
            mean=mean[columns] * unit,
            std=std[columns] * unit,
        )

    def transform(self, X: Array) -> Array:
        """Return standardized columns (n, p)."""
        deviations = X[:, self.columns] - self.mean
        return np.asarray(deviations / self.std)


def gaussian_kernel(A: Array, B: Array, length: float) -> Array:
    """Return exp(-|a - b|^2 / (2 length^2 p)) for rows of A (..., n, p) and B."""
    p = A.shape[-1]
    squares_a = np.square(A).sum(axis=-1)[..., :, None]
    squares_b = np.square(B).sum(axis=-1)[..., None, :]
    # |a - b|^2 = |a|^2 + |b|^2 - 2 a'b, which rounding can make negative.
    kernel: Array = squares_a + squares_b
    kernel -= 2 * A @ np.swapaxes(B, -1, -2)
    np.maximum(kernel, 0, out=kernel)
    kernel /= -2 * length**2 * p
    return np.exp(kernel, out=kernel)


# ---------------------------------------------------------------------- features


@dataclass(frozen=True)
class LinearFeatures:
    """Standardized columns, or their scores where there are more columns than rows.

    Attributes
    ----------
    rotation : ndarray of shape (p, n_features)
        z @ rotation has the products z z' / p on the rows of training.
    """

    rotation: Array

    @classmethod
    def fit(cls, z: Array) -> LinearFeatures:
        """Return the columns of z (n, p), or min(n, p) combinations of them."""
        n, p = z.shape
        if p <= n:
            return cls(np.eye(p) / np.sqrt(p))
        _, singular, Vt = np.linalg.svd(z, full_matrices=False)
        kept = singular > 1e-10 * max(singular[0], 1e-300)
        return cls(Vt[kept].T / np.sqrt(p))

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.rotation.shape[1]

    def __call__(self, rows: SmoothRows) -> Array:
        """Return the features."""
        return np.asarray(rows.z @ self.rotation)


@dataclass(frozen=True)
class NystroemFeatures:
    """Centered features whose products are a Gaussian kernel, exact at the centers.

    Attributes
    ----------
    centers : ndarray of shape (n_centers, n_columns)
    columns : ndarray of int, shape (n_columns,)
    length : float
    projection : ndarray of shape (n_centers, n_features)
    offset : ndarray of shape (n_features,)
        Subtracted from the features; the mean of the model absorbs it.
    """

    centers: Array
    columns: Array
    length: float
    projection: Array
    offset: Array

    @classmethod
    def fit(
        cls,
        centers: Array,
        columns: Array,
        length: float,
        scale: float = 1.0,
    ) -> NystroemFeatures:
        """Return the features of a kernel times scale^2."""
        # F(x) = k(x, centers) V diag(values)^-1/2, so that F F' is the kernel at the
        # centers.
        kernel = gaussian_kernel(centers, centers, length)
        values, vectors = np.linalg.eigh(kernel)
        kept = values > MIN_EIGENVALUE * values[-1]
        factors = scale / np.sqrt(values[kept])
        return cls(
            centers,
            columns,
            length,
            projection=vectors[:, kept] * factors,
            offset=np.zeros(kept.sum()),
        )

    def centered(self, rows: SmoothRows, weights: Array) -> NystroemFeatures:
        """Return the features with a mean of zero over rows."""
        # Features of all rows at once would take most of the memory of a fit.
        total = np.zeros(self.n_features)
        for batch in gen_batches(len(weights), BATCH_ROWS):
            total += weights[batch] @ self(rows.take(batch))
        mean = total / weights.sum()
        return NystroemFeatures(
            self.centers,
            self.columns,
            self.length,
            self.projection,
            mean,
        )

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.projection.shape[1]

    def __call__(self, rows: SmoothRows) -> Array:
        """Return the features."""
        values = rows.clipped[:, self.columns]
        kernel = gaussian_kernel(values, self.centers, self.length)
        return np.asarray(kernel @ self.projection - self.offset)


@dataclass(frozen=True)
class IndicatorFeatures:
    """One feature per level of a factor: 1 in the rows of that level.

    Attributes
    ----------
    factor : int
        Position of the factor.
    codes : ndarray of int
        Sorted codes of the levels.
    """

    factor: int
    codes: Array

    @property
    def n_features(self) -> int:
        """Number of levels."""
        return len(self.codes)

    def __call__(self, rows: SmoothRows) -> Array:
        """Return the features; rows of other levels have zeros."""
        levels = rows.levels[:, self.factor]
        is_level = levels[:, None] == self.codes
        return is_level.astype(float)


#: Features of rows whose products are the kernel of a part.
FeatureMap = LinearFeatures | NystroemFeatures | IndicatorFeatures


# ---------------------------------------------------------------------- parts


@dataclass(frozen=True)
class CommonPart:
    """A function that all tasks share: the features of its maps, side by side."""

    name: str
    maps: tuple[FeatureMap, ...]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return sum(feature_map.n_features for feature_map in self.maps)

    def features(self, rows: SmoothRows) -> Array:
        """Return the features (n, n_features)."""
        return np.hstack([feature_map(rows) for feature_map in self.maps])

    @property
    def n_centers(self) -> int:
        """Number of centers; 0 for parts without."""
        radial = self._radial
        if radial is None:
            return 0
        return len(radial.centers)

    @property
    def _radial(self) -> NystroemFeatures | None:
        """The features of several columns with centers; None for other parts."""
        if self.name not in CENTER_PARTS:
            return None
        (radial,) = self.maps
        assert isinstance(radial, NystroemFeatures)
        return radial

    def missed_variance(self, rows: SmoothRows) -> float:
        """Return the mean prior variance of rows that the centers miss.

        About zero if every row is a center: small eigenvalues of their kernel are left
        out. Zero for parts without centers.
        """
        radial = self._radial
        if radial is None:
            return 0.0
        # The variance of the kernel is 1, also before the features are centered.
        features = radial(rows) + radial.offset
        represented = np.square(features).sum(axis=1)
        return float(np.mean(np.maximum(1 - represented, 0.0)))

    def unseen_variance(self, rows: SmoothRows) -> Array:
        """Return the prior variance that the features miss: unknown levels, (n,)."""
        missed = np.zeros(len(rows))
        for feature_map in self.maps:
            if isinstance(feature_map, IndicatorFeatures):
                missed += rows.levels[:, feature_map.factor] < 0
        return missed


class TaskPart(ABC):
    """A function of single tasks, drawn from the same Gaussian process for all."""

    name: str

    @abstractmethod
    def kernel(self, a: SmoothRows, b: SmoothRows) -> Array:
        """Return the covariances between rows of one task, (..., n, k)."""

    def diagonal(self, rows: SmoothRows) -> Array:
        """Return the variances of rows, (n,)."""
        return np.ones(len(rows))

    def root(self, rows: SmoothRows) -> Array | None:
        """Return F (..., n, q) with the kernel F F' where q is small, else None."""
        return None

    @abstractmethod
    def features(self, rows: SmoothRows, reference: SmoothRows) -> Array:
        """Return features (n, q) whose products are about the kernel.

        `reference` holds the rows of the task in training.
        """


@dataclass(frozen=True)
class LevelPart(TaskPart):
    """A level of each task."""

    name: str = "level"

    def kernel(self, a: SmoothRows, b: SmoothRows) -> Array:
        """Return ones."""
        return np.ones((*a.z.shape[:-1], b.z.shape[-2]))

    def root(self, rows: SmoothRows) -> Array:
        """Return a column of ones."""
        return np.ones((*rows.z.shape[:-1], 1))

    def features(self, rows: SmoothRows, reference: SmoothRows) -> Array:
        """Return a column of ones."""
        return np.ones((len(rows), 1))


@dataclass(frozen=True)
class SlopesPart(TaskPart):
    """Slopes of each task, with the same variance for all standardized columns."""

    name: str = "slopes"

    def kernel(self, a: SmoothRows, b: SmoothRows) -> Array:
        """Return a'b / p."""
        p = a.z.shape[-1]
        products = a.z @ np.swapaxes(b.z, -1, -2)
        return np.asarray(products / p)

    def diagonal(self, rows: SmoothRows) -> Array:
        """Return |z|^2 / p."""
        return np.asarray(np.square(rows.z).mean(axis=-1))

    def root(self, rows: SmoothRows) -> Array | None:
        """Return the columns if they are fewer than half of the rows."""
        n, p = rows.z.shape[-2:]
        if 2 * p > n:
            return None
        return np.asarray(rows.z / np.sqrt(p))

    def features(self, rows: SmoothRows, reference: SmoothRows) -> Array:
        """Return the columns, or their scores if there are fewer rows."""
        return LinearFeatures.fit(reference.z)(rows)


@dataclass(frozen=True)
class SmoothPart(TaskPart):
    """A smooth function of all columns together for every task."""

    map: NystroemFeatures
    name: str = "smooth"

    def kernel(self, a: SmoothRows, b: SmoothRows) -> Array:
        """Return the Gaussian kernel."""
        return gaussian_kernel(a.clipped, b.clipped, SMOOTH_LENGTH)

    def features(self, rows: SmoothRows, reference: SmoothRows) -> Array:
        """Return Nystroem's features at the common centers."""
        return self.map(rows)


@dataclass(frozen=True)
class AdditivePart(TaskPart):
    """A sum of curves of single columns for every task."""

    columns: Array
    maps: tuple[NystroemFeatures, ...]
    name: str = "additive"

    def kernel(self, a: SmoothRows, b: SmoothRows) -> Array:
        """Return the mean of the Gaussian kernels of single columns."""
        total = np.zeros((*a.z.shape[:-1], b.z.shape[-2]))
        for j in self.columns:
            difference = a.clipped[..., :, None, j] - b.clipped[..., None, :, j]
            squared = np.square(difference)
            total += np.exp(squared / (-2 * ADDITIVE_LENGTH**2))
        return total / len(self.columns)

    def features(self, rows: SmoothRows, reference: SmoothRows) -> Array:
        """Return Nystroem's features of each column at its knots."""
        return np.hstack([feature_map(rows) for feature_map in self.maps])


@dataclass(frozen=True)
class NestedLevelPart(TaskPart):
    """Levels of a factor whose every level occurs in one task only."""

    factor: int
    name: str

    def kernel(self, a: SmoothRows, b: SmoothRows) -> Array:
        """Return 1 for rows of the same known level, else 0."""
        left = a.levels[..., :, None, self.factor]
        right = b.levels[..., None, :, self.factor]
        # Two unknown levels are not the same one.
        is_known = left >= 0
        is_same = (left == right) & is_known
        return is_same.astype(float)

    def features(self, rows: SmoothRows, reference: SmoothRows) -> Array:
        """Return indicators of the levels of the task."""
        codes = np.unique(reference.levels[:, self.factor])
        return IndicatorFeatures(self.factor, codes[codes >= 0])(rows)


@dataclass(frozen=True)
class SmoothDesign:
    """The parts of a model, made from the rows of training.

    Attributes
    ----------
    common : tuple of CommonPart
    own : tuple of TaskPart
    """

    common: tuple[CommonPart, ...]
    own: tuple[TaskPart, ...]

    @property
    def names(self) -> list[str]:
        """Names of all parts, common ones first."""
        task_names = [f"task {part.name}" for part in self.own]
        return [*(part.name for part in self.common), *task_names]

    @property
    def is_curved(self) -> Array:
        """Whether the functions of a part are curves, for all parts."""
        names = [part.name for part in self.common]
        names += [part.name for part in self.own]
        return np.isin(names, CURVED_PARTS)

    @property
    def groups(self) -> Array:
        """Position of the part of each common feature, (m,)."""
        sizes = [part.n_features for part in self.common]
        return _positions_by_size(sizes)

    def select(self, is_used: Array) -> SmoothDesign:
        """Return a design with some of the parts; `is_used` has an entry per part."""
        n_common = len(self.common)
        used_common = np.flatnonzero(is_used[:n_common])
        used_own = np.flatnonzero(is_used[n_common:])
        common = [self.common[k] for k in used_common]
        own = [self.own[k] for k in used_own]
        return SmoothDesign(tuple(common), tuple(own))

    def common_features(self, rows: SmoothRows) -> Array:
        """Return the features of all common parts, (n, m)."""
        features = [part.features(rows) for part in self.common]
        return _stacked(features, len(rows))

    def own_kernels(self, a: SmoothRows, b: SmoothRows) -> Array:
        """Return the kernels of all parts of a task, (K, ..., n, k)."""
        shape = (len(self.own), *a.z.shape[:-1], b.z.shape[-2])
        kernels = np.empty(shape)
        for k, part in enumerate(self.own):
            kernels[k] = part.kernel(a, b)
        return kernels

    def own_diagonals(self, rows: SmoothRows) -> Array:
        """Return prior variances of all parts of a task in units of theta, (K, n)."""
        diagonals = np.empty((len(self.own), len(rows)))
        for k, part in enumerate(self.own):
            diagonals[k] = part.diagonal(rows)
        return diagonals

    def own_features(
        self,
        rows: SmoothRows,
        reference: SmoothRows,
    ) -> tuple[Array, Array]:
        """Return the features of all parts of a task (n, q), and their parts (q,)."""
        features = [part.features(rows, reference) for part in self.own]
        sizes = [part.shape[1] for part in features]
        return _stacked(features, len(rows)), _positions_by_size(sizes)


def _positions_by_size(sizes: list[int]) -> Array:
    """Return each position in a list as often as the size there says."""
    positions = np.arange(len(sizes))
    return np.repeat(positions, np.array(sizes, dtype=int))


def _stacked(features: list[Array], n_rows: int) -> Array:
    """Return features (n_rows, any) side by side; (n_rows, 0) if there are none."""
    no_features = np.zeros((n_rows, 0))
    return np.hstack([no_features, *features])


# ---------------------------------------------------------------------- construction


def content_keys(z: Array, y: Array | None, seed: int) -> Array:
    """Return a pseudo-random number in [0, 1) for every row, by its content and a seed.

    The numbers depend neither on the order of rows nor on the order of columns, and
    only by rounding on shifts and scales of the columns. Equal rows have equal numbers.

    Parameters
    ----------
    z : ndarray of shape (n, p)
        Standardized columns.
    y : ndarray of shape (n,), optional
        Standardized targets, for rows that differ in nothing else.
    seed : int
    """
    generator = np.random.default_rng(seed)
    frequency = generator.uniform(15.0, 25.0)
    phase = generator.uniform(0.0, 2 * np.pi)
    # The skewness of a column tells it from others wherever it stands.
    skewness = np.power(z, 3).mean(axis=0)
    shifts = phase + 5.0 * skewness
    mixed = np.sin(frequency * z + shifts).sum(axis=1)
    if y is not None:
        mixed = mixed + np.sin(frequency * y + phase)
    return np.asarray(np.mod(100.0 * mixed, 1.0))


def select_centers(z: Array, n_centers: int, seed: int) -> Array:
    """Return at most `n_centers` distinct rows of z (n, p), by their content."""
    distinct = np.unique(z, axis=0)
    keys = content_keys(distinct, None, seed)
    order = np.argsort(keys, kind="stable")
    return np.asarray(distinct[order[:n_centers]])


def column_knots(values: Array) -> Array:
    """Return knots (k, 1) at the quantiles of the distinct values of a column."""
    # Of the distinct values: repeated ones would draw all knots to them.
    distinct = np.unique(values)
    probabilities = np.linspace(0, 1, N_KNOTS)
    knots = np.unique(np.quantile(distinct, probabilities))
    return np.asarray(knots[:, None])


@dataclass(frozen=True)
class LevelFactor:
    """A further grouping factor.

    Attributes
    ----------
    name : str
    is_nested : bool
        Whether every level occurs in one task only.
    n_levels : int
    """

    name: str
    is_nested: bool
    n_levels: int


def make_design(
    rows: SmoothRows,
    weights: Array,
    *,
    common_parts: tuple[str, ...],
    task_parts: tuple[str, ...],
    factors: tuple[LevelFactor, ...] = (),
    n_centers: int = 150,
    seed: int = 0,
) -> SmoothDesign:
    """Make the parts of a model from the rows of training.

    Parameters
    ----------
    rows : SmoothRows of n rows
    weights : ndarray of shape (n,)
        They center the features.
    common_parts, task_parts : tuple of str
        Names out of `COMMON_PARTS` and `TASK_PARTS`. Parts that need other columns are
        left out.
    factors : tuple of LevelFactor
        Further grouping factors, in the order of ``rows.levels``.
    n_centers, seed : int
    """
    p = rows.z.shape[1]
    # A function of a column with two values is a line.
    n_values = np.array([len(np.unique(rows.z[:, j])) for j in range(p)])
    curved_columns = np.flatnonzero(n_values > 2)
    has_curves = 0 < len(curved_columns) <= MAX_ADDITIVE_COLUMNS
    additive: tuple[NystroemFeatures, ...] = ()
    if has_curves and "additive" in (*common_parts, *task_parts):
        scale = 1 / np.sqrt(len(curved_columns))
        additive = tuple(
            NystroemFeatures.fit(
                column_knots(rows.clipped[:, j]),
                np.array([j]),
                ADDITIVE_LENGTH,
                scale,
            )
            for j in curved_columns
        )
    centers = rows.clipped[:0]
    if p and {"wide", "narrow", "smooth"} & {*common_parts, *task_parts}:
        centers = select_centers(rows.clipped, n_centers, seed)
    columns = np.arange(p)

    common: list[CommonPart] = []
    for name in common_parts:
        if name == "linear" and p:
            common.append(CommonPart(name, (LinearFeatures.fit(rows.z),)))
        elif name == "additive" and has_curves:
            maps = tuple(features.centered(rows, weights) for features in additive)
            common.append(CommonPart(name, maps))
        # With one column the additive part has about the length of the wide one.
        elif (name == "wide" and p > 1) or (name == "narrow" and p):
            radial = NystroemFeatures.fit(centers, columns, CENTER_LENGTHS[name])
            common.append(CommonPart(name, (radial.centered(rows, weights),)))
    own_parts: list[TaskPart] = []
    for name in task_parts:
        if name == "level":
            own_parts.append(LevelPart())
        elif name == "slopes" and p:
            own_parts.append(SlopesPart())
        elif name == "smooth" and p:
            radial = NystroemFeatures.fit(centers, columns, SMOOTH_LENGTH)
            own_parts.append(SmoothPart(radial))
        elif name == "additive" and has_curves:
            own_parts.append(AdditivePart(curved_columns, additive))
    for position, factor in enumerate(factors):
        label = f"levels of {factor.name}"
        if factor.is_nested:
            own_parts.append(NestedLevelPart(position, label))
        else:
            indicators = IndicatorFeatures(position, np.arange(factor.n_levels))
            common.append(CommonPart(label, (indicators,)))
    return SmoothDesign(tuple(common), tuple(own_parts))
