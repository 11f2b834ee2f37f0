"""Smooth models of several targets on the same rows.

Row i has the targets y_i1 ... y_iT. There are up to four predictions of each target:

    targets     y_ij = mu_j + f_j(x_i) + e_ij: every target by a model of its own
    components  the same for every principal component of the standardized targets,
                rotated back
    forest      random forests
    ridge       ridge regressions, with strengths by leave-one-out errors

f_j is a sum of the common parts of `smooth_parts`, with variances by restricted
likelihood. The predictions of target j are mixed with weights that are not negative and
sum to one, and minimize the squared errors of rows that a prediction has not seen:
leave-one-out errors, and out-of-bag errors of the forests. With e_j(w) the mean squared
error of the mixture w of standardized target j, its weights minimize::

    e_j(w) + mean over targets k of e_k(w)

With few rows or outliers, weights from one target are noisy; the mean stabilizes them.
Where targets are fitted alone, the mean is left out.

Components borrow strength: directions in which the targets vary together have less
noise than single targets. Where that does not help, their weight is zero.

Missing targets are filled with the predictions of "targets" before components and a
forest of all targets are fitted. They do not count in the mixture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from sklearn import config_context
from sklearn.tree import DecisionTreeRegressor

from mtlrun.solvers.hierarchical.smooth import SmoothOptions, fit_smooth, standardized
from mtlrun.solvers.hierarchical.smooth_blocks import SmoothData
from mtlrun.solvers.hierarchical.smooth_parts import (
    SmoothDesign,
    SmoothRows,
    content_keys,
)

Array = np.ndarray

TARGETS = "targets"
COMPONENTS = "components"
FOREST = "forest"
RIDGE = "ridge"
#: Predictions that can be mixed.
TARGET_PARTS: tuple[str, ...] = (TARGETS, COMPONENTS, FOREST, RIDGE)
#: Components with less variance than this share of the first are left out.
MIN_COMPONENT = 1e-10
#: Trees of a forest, and the share of columns tried for a split.
N_TREES = 150
COLUMN_SHARE = 0.5
#: Strengths of a ridge regression, in units of the number of rows.
RIDGE_STRENGTHS = np.logspace(-4, 2, 19)
#: With fewer rows there is no forest.
MIN_FOREST_ROWS = 10
#: A set of predictions replaces a smaller one if its error is lower by this share.
MIX_SLACK = 1e-9
#: Decimal places of the standardized numbers that a forest sees.
FOREST_DIGITS = 6


@dataclass(frozen=True)
class TargetData:
    """Rows that all targets share.

    Attributes
    ----------
    design : SmoothDesign
        Without parts of single tasks.
    rows : SmoothRows of n rows
    targets : ndarray of shape (n, T)
        NaN where missing.
    weights : ndarray of shape (n, T)
        Not zero where a target is observed.
    """

    design: SmoothDesign
    rows: SmoothRows
    targets: Array
    weights: Array

    @property
    def is_observed(self) -> Array:
        """Whether a target is observed, (n, T)."""
        return np.isfinite(self.targets)

    def output(self, j: int) -> tuple[SmoothData, float, float]:
        """Return the rows of one target, standardized, with its center and unit."""
        index = np.flatnonzero(self.is_observed[:, j])
        weights = self.weights[index, j]
        numbers = SmoothData(
            self.design,
            self.rows.take(index),
            np.zeros(len(index), dtype=int),
            self.targets[index, j],
            weights.mean() / weights,
        )
        return standardized(numbers)

    def features(self) -> Array:
        """Return the features of the rows and a column of ones, (n, m + 1)."""
        return features_and_ones(self.design, self.rows)


@dataclass(frozen=True)
class TargetFunctions:
    """Functions of q outputs, each fitted alone, on the same features.

    Attributes
    ----------
    theta : ndarray of shape (q, J)
        Variances of the parts in units of s2.
    s2 : ndarray of shape (q,)
        Variance of the noise of a row of weight 1, in units of the standardized output.
    center, unit : ndarray of shape (q,)
        An output is center + unit times the standardized one.
    coefficients : ndarray of shape (m + 1, q)
        Of the features and a column of ones, in units of the outputs.
    grams : tuple of ndarray of shape (m + 1, m + 1)
        Weighted products of the features and ones: one for all outputs, or one each.
    groups : ndarray of int, shape (m,)
        Part of each feature.
    """

    theta: Array
    s2: Array
    center: Array
    unit: Array
    coefficients: Array
    grams: tuple[Array, ...]
    groups: Array

    @property
    def n_outputs(self) -> int:
        """Number q of outputs."""
        return len(self.s2)

    def part_variances(self, features: Array) -> Array:
        """Return expected variances of the parts over rows, (q, J)."""
        n_parts = self.theta.shape[1]
        # Without the column of ones.
        variances = features[:, :-1].var(axis=0)
        spread = np.bincount(self.groups, variances, n_parts)
        return np.asarray(self.noise[:, None] * self.theta * spread)

    @property
    def noise(self) -> Array:
        """Variance of the noise of each output, (q,)."""
        return np.asarray(self.s2 * self.unit**2)

    def mean(self, features: Array) -> Array:
        """Return predictions (n, q) for features and ones (n, m + 1)."""
        return np.asarray(features @ self.coefficients)

    def variance(self, features: Array, missed: Array) -> Array:
        """Return variances of the functions, without noise, (n, q).

        Parameters
        ----------
        features : ndarray of shape (n, m + 1)
        missed : ndarray of shape (n, J)
            Variances of the parts that the features miss, in units of theta.
        """
        variance = np.empty((len(features), self.n_outputs))
        m = len(self.groups)
        diagonal = np.arange(m)
        for j in range(self.n_outputs):
            gram = self.grams[j if len(self.grams) > 1 else 0]
            roots = np.sqrt(self.theta[j])
            scale = np.append(roots[self.groups], 1.0)
            # In units of prior standard deviations; the mean has a flat prior.
            precision = scale[:, None] * gram * scale
            precision[diagonal, diagonal] += 1.0
            scaled = features * scale
            spread = np.linalg.solve(precision, scaled.T).T
            inside = (spread * scaled).sum(axis=1) + missed @ self.theta[j]
            variance[:, j] = np.maximum(inside, 0.0) * self.noise[j]
        return variance


@dataclass(frozen=True)
class OutputFits:
    """Result of the fits of several outputs.

    Attributes
    ----------
    functions : TargetFunctions
    leave_one_out : ndarray of shape (n, q)
        Predictions of each output from the other rows; NaN where it is missing.
    deviation : ndarray of shape (n, q)
        Standard deviations of the leave-one-out errors, as the models expect them.
    objective : float
        Sum of minus twice the log-likelihoods and log priors.
    start : float
        The same sum where the searches started.
    gap : float
        Largest reduction that a further step would bring.
    n_evaluations : int
    converged : bool
    """

    functions: TargetFunctions
    leave_one_out: Array
    deviation: Array
    objective: float
    start: float
    gap: float
    n_evaluations: int
    converged: bool


@dataclass(frozen=True)
class Forests:
    """One random forest for all targets, or one for each.

    Attributes
    ----------
    members : tuple of tuple of DecisionTreeRegressor
        Trees of each forest, fitted to standardized targets.
    columns : ndarray of int, shape (p,)
        Order of the standardized columns in the forests.
    targets : ndarray of int, shape (T,)
        Position of the target of each output.
    center, unit : ndarray of shape (T,)
    """

    members: tuple[tuple[DecisionTreeRegressor, ...], ...]
    columns: Array
    targets: Array
    center: Array
    unit: Array

    def predict(self, rows: SmoothRows) -> Array:
        """Return predictions (n, T)."""
        z = np.round(rows.z[:, self.columns], FOREST_DIGITS).astype(np.float32)
        outputs = []
        for trees in self.members:
            total = sum(tree.predict(z, check_input=False) for tree in trees)
            outputs.append(np.reshape(total / len(trees), (len(z), -1)))
        standard = np.empty((len(z), len(self.targets)))
        standard[:, self.targets] = np.hstack(outputs)
        return np.asarray(self.center + self.unit * standard)


@dataclass(frozen=True)
class RidgeTargets:
    """Ridge regressions of all targets on standardized columns.

    Attributes
    ----------
    intercept : ndarray of shape (T,)
    coefficients : ndarray of shape (p, T)
    strength : ndarray of shape (T,)
        Factor of the squared norm of the coefficients; weights have the mean 1.
    """

    intercept: Array
    coefficients: Array
    strength: Array

    def predict(self, rows: SmoothRows) -> Array:
        """Return predictions (n, T)."""
        return np.asarray(self.intercept + rows.z @ self.coefficients)


@dataclass(frozen=True)
class SmoothTargets:
    """A fitted model of several targets.

    Attributes
    ----------
    design : SmoothDesign
    targets : TargetFunctions
        Of every target alone.
    components : TargetFunctions or None
        Of the principal components.
    rotation : ndarray of shape (n_components, T)
        Components times the rotation, plus `center`, are targets.
    center : ndarray of shape (T,)
    forests : Forests or None
    ridge : RidgeTargets or None
    mixture : ndarray of shape (n_predictions, T)
        Weights of the predictions: targets, then components, forests and ridge
        regressions where there are some.
    calibration : ndarray of shape (T,)
        Factor on variances, by which leave-one-out errors have the variance expected.
    """

    design: SmoothDesign
    targets: TargetFunctions
    components: TargetFunctions | None
    rotation: Array
    center: Array
    forests: Forests | None
    ridge: RidgeTargets | None
    mixture: Array
    calibration: Array

    @property
    def names(self) -> list[str]:
        """Names of the predictions in the mixture."""
        names = [TARGETS]
        if self.components is not None:
            names.append(COMPONENTS)
        if self.forests is not None:
            names.append(FOREST)
        if self.ridge is not None:
            names.append(RIDGE)
        return names

    def mean(self, rows: SmoothRows) -> Array:
        """Return predictions of all targets, (n, T)."""
        features = features_and_ones(self.design, rows)
        predictions = [self.targets.mean(features)]
        if self.components is not None:
            scores = self.components.mean(features)
            predictions.append(self.center + scores @ self.rotation)
        if self.forests is not None:
            predictions.append(self.forests.predict(rows))
        if self.ridge is not None:
            predictions.append(self.ridge.predict(rows))
        return mixed(predictions, self.mixture)

    def variance(
        self,
        rows: SmoothRows,
        *,
        has_noise: bool = True,
        n_averaged: int = 1,
    ) -> Array:
        """Return variances of new targets (n, T).

        Parameters
        ----------
        rows : SmoothRows of n * n_averaged rows
        has_noise : bool
            Whether the noise of a row of weight 1 is in them.
        n_averaged : int
            Consecutive rows whose function values are averaged.
        """
        n = len(rows) // n_averaged
        features = features_and_ones(self.design, rows)
        features = features.reshape(n, n_averaged, -1).mean(axis=1)
        missed = np.empty((n, len(self.design.common)))
        for k, part in enumerate(self.design.common):
            unseen = part.unseen_variance(rows).reshape(n, n_averaged)
            missed[:, k] = unseen.mean(axis=1)
        variances = [self.targets.variance(features, missed)]
        if has_noise:
            variances[0] += self.targets.noise
        if self.components is not None:
            scores = self.components.variance(features, missed)
            if has_noise:
                scores += self.components.noise
            # The components are independent.
            variances.append(scores @ np.square(self.rotation))
        shares = smooth_share(self.mixture, variances)
        return self.calibration * mixed(variances, shares)


def features_and_ones(design: SmoothDesign, rows: SmoothRows) -> Array:
    """Return the features of rows and a column of ones, (n, m + 1)."""
    features = design.common_features(rows)
    ones = np.ones((len(rows), 1))
    return np.hstack([features, ones])


def mixed(predictions: Sequence[Array], weights: Array) -> Array:
    """Return sums of predictions (n, T) with weights (n_predictions, T)."""
    total = np.zeros(predictions[0].shape)
    for prediction, weight in zip(predictions, weights, strict=True):
        # Predictions without weight may be missing (NaN).
        total += np.where(weight > 0, weight * prediction, 0.0)
    return total


def smooth_share(mixture: Array, variances: Sequence[Array]) -> Array:
    """Return the weights of the smooth predictions, which have variances.

    Forests and ridge regressions lack variances. They get the mean variance of the
    smooth predictions, or the variance of "targets" if these have no weight.
    """
    weights = mixture[: len(variances)].copy()
    total = weights.sum(axis=0)
    weights[0, total <= 0] = 1.0
    return np.asarray(weights / np.where(total > 0, total, 1.0))


# ---------------------------------------------------------------------- fit


@dataclass(frozen=True)
class TargetsFit:
    """A fitted model of several targets with its certificate.

    Attributes
    ----------
    model : SmoothTargets
    fits : tuple of OutputFits
        Of the targets, and of the components where there are some.
    leave_one_out : ndarray of shape (n, T)
        Mixed predictions of rows from the others; NaN where a target is missing.
    """

    model: SmoothTargets
    fits: tuple[OutputFits, ...]
    leave_one_out: Array


@dataclass(eq=False)
class SeparateFits:
    """Fits of every target alone, which models of the same rows share.

    Parameters
    ----------
    data : TargetData
    options : SmoothOptions
    """

    data: TargetData
    options: SmoothOptions

    @cached_property
    def smooth(self) -> OutputFits:
        """Smooth functions."""
        return fit_outputs(self.data, self.options)

    @cached_property
    def ridge(self) -> tuple[RidgeTargets, Array]:
        """Ridge regressions and their leave-one-out predictions (n, T)."""
        return fit_ridge(self.data)


def fit_targets(
    separate: SeparateFits, parts: Sequence[str], *, is_joint: bool = True
) -> TargetsFit:
    """Fit a model of several targets.

    Parameters
    ----------
    separate : SeparateFits
    parts : sequence of str
        Some of `TARGET_PARTS`. "targets" is fitted in any case, but it has no weight
        where it is not named and another prediction is there.
    is_joint : bool
        Whether one forest predicts all targets, and all errors choose the mixtures;
        else each target has a separate forest and mixture.
    """
    data = separate.data
    options = separate.options
    alone = separate.smooth
    fits = [alone]
    names = [TARGETS]
    held_out = [alone.leave_one_out]
    center = np.zeros(data.targets.shape[1])
    rotation = np.zeros((0, len(center)))
    components = None
    # Components and joint forests need complete targets: predictions fill the gaps.
    is_needed = COMPONENTS in parts or (FOREST in parts and is_joint)
    filled = data.targets
    if is_needed and not data.is_observed.all():
        predicted = alone.functions.mean(data.features())
        filled = np.where(data.is_observed, data.targets, predicted)
    row_weights = data.weights.mean(axis=1)
    if COMPONENTS in parts:
        center, rotation, scores = principal_components(filled, row_weights)
        if len(rotation):
            weights = np.repeat(row_weights[:, None], len(rotation), axis=1)
            rotated_data = replace(data, targets=scores, weights=weights)
            rotated = fit_outputs(rotated_data, options)
            fits.append(rotated)
            names.append(COMPONENTS)
            components = rotated.functions
            held_out.append(center + rotated.leave_one_out @ rotation)
    forests = None
    if FOREST in parts and len(filled) >= MIN_FOREST_ROWS and data.rows.z.shape[1]:
        targets = filled if is_joint else data.targets
        forests, out_of_bag = fit_forests(
            data.rows,
            targets,
            row_weights,
            options.seed,
            is_joint=is_joint,
        )
        names.append(FOREST)
        held_out.append(out_of_bag)
    ridge = None
    if RIDGE in parts and data.rows.z.shape[1]:
        ridge, ridge_held_out = separate.ridge
        names.append(RIDGE)
        held_out.append(ridge_held_out)

    is_mixed = np.array([name in parts for name in names])
    if not is_mixed.any():
        is_mixed[0] = True
    mixture = mix(held_out, data, is_mixed, is_joint=is_joint)
    leave_one_out = mixed(held_out, mixture)
    leave_one_out[~data.is_observed] = np.nan

    # Calibrated so that leave-one-out errors have the expected variance.
    expected = [np.square(alone.deviation)]
    if components is not None:
        variances_of_scores = np.square(fits[1].deviation)
        expected.append(variances_of_scores @ np.square(rotation))
    variance = mixed(expected, smooth_share(mixture, expected))
    squared = np.square(data.targets - leave_one_out)
    ratio = squared / np.maximum(variance, 1e-300)
    is_counted = data.is_observed & (variance > 0)
    counts = np.maximum(is_counted.sum(axis=0), 1)
    calibration = np.where(is_counted, ratio, 0.0).sum(axis=0) / counts
    calibration[~is_counted.any(axis=0)] = 1.0

    model = SmoothTargets(
        design=data.design,
        targets=alone.functions,
        components=components,
        rotation=rotation,
        center=center,
        forests=forests,
        ridge=ridge,
        mixture=mixture,
        calibration=calibration,
    )
    return TargetsFit(model, tuple(fits), leave_one_out)


def fit_outputs(data: TargetData, options: SmoothOptions) -> OutputFits:
    """Fit every column of the targets alone."""
    n, n_outputs = data.targets.shape
    groups = data.design.groups
    theta = np.empty((n_outputs, len(data.design.common)))
    s2 = np.empty(n_outputs)
    center = np.empty(n_outputs)
    unit = np.empty(n_outputs)
    coefficients = np.empty((len(groups) + 1, n_outputs))
    leave_one_out = np.full((n, n_outputs), np.nan)
    deviation = np.full((n, n_outputs), np.nan)
    objective = 0.0
    start = 0.0
    gap = 0.0
    n_evaluations = 0
    converged = True
    for j in range(n_outputs):
        index = np.flatnonzero(data.is_observed[:, j])
        numbers, center[j], unit[j] = data.output(j)
        fit = fit_smooth(numbers, options)
        posterior = fit.posterior
        theta[j] = posterior.theta
        s2[j] = posterior.s2
        coefficients[:-1, j] = unit[j] * posterior.u
        coefficients[-1, j] = center[j] + unit[j] * posterior.mu
        # From the units of the fit, whose targets are standardized.
        leave_one_out[index, j] = center[j] + unit[j] * fit.leave_one_out
        deviation[index, j] = unit[j] * fit.leave_one_out_std
        objective += fit.variances.objective
        start += fit.variances.path[0]
        gap = max(gap, fit.variances.predicted_reduction)
        n_evaluations += fit.n_evaluations
        converged &= fit.variances.converged
    # Weights of a mean of 1 over the observed rows of each output, as in its fit.
    weights = np.where(data.is_observed, data.weights, 0.0)
    weights = weights * data.is_observed.sum(axis=0) / weights.sum(axis=0)
    if (weights == weights[:, :1]).all():
        weights = weights[:, :1]
    features = data.features()
    # Products of the features and ones, once if all outputs have the same.
    grams = tuple((features.T * column) @ features for column in weights.T)
    functions = TargetFunctions(theta, s2, center, unit, coefficients, grams, groups)
    return OutputFits(
        functions,
        leave_one_out,
        deviation,
        objective,
        start,
        gap,
        n_evaluations,
        converged,
    )


def principal_components(Y: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Return center (T,), rotation (q, T) and scores (n, q) of standardized targets.

    Scores times the rotation, plus the center, are the targets.
    """
    total = weights.sum()
    center = weights @ Y / total
    deviations = Y - center
    unit = np.sqrt(weights @ np.square(deviations) / total)
    # Constant targets have no part in the components.
    is_constant = unit <= 1e-12 * np.maximum(np.abs(center), 1e-300)
    unit = np.where(is_constant, 0.0, unit)
    standard = deviations / np.where(is_constant, np.inf, unit)
    covariance = (standard.T * weights) @ standard / total
    eigenvalues, vectors = np.linalg.eigh(covariance)
    kept = eigenvalues > MIN_COMPONENT * max(eigenvalues[-1], 1e-300)
    # The largest first.
    vectors = vectors[:, kept][:, ::-1]
    return center, vectors.T * unit, standard @ vectors


