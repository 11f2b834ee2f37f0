"""Models that choose their strength by cross-validation along the path of strengths."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable
from copy import copy
from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning

from mtlrun.data.groups import group_folds, strata_of
from mtlrun.data.splits import TaskStratifiedKFold
from mtlrun.estimators.base import EQUAL_SOLVERS
from mtlrun.estimators.convex import Path, PathMTL
from mtlrun.estimators.inputs import (
    KeepsGroups,
    balanced,
    check_groups,
    drop_unweighted,
    ids_of_rows,
    weighted_rows,
)
from mtlrun.estimators.params import (
    NONE,
    Declared,
    choice,
    has_generated_init,
    integer,
    real,
    satisfies,
)
from mtlrun.metrics import METRICS, average, labels_from_scores, seen_rows
from mtlrun.problem import memory
from mtlrun.problem.losses import SquaredLoss
from mtlrun.problem.quadratic import gram_bytes
from mtlrun.problem.statistics import TaskStatistics
from mtlrun.problem.taskdata import Array, TaskData

if TYPE_CHECKING:
    _Model = PathMTL
else:  # it stands before a model that brings all of this
    _Model = Declared

Rows = tuple[Array, Array]

Strengths = Annotated[
    Any,
    integer(1) | satisfies("an array of strengths", lambda value: np.ndim(value) == 1),
]
Ratio = Annotated[float, real(0, 1, closed="neither")]
Splitting = Annotated[
    Any,
    integer(2)
    | satisfies(
        "a splitter or splits",
        lambda value: hasattr(value, "split") or np.iterable(value),
    ),
]
Scoring = Annotated[str | None, choice(*METRICS) | NONE]


class PathCV(KeepsGroups, _Model):
    """Mixin that chooses the strength of a model with a path by cross-validation.

    Parameters
    ----------
    alphas : int or array-like of float, default 50
        Strengths to try, or how many: logarithmically spaced, from the least one for
        which all coefficients are zero on all data.
    min_ratio : float, default 1e-3
        The smallest strength relative to the largest.
    cv : int, splitter or iterable of (train, test) rows, default 5
        A number means that many folds of `TaskStratifiedKFold` in random order, the
        same in each fit.
    scoring : str, default None
        A metric of `mtlrun.metrics`, averaged over the tasks of a fold; None is "mse",
        for classifiers "accuracy".

    Attributes
    ----------
    alpha_ : float
        The selected strength, with the best mean over the folds; ties go to the
        largest.
    alphas_ : ndarray of shape (n_alphas,)
        All strengths, the largest first.
    scores_path_ : ndarray of shape (n_alphas, n_folds)
        The metric by strength and fold.

    Notes
    -----
    The model is fitted along the path of each fold, each strength starting from the
    solution of the one before, and once on all data with the strength chosen. With the
    squared loss, free intercepts and more rows than features, the sums of products of
    all rows are computed once. The sums of a training part are their difference from
    the sums of its test part, and a fold is then solved as a problem of d + 1 rows. With
    one L1 or L21 norm, a shared design and at most 128 features, all strengths of a
    fold are solved in one compiled loop on the sums. Sample weights count in the fits,
    not in the scores.
    """

    _by_sums = False  # scores need the rows

    _: KW_ONLY
    alphas: Strengths = 50
    min_ratio: Ratio = 1e-3
    cv: Splitting = 5
    scoring: Scoring = None

    #: The parameter that the path replaces.
    _strength: ClassVar[str] = "alpha"

    def __init_subclass__(cls, **options: Any) -> None:
        # The strength is an attribute of the copies that are fitted, not a parameter;
        # every path starts warm.
        fixed: dict[str, Any] = {cls._strength: 1.0, "warm_start": False}
        is_generated = has_generated_init(cls)
        if is_generated:
            hints = dict.fromkeys(fixed, "float")
            cls.__annotations__ = {**hints, **inspect.get_annotations(cls)}
        for name, value in fixed.items():
            if is_generated:
                # The model declares them as parameters, which this takes back.
                value = field(init=False, default=value)
            setattr(cls, name, value)
        super().__init_subclass__(**options)

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        task_id: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> Self:
        """Choose the strength and fit the model.

        Arguments and errors are as in the model without cross-validation, and:

        Parameters
        ----------
        groups : array-like of shape (n_samples,), optional
            Rows of a group stay together in the folds, with a number as `cv`. A
            splitter of scikit-learn gets the groups, splits that are listed stay as
            they are.
        """
        rows = weighted_rows(sample_weight, X)
        groups = check_groups(groups, X, sample_weight)
        X, y, task_id, sample_weight = drop_unweighted(
            X, y, task_id, sample_weight, task_column=self.task_column
        )
        data = self._prepare(X, y, task_id=task_id, sample_weight=sample_weight)
        self._require_memory(data)
        is_balanced = getattr(self, "class_weight", None) == "balanced"
        unbalanced = data
        if is_balanced:
            # Classes are balanced in the training rows of each fold.
            plain = copy(self)
            plain.class_weight = None
            unbalanced = plain._prepare(
                X, y, task_id=task_id, sample_weight=sample_weight
            )
        folds = self._folds(X, y, task_id, groups, rows, data)
        self.alphas_ = self._strengths(data, self.alphas, self.min_ratio)
        metric = self.scoring or ("accuracy" if is_classifier(self) else "mse")
        parts = [data.select_rows(test, complete=False) for _, test in folds]
        statistics = None
        if not is_balanced:
            statistics = self._statistics(data, parts)
        scores = []
        n_unconverged = 0
        for k, part in enumerate(parts):
            model = copy(self)
            if statistics:
                path = self._walk_together(statistics[k], self.alphas_)
                if path is None:
                    # Data of d + 1 rows per design, and the means subtracted: their
                    # models have no intercept.
                    condensed, x_mean, y_mean = statistics[k].sufficient_statistics(
                        centred=self.fit_intercept
                    )
                    model.tasks_ = condensed.tasks
                    model.fit_intercept = False
                    path = model._walk(condensed, self.alphas_)
                    intercept = y_mean - (x_mean * path.coef).sum(axis=2)
                    path = path._replace(intercept=intercept)
            else:
                fitted = unbalanced.select_rows(folds[k][0])
                if is_balanced:
                    fitted = balanced(fitted)
                model.tasks_ = fitted.tasks
                path = model._walk(fitted, self.alphas_)
                if not data.shared:
                    rows = seen_rows(part.spread(part.tasks), fitted.tasks)
                    if rows is not None:
                        part = part.select_rows(rows)
                in_both = np.isin(fitted.tasks, part.tasks)
                path = path._replace(
                    coef=path.coef[:, in_both], intercept=path.intercept[:, in_both]
                )
            n_unconverged += int(np.sum(~path.converged))
            scores.append(self._scores_of(path, part, metric))
        self.scores_path_ = np.column_stack(scores)
        if n_unconverged:
            text = (
                f"{n_unconverged} fits of the cross-validation did not converge. "
                "Increase max_iter or min_ratio."
            )
            warnings.warn(text, ConvergenceWarning, stacklevel=2)
        means = self.scores_path_.mean(axis=1) * (
            1 if METRICS[metric].greater_is_better else -1
        )
        if np.isnan(means).all():
            raise ValueError(
                f"{metric} is undefined in a fold for all tasks; use fewer folds or "
                "another `scoring`"
            )
        self.alpha_ = float(self.alphas_[np.nanargmax(means)])
        self._publish(self._at(self.alpha_)._solve(data))
        return self

    def _folds(
        self,
        X: Any,
        y: Any,
        task_id: Any,
        groups: Any,
        kept: Array | None,
        data: TaskData,
    ) -> list[Rows]:
        """Return training and test rows of `data`, sorted.

        `kept` are the rows of positive weight in the arguments of `fit`, None for all:
        splits that are listed are positions among those arguments.
        """
        n = data.n_rows
        ids = ids_of_rows(X, task_id, self.task_column)
        if isinstance(self.cv, int | np.integer):
            if n < self.cv:
                raise ValueError(
                    f"{self.cv} folds need as many rows, got n_samples={n}"
                )
            labels = is_classifier(self) and self._layout != "shared"
            if groups is None:
                splitter = TaskStratifiedKFold(
                    int(self.cv), labels=labels, random_state=0
                )
                pairs: Iterable[Any] = splitter.split(np.empty((n, 0)), y, groups=ids)
            else:
                targets = data.targets
                if data.observed is not None:
                    targets = np.where(data.observed, targets, np.nan)
                targets = data.unsort(targets)
                tasks = None
                if not data.shared:
                    codes = np.repeat(np.arange(data.n_tasks), data.sizes)
                    tasks = data.unsort(codes)
                strata = strata_of(targets, tasks, labels=labels)
                pairs = group_folds(groups, strata, targets, int(self.cv), seed=0)
        elif groups is not None and hasattr(self.cv, "split"):
            if isinstance(self.cv, TaskStratifiedKFold):
                raise ValueError(
                    "TaskStratifiedKFold does not keep groups together; give the "
                    "number of folds as cv, or a splitter such as GroupKFold"
                )
            pairs = self.cv.split(X, y, groups=groups)
        elif isinstance(self.cv, TaskStratifiedKFold) and ids is not None:
            pairs = self.cv.split(X, y, groups=ids)
        elif hasattr(self.cv, "split"):
            pairs = self.cv.split(X, y)
        elif kept is None:
            pairs = self.cv
        else:
            pairs = []
            for train, test in self.cv:
                train = np.asarray(train)
                test = np.asarray(test)
                kept_train = train[np.isin(train, kept)]
                kept_test = test[np.isin(test, kept)]
                pairs.append(
                    (
                        np.searchsorted(kept, kept_train),
                        np.searchsorted(kept, kept_test),
                    )
                )
        fold_of_row = np.arange(n)
        if data.order is not None:
            fold_of_row[data.order] = np.arange(n)
        return [
            (np.sort(fold_of_row[train]), np.sort(fold_of_row[test]))
            for train, test in pairs
        ]

    def _statistics(
        self, data: TaskData, parts: list[TaskData]
    ) -> list[TaskStatistics] | None:
        """Return sums over the training rows of each fold, where these are less work
        than the rows; `parts` are the test rows.
        """
        designs = 1
        if not data.shared:
            designs = data.n_tasks
        # The sums determine the squared loss, but neither another loss nor shrunken
        # intercepts. Using them pays off only where there are several times fewer than
        # entries.
        if (
            not isinstance(self._loss(), SquaredLoss)
            or self.solver not in EQUAL_SOLVERS
            or self._shrinks_intercepts
        ):
            return None
        if data.n_rows < 2 * designs * data.n_features:
            return None
        if not memory.fits(3 * gram_bytes(data)):
            return None
        statistics = TaskStatistics.of_data(data)
        training = []
        for part in parts:
            if part.n_tasks < data.n_tasks:
                return None
            rest = statistics - TaskStatistics.of_data(part, like=statistics)
            # A task without training rows is handled only with the rows themselves.
            if (rest.weight <= 1e-9 * statistics.weight).any():
                return None
            training.append(rest)
        return training

    def _scores_of(self, path: Path, part: TaskData, metric: str) -> Array:
        """Return the metric of each strength, averaged over tasks."""
        # Coefficients (A, d, T) and intercepts (A, T)
        W = path.coef.transpose(0, 2, 1)
        b = path.intercept
        if part.observed is None:
            y = part.targets
        else:
            y = np.where(part.observed, part.targets, np.nan)
        if part.offsets is None:
            # One product for all tasks and strengths.
            coef = W.transpose(1, 2, 0).reshape(W.shape[1], -1)
            products = part.X @ coef
            Z = products.reshape(*y.shape, -1) + b.T
        else:
            predicted = []
            tasks = zip(W.transpose(2, 1, 0), b.T, strict=True)
            for task, (coef, intercept) in enumerate(tasks):
                X = part.task(task)[0]
                predicted.append(X @ coef + intercept)
            Z = np.concatenate(predicted)
        if metric in ("mse", "rmse"):
            # All strengths at once, which is faster than one metric after the other.
            errors = np.square(Z - y[..., None])
            is_scored = ~np.isnan(errors)
            counts = part.sum_by_task(is_scored.astype(np.float64))
            sums = part.sum_by_task(np.where(is_scored, errors, 0.0))
            values = np.full_like(sums, np.nan)
            np.divide(sums, counts, out=values, where=counts > 0)
            if metric == "rmse":
                values = np.sqrt(values)
            return np.nanmean(values, axis=0)
        if METRICS[metric].needs == "label":
            Z = labels_from_scores(Z)  # as in `predict`: a score of 0 does not mean 1
        layout = {}
        if part.offsets is not None:
            layout = {"offsets": part.offsets}
        scores = []
        for a in range(len(W)):
            values = METRICS[metric](y, Z[..., a], **layout)
            mean, _ = average(values)
            scores.append(mean)
        return np.array(scores)


class BetaCV(PathCV):
    """The strength is the weight `beta` of the loss.

    Attributes
    ----------
    beta_ : float
        The weight of the loss chosen.
    """

    _strength = "beta"

    @property
    def beta_(self) -> float:
        """The weight of the loss chosen."""
        return 1.0 / self.alpha_
