"""Neural networks of several tasks: one per task, one with a shared body, and one
with related outputs.
"""

from __future__ import annotations

import itertools
from typing import Annotated, Any, Literal, Self

import numpy as np
from sklearn.utils import check_random_state

from mtlrun.estimators.base import BaseMTL, RegressorMTL, usual_bytes
from mtlrun.estimators.inputs import KeepsGroups, check_groups
from mtlrun.estimators.metadata import MethodMetadata
from mtlrun.estimators.params import (
    Count,
    NonNegative,
    Positive,
    TaskColumn,
    Unseen,
    integer,
    satisfies,
)
from mtlrun.problem.objective import centre
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import Array, TaskData, dense
from mtlrun.solvers.relationship.fetr import check_box
from mtlrun.solvers.relationship.network import (
    Layer,
    Prior,
    TrainedNetwork,
    forward,
    load_torch,
    train_network,
)


def _are_layer_sizes(value: Any) -> bool:
    if not isinstance(value, tuple | list):
        return False
    return all(integer(1).accepts(units) for units in value)


_LAYERS = satisfies("a tuple of positive ints", _are_layer_sizes)


class MTNetwork(KeepsGroups, RegressorMTL, BaseMTL):
    """Neural networks: with a shared body (MTN), one per task (STN), or with related
    outputs (MTN-FETR).

    Fully connected networks with rectifiers, which need PyTorch (extra ``nn``). Adam
    minimizes, with N observed entries in all and W (h, T) the weights of the last
    layer::

        1/N [sum of squares + prior(W)] + weight_decay/2 * (sum of squares of all weights)

    * "mtn": all layers but the last are shared by the tasks, without a prior.
    * "stn": a network for every task, without a prior.
    * "mtn-fetr": a shared body and ``prior(W) = eta ||W||_F^2 + rho [tr(S1 W S2 W') - T
      log|S1| - h log|S2|]`` as in `FETR`; W is learned by back-propagation, S1 and S2
      by their closed form after every epoch.

    Inside, every column of X (over the rows of all tasks) and the targets of each task
    have mean 0 and variance 1; predictions are in the original units. Sample weights
    are not supported; targets of a 2-D `y` may be missing. Prediction needs no PyTorch.

    Parameters
    ----------
    variant : {"mtn", "stn", "mtn-fetr"}, default "mtn"
        The model, see above.
    hidden : tuple of int, default (256, 100)
        Units of the hidden layers, as in the paper.
    eta : float, default 1.0
        Positive strength of the ridge term of the prior ("mtn-fetr").
    rho : float, default 1.0
        Positive strength of the prior ("mtn-fetr").
    lower : float, default 0.01
        Smallest eigenvalue allowed in S1 and S2.
    upper : float, default 100.0
        Largest eigenvalue allowed in S1 and S2.
    weight_decay : float, default 0.0
        Strength of the squared norm of all weights.
    learning_rate : float, default 1e-3
        First step of Adam; it falls to zero along half a cosine.
    batch_size : int, default 256
        Rows per step.
    max_iter : int, default 100
        Largest number of epochs.
    early_stopping : bool, default False
        Whether to hold a tenth of the rows out, stop when ten epochs have not lowered
        the error on them, and keep the network of the best epoch; "stn" does so task by
        task.
    random_state : int, RandomState or None, default 0
        For the first weights and the order of the rows.

    Attributes
    ----------
    networks_ : list of list of (weights, biases)
        One network with an output per task, or one per task ("stn"); for data in the
        original units.
    feature_precision_, feature_covariance_ : ndarray of shape (h, h)
        Of the last hidden units ("mtn-fetr").
    task_precision_, task_covariance_ : ndarray of shape (n_tasks, n_tasks)
        Of the tasks ("mtn-fetr").
    objective_ : list of float
        Mean over the batches of each epoch, summed over the networks.
    n_iter_ : int
        Epochs; of several networks, the most.
    converged_ : bool
        Always True.

    References
    ----------
    R. Caruana, "Multitask learning", Machine Learning, 1997.
    H. Zhao, O. Stretcu, A. J. Smola and G. J. Gordon, "Efficient multitask feature and
    relationship learning", 2017.
    """

    metadata = MethodMetadata(
        digits=2,
        cite=("caruana1997", "zhao2017"),
        complexity="O(N * weights) per epoch",
        default_grid={"learning_rate": (0.001, 0.01), "weight_decay": (0.0, 0.001)},
        extra="nn",
    )
    _without = ("coef_", "intercept_", "gap_", "stop_crit_")

    def __init__(
        self,
        variant: Literal["mtn", "stn", "mtn-fetr"] = "mtn",
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        hidden: Annotated[tuple[int, ...], _LAYERS] = (256, 100),
        eta: Positive = 1.0,
        rho: Positive = 1.0,
        lower: Positive = 0.01,
        upper: Positive = 100.0,
        weight_decay: NonNegative = 0.0,
        learning_rate: Positive = 1e-3,
        batch_size: Count = 256,
        max_iter: Count = 100,
        early_stopping: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.variant = variant
        self.task_column = task_column
        self.unseen = unseen
        self.hidden = hidden
        self.eta = eta
        self.rho = rho
        self.lower = lower
        self.upper = upper
        self.weight_decay = weight_decay
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.random_state = random_state

    def fit(  # type: ignore[override]  # no sample weights
        self, X: Any, y: Any, *, task_id: Any = None, groups: Any = None
    ) -> Self:
        """Train the network(s); arguments as for the other estimators, without sample
        weights.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_tasks)
        task_id : array-like of shape (n_samples,), optional
        groups : array-like of shape (n_samples,), optional
            The rows that early stopping holds out are whole groups. A network with rows
            of one group only is trained for all epochs.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a parameter out of range and what the other estimators refuse.
        ConfigError
            If PyTorch is not installed.
        """
        self._groups = check_groups(groups, X)
        try:
            return super().fit(X, y, task_id=task_id)
        finally:
            del self._groups

    def _bytes(self, data: TaskData) -> float:
        """Dense designs; weights, gradients and the means of Adam in single
        precision, then the weights in double.
        """
        n_outputs = data.n_tasks
        n_networks = 1
        if self.variant == "stn":
            # A network per task; their results are kept.
            n_outputs = 1
            n_networks = data.n_tasks
        layers = [data.n_features, *self.hidden, n_outputs]
        # One more row than inputs: the biases.
        weights = sum((a + 1) * b for a, b in itertools.pairwise(layers))
        related = 0
        if self.variant == "mtn-fetr":
            related = layers[-2] ** 2 + data.n_tasks**2
        batch = min(self.batch_size, data.n_rows) * sum(layers)
        copies = 5 + n_networks + self.early_stopping
        design = data.n_rows * data.n_features
        designs = usual_bytes(data, designs=0) + 8.0 * 4 * design
        return designs + 8.0 * (copies * weights + 4 * batch + 12 * related)

    def _fit_data(self, data: TaskData) -> SolverResult:
        check_box(self.lower, self.upper)
        load_torch()
        scaling = _Scaling(data)
        scaled = scaling.apply(data)
        random = check_random_state(self.random_state)
        if self.variant == "stn":
            parts = [scaled.subset_tasks([t]) for t in range(data.n_tasks)]
        else:
            parts = [scaled]
        groups = getattr(self, "_groups", None)
        if groups is not None and data.order is not None:
            groups = groups[data.order]
        groups_of_parts = [groups] * len(parts)
        if groups is not None and data.offsets is not None and self.variant == "stn":
            groups_of_parts = list(np.split(groups, data.offsets[1:-1]))
        trained = [
            self._train(part, int(random.randint(2**31 - 1)), part_groups)
            for part, part_groups in zip(parts, groups_of_parts, strict=True)
        ]
        networks = []
        for t, network in enumerate(trained):
            tasks = slice(None)
            if self.variant == "stn":
                tasks = slice(t, t + 1)
            networks.append(scaling.undo(network.layers, tasks))
        self.networks_ = networks
        prior = {"feature": trained[0].feature, "task": trained[0].task}
        for name, precision in prior.items():
            # Those of an earlier fit with another variant must not remain.
            self.__dict__.pop(f"{name}_precision_", None)
            self.__dict__.pop(f"{name}_covariance_", None)
            if precision is not None:
                setattr(self, f"{name}_precision_", precision.matrix)
                setattr(self, f"{name}_covariance_", precision.covariance)
        histories = [network.objective for network in trained]
        n_iter = max(len(history) for history in histories)
        # A network that stopped early stays as it is.
        padded = [h + h[-1:] * (n_iter - len(h)) for h in histories]
        objective = np.sum(padded, axis=0).tolist()
        # The coefficients of a task are its weights in the last layer.
        W = np.hstack([layers[-1][0] for layers in self.networks_])
        intercept = np.zeros(data.n_tasks)
        return SolverResult(W[np.newaxis], intercept, True, n_iter, objective)

    def _train(self, data: TaskData, seed: int, groups: Array | None) -> TrainedNetwork:
        prior = None
        if self.variant == "mtn-fetr":
            prior = Prior(self.eta, self.rho, self.lower, self.upper)
        return train_network(
            data,
            tuple(self.hidden),
            prior=prior,
            weight_decay=self.weight_decay,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            epochs=self.max_iter,
            early_stopping=self.early_stopping,
            seed=seed,
            groups=groups,
        )

    def _publish(self, result: SolverResult) -> None:
        self._publish_run(result)

    def _scores_of_tasks(self, X: Any) -> Array:
        return np.hstack([forward(layers, X) for layers in self.networks_])

    def _scores_of_rows(self, X: Any, codes: Array) -> Array:
        scores = self._scores_of_tasks(X)
        picked = scores[np.arange(len(codes)), codes]
        return np.where(codes < 0, scores.mean(axis=1), picked)


class _Scaling:
    """Mean 0 and variance 1 for the columns of X and the targets of each task;
    constant ones are only centered.
    """

    def __init__(self, data: TaskData) -> None:
        X = dense(data.X)
        largest = np.abs(X).max(axis=0)
        self._x_mean = X.mean(axis=0)
        self._x_scale = _unit(X.std(axis=0), largest)
        centred = centre(data)
        self._y_mean = centred.y_mean
        squares = data.sum_by_task(np.square(centred.data.targets))
        std = np.sqrt(squares / data.sizes)
        self._y_scale = _unit(std, np.abs(self._y_mean))

    def apply(self, data: TaskData) -> TaskData:
        """Return the scaled data, with a dense X."""
        scaled_X = (dense(data.X) - self._x_mean) / self._x_scale
        centred = data.targets - data.spread(self._y_mean)
        targets = centred / data.spread(self._y_scale)
        if data.observed is not None:
            targets = np.where(data.observed, targets, 0.0)
        return data.with_design(scaled_X).with_targets(targets)

    def undo(self, layers: list[Layer], tasks: slice) -> list[Layer]:
        """Return the network of the scaled data as one of the original ones, for
        some of the tasks.
        """
        weights, biases = layers[0]
        weights = weights / self._x_scale[:, None]
        first = (weights, biases - self._x_mean @ weights)
        layers = [first, *layers[1:]]
        # After the first, because a network without hidden layers has only one.
        weights, biases = layers[-1]
        scale = self._y_scale[tasks]
        last = (weights * scale, biases * scale + self._y_mean[tasks])
        return [*layers[:-1], last]


def _unit(spread: Array, size: Array) -> Array:
    """Return the spreads, 1 where they are rounding of constants of the given sizes."""
    return np.where(spread > 1e-12 * size, spread, 1.0)