def fit_forests(
    rows: SmoothRows,
    targets: Array,
    weights: Array,
    seed: int,
    *,
    is_joint: bool,
) -> tuple[Forests, Array]:
    """Return random forests and their out-of-bag predictions (n, T).

    The random numbers of a forest belong to positions, and rounding decides between
    equally good splits. So rows, columns and targets are sorted by their content, and
    rounded.
    """
    n, n_targets = targets.shape
    is_observed = np.isfinite(targets)
    mean = np.nanmean(targets, axis=0)
    unit = np.nanstd(targets, axis=0)
    varies = unit > 1e-12 * np.maximum(np.abs(mean), 1e-300)
    unit = np.where(varies, unit, 1.0)
    standard = np.where(is_observed, (targets - mean) / unit, 0.0)
    keys = content_keys(np.hstack([rows.z, standard]), None, seed)
    order = np.argsort(keys, kind="stable")
    standard = np.round(standard[order], FOREST_DIGITS)
    z = np.round(rows.z[order], FOREST_DIGITS)
    columns = np.lexsort(z[::-1])
    z = z[:, columns]
    row_weights = np.round(weights[order] / weights.mean(), FOREST_DIGITS)
    is_observed = is_observed[order]
    groups = [np.lexsort(standard[::-1])]
    if not is_joint:
        groups = [np.array([target]) for target in range(n_targets)]
    out_of_bag = np.full((n, n_targets), np.nan)
    members = []
    for group in groups:
        is_row = is_observed[:, group].all(axis=1)
        trees, predicted = _fit_trees(
            z[is_row], standard[np.ix_(is_row, group)], row_weights[is_row], seed
        )
        members.append(trees)
        positions = np.ix_(order[is_row], group)
        out_of_bag[positions] = mean[group] + unit[group] * predicted
    targets_of_outputs = np.concatenate(groups)
    forests = Forests(tuple(members), columns, targets_of_outputs, mean, unit)
    return forests, out_of_bag


