"""Convex models whose strength is chosen by cross-validation along a path.

`mtlrun.estimators.path_base` has what they share.
"""

from __future__ import annotations

from mtlrun.estimators.convex import ClassLoss, ConvexSolver, Intercepts
from mtlrun.estimators.mixtures import (
    DirtyMTL,
    DirtyMTLClassifier,
    RobustFeatureMTL,
    RobustFeatureMTLClassifier,
    SparseLowRankMTL,
    SparseLowRankMTLClassifier,
)
from mtlrun.estimators.params import (
    ClassWeight,
    Count,
    NonNegative,
    Positive,
    TaskColumn,
    Unseen,
)
from mtlrun.estimators.path_base import (
    BetaCV,
    PathCV,
    Ratio,
    Scoring,
    Splitting,
    Strengths,
)
from mtlrun.estimators.penalized import (
    JointFeatureMTL,
    JointFeatureMTLClassifier,
    SparseMTL,
    SparseMTLClassifier,
    SparseSolver,
    TraceNormMTL,
    TraceNormMTLClassifier,
)
from mtlrun.estimators.robust import (
    RobustForm,
    RobustMTL,
    RobustMTLClassifier,
    RobustSolver,
    RobustStop,
    RobustVariant,
)
from mtlrun.estimators.temporal import (
    FusedMTL,
    FusedMTLClassifier,
    TemporalGroupLasso,
    TemporalGroupLassoClassifier,
)