def _fit_trees(
    z: Array, outputs: Array, weights: Array, seed: int
) -> tuple[tuple[DecisionTreeRegressor, ...], Array]:
    """Return trees of bootstrap samples and out-of-bag predictions (n, q).

    A forest of scikit-learn makes three generators of random numbers for each tree. The
    trees share one here. With checks left out, that takes half of the time.
    """
    n = len(z)
    random = np.random.RandomState(seed)
    z = z.astype(np.float32)
    total = np.zeros(outputs.shape)
    n_predictions = np.zeros(n)
    trees = []
    # The rows and the parameters need no checks, which take a fifth of the time.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for _ in range(N_TREES):
            counts = np.bincount(random.randint(n, size=n), minlength=n)
            tree = DecisionTreeRegressor(max_features=COLUMN_SHARE, random_state=random)
            tree.fit(z, outputs, sample_weight=weights * counts, check_input=False)
            # A saved model needs no generator.
            tree.random_state = None
            left_out = np.flatnonzero(counts == 0)
            if len(left_out):
                predicted = tree.predict(z[left_out], check_input=False)
                total[left_out] += predicted.reshape(len(left_out), -1)
                n_predictions[left_out] += 1
            trees.append(tree)
    # Rows that all trees have seen are predicted as the mean.
    return tuple(trees), total / np.maximum(n_predictions, 1.0)[:, None]


def fit_ridge(data: TargetData) -> tuple[RidgeTargets, Array]:
    """Return ridge regressions and their leave-one-out predictions (n, T).

    Each strength minimizes the leave-one-out error.
    """
    z = data.rows.z
    n_targets = data.targets.shape[1]
    intercept = np.empty(n_targets)
    coefficients = np.empty((z.shape[1], n_targets))
    chosen = np.empty(n_targets)
    held_out = np.full(data.targets.shape, np.nan)
    for j in range(n_targets):
        index = np.flatnonzero(data.is_observed[:, j])
        n = len(index)
        weights = data.weights[index, j]
        weights = weights / weights.mean()
        y = data.targets[index, j]
        center = weights @ y / n
        column_means = weights @ z[index] / n
        root = np.sqrt(weights)
        X = root[:, None] * (z[index] - column_means)
        U, singular, Vt = np.linalg.svd(X, full_matrices=False)
        squares = np.square(singular)
        response = root * (y - center)
        projected = U.T @ response
        best_error = np.inf
        for strength in n * RIDGE_STRENGTHS:
            shrinkage = squares / (squares + strength)
            # The mean adds to the leverage of each row. The leave-one-out error is the
            # residual over one minus the leverage.
            leverage = np.square(U) @ shrinkage + weights / n
            residual = response - U @ (shrinkage * projected)
            left_out = residual / np.maximum(1 - leverage, 1e-12)
            error = float(left_out @ left_out)
            if error < best_error:
                best_error = error
                chosen[j] = strength
                held_out[index, j] = y - left_out / root
                scale = singular / (squares + strength)
                coefficients[:, j] = Vt.T @ (scale * projected)
        intercept[j] = center - column_means @ coefficients[:, j]
    return RidgeTargets(intercept, coefficients, chosen), held_out