class SparseMTLCV(PathCV, SparseMTL):
    """`SparseMTL` with `alpha` chosen by cross-validation along its path."""

    def __init__(
        self,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: SparseSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class SparseMTLClassifierCV(PathCV, SparseMTLClassifier):
    """`SparseMTLClassifier` with `alpha` chosen by cross-validation along its path."""

    def __init__(
        self,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: SparseSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        class_weight: ClassWeight = None,
        loss: ClassLoss = "logistic",
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.loss = loss
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class JointFeatureMTLCV(PathCV, JointFeatureMTL):
    """`JointFeatureMTL` with `alpha` chosen by cross-validation along its path."""

    def __init__(
        self,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: SparseSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class JointFeatureMTLClassifierCV(PathCV, JointFeatureMTLClassifier):
    """`JointFeatureMTLClassifier` with `alpha` chosen by cross-validation along its
    path.
    """

    def __init__(
        self,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: SparseSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        class_weight: ClassWeight = None,
        loss: ClassLoss = "logistic",
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.loss = loss
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class TraceNormMTLCV(PathCV, TraceNormMTL):
    """`TraceNormMTL` with `alpha` chosen by cross-validation along its path.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import TraceNormMTLCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 4))
    >>> Y = np.outer(X[:, 0], [1, 2, 3]) + 0.1 * rng.normal(size=(60, 3))
    >>> model = TraceNormMTLCV(cv=3).fit(X, Y)
    >>> model.scores_path_.shape, bool(0 < model.alpha_ < model.alphas_[0])
    ((50, 3), True)
    """

    def __init__(
        self,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: ConvexSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class TraceNormMTLClassifierCV(PathCV, TraceNormMTLClassifier):
    """`TraceNormMTLClassifier` with `alpha` chosen by cross-validation along its
    path.
    """

    def __init__(
        self,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: ConvexSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        class_weight: ClassWeight = None,
        loss: ClassLoss = "logistic",
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.loss = loss
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class RobustMTLCV(BetaCV, RobustMTL):
    """`RobustMTL` with `beta` chosen by cross-validation along its path; `alpha_` is
    1 / `beta_`.
    """

    def __init__(
        self,
        lam: Positive = 0.5,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: RobustSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        variant: RobustVariant = "corrected",
        stop: RobustStop = "auto",
        form: RobustForm = "eigenbasis",
        eps: Positive = 1e-5,
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.lam = lam
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.variant = variant
        self.stop = stop
        self.form = form
        self.eps = eps
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class RobustMTLClassifierCV(BetaCV, RobustMTLClassifier):
    """`RobustMTLClassifier` with `beta` chosen by cross-validation along its path;
    `alpha_` is 1 / `beta_`.
    """

    def __init__(
        self,
        lam: Positive = 0.5,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: RobustSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        variant: RobustVariant = "corrected",
        stop: RobustStop = "auto",
        form: RobustForm = "eigenbasis",
        eps: Positive = 1e-5,
        class_weight: ClassWeight = None,
        loss: ClassLoss = "squared",
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.lam = lam
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.variant = variant
        self.stop = stop
        self.form = form
        self.eps = eps
        self.class_weight = class_weight
        self.loss = loss
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class RobustFeatureMTLCV(PathCV, RobustFeatureMTL):
    """`RobustFeatureMTL` with `alpha` chosen by cross-validation along its path."""

    def __init__(
        self,
        lam: Positive = 0.6,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: ConvexSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.lam = lam
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class RobustFeatureMTLClassifierCV(PathCV, RobustFeatureMTLClassifier):
    """`RobustFeatureMTLClassifier` with `alpha` chosen by cross-validation along its
    path.
    """

    def __init__(
        self,
        lam: Positive = 0.6,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: ConvexSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        class_weight: ClassWeight = None,
        loss: ClassLoss = "logistic",
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.lam = lam
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.loss = loss
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class SparseLowRankMTLCV(PathCV, SparseLowRankMTL):
    """`SparseLowRankMTL` with `alpha` chosen by cross-validation along its path."""

    def __init__(
        self,
        lam: Positive = 0.6,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: ConvexSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.lam = lam
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class SparseLowRankMTLClassifierCV(PathCV, SparseLowRankMTLClassifier):
    """`SparseLowRankMTLClassifier` with `alpha` chosen by cross-validation along its
    path.
    """

    def __init__(
        self,
        lam: Positive = 0.6,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: ConvexSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        class_weight: ClassWeight = None,
        loss: ClassLoss = "logistic",
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.lam = lam
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.loss = loss
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class DirtyMTLCV(PathCV, DirtyMTL):
    """`DirtyMTL` with `alpha` chosen by cross-validation along its path."""

    def __init__(
        self,
        lam: Positive = 0.6,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: ConvexSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.lam = lam
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class DirtyMTLClassifierCV(PathCV, DirtyMTLClassifier):
    """`DirtyMTLClassifier` with `alpha` chosen by cross-validation along its path."""

    def __init__(
        self,
        lam: Positive = 0.6,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: ConvexSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        class_weight: ClassWeight = None,
        loss: ClassLoss = "logistic",
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.lam = lam
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.loss = loss
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class TemporalGroupLassoCV(PathCV, TemporalGroupLasso):
    """`TemporalGroupLasso` with `alpha` chosen by cross-validation along its path."""

    def __init__(
        self,
        smoothness: NonNegative = 1.0,
        ridge: NonNegative = 0.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: ConvexSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.smoothness = smoothness
        self.ridge = ridge
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class TemporalGroupLassoClassifierCV(PathCV, TemporalGroupLassoClassifier):
    """`TemporalGroupLassoClassifier` with `alpha` chosen by cross-validation along
    its path.
    """

    def __init__(
        self,
        smoothness: NonNegative = 1.0,
        ridge: NonNegative = 0.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: ConvexSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        class_weight: ClassWeight = None,
        loss: ClassLoss = "logistic",
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.smoothness = smoothness
        self.ridge = ridge
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.loss = loss
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class FusedMTLCV(PathCV, FusedMTL):
    """`FusedMTL` with `alpha` chosen by cross-validation along its path."""

    def __init__(
        self,
        fusion: NonNegative = 1.0,
        sparsity: NonNegative = 0.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: ConvexSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.fusion = fusion
        self.sparsity = sparsity
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring


class FusedMTLClassifierCV(PathCV, FusedMTLClassifier):
    """`FusedMTLClassifier` with `alpha` chosen by cross-validation along its path."""

    def __init__(
        self,
        fusion: NonNegative = 1.0,
        sparsity: NonNegative = 0.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: ConvexSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        class_weight: ClassWeight = None,
        loss: ClassLoss = "logistic",
        alphas: Strengths = 50,
        min_ratio: Ratio = 1e-3,
        cv: Splitting = 5,
        scoring: Scoring = None,
    ) -> None:
        self.fusion = fusion
        self.sparsity = sparsity
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.loss = loss
        self.alphas = alphas
        self.min_ratio = min_ratio
        self.cv = cv
        self.scoring = scoring