def mix(
    predictions: Sequence[Array],
    data: TargetData,
    is_mixed: Array,
    *,
    is_joint: bool,
) -> Array:
    """Return weights of held-out predictions that minimize the squared errors.

    Parameters
    ----------
    predictions : sequence of ndarray of shape (n, T)
    data : TargetData
    is_mixed : ndarray of bool, shape (n_predictions,)
        Predictions that may have weight.
    is_joint : bool
        Whether to add the mean errors of all targets.

    Returns
    -------
    ndarray of shape (n_predictions, T)
        Not negative; every column sums to one.
    """
    members = np.flatnonzero(is_mixed).tolist()
    n_targets = data.targets.shape[1]
    moments = np.empty((n_targets, len(members), len(members)))
    for j in range(n_targets):
        index = np.flatnonzero(data.is_observed[:, j])
        y = data.targets[index, j]
        weights = data.weights[index, j]
        weights = weights / weights.sum()
        variance = weights @ np.square(y - weights @ y)
        columns = np.column_stack([predictions[k][index, j] for k in members])
        errors = columns - y[:, None]
        moments[j] = (errors.T * weights) @ errors
        # A constant target has no unit.
        if variance > 0:
            moments[j] /= variance
    if is_joint:
        moments += moments.mean(axis=0)
    weights_of_targets = np.zeros((len(predictions), n_targets))
    for j in range(n_targets):
        weights_of_targets[members, j] = convex_weights(moments[j])
    return weights_of_targets


def convex_weights(moments: Array) -> Array:
    """Return weights w >= 0 with sum 1 that minimize w'Mw.

    Try all sets of positive weights, small sets first: there are at most 15.

    Parameters
    ----------
    moments : ndarray of shape (k, k)
        M, sums of products of the errors of k predictions.
    """
    k = len(moments)
    best = np.full(k, 1.0 / k)
    lowest = np.inf
    for size in range(1, k + 1):
        for members in combinations(range(k), size):
            M = moments[np.ix_(members, members)]
            # With w = (1 - sum of b, b) the error is M_00 + 2 g'b + b'D b.
            g = M[1:, 0] - M[0, 0]
            D = M[1:, 1:] - M[1:, :1] - M[:1, 1:] + M[0, 0]
            b, *_ = np.linalg.lstsq(D, -g, rcond=None)
            weights = np.append(1 - b.sum(), b)
            error = float(weights @ M @ weights)
            if (weights >= 0).all() and error < lowest * (1 - MIX_SLACK):
                lowest = error
                best = np.zeros(k)
                best[list(members)] = weights
    return best
