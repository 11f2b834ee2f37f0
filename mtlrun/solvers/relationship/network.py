"""Training of small fully connected networks with one output per task.

PyTorch is imported when a network is trained.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np

from mtlrun.data.groups import group_split, strata_of
from mtlrun.errors import ConfigError
from mtlrun.problem.taskdata import Array, Design, TaskData, dense
from mtlrun.solvers.relationship.fetr import (
    Precision,
    exact_precision,
    feature_moment,
    task_moment,
)

#: Weights (inputs, outputs) and biases (outputs,) of one layer.
Layer = tuple[Array, Array]
# Early stopping holds out one row in this many, and waits this many epochs for a lower
# error on them.
_HELD_OUT = 10
_PATIENCE = 10


@dataclass(frozen=True)
class Prior:
    """Strengths of the relationship prior on the last layer, as in `solve_fetr`."""

    eta: float
    rho: float
    lower: float
    upper: float


@dataclass
class TrainedNetwork:
    """A network and how it came about.

    Attributes
    ----------
    layers : list of (weights, biases)
        The last one has an output per task; a rectifier follows each of the others.
    objective : list of float
        Mean of the objective over the batches of each epoch.
    feature, task : Precision or None
        Of the rows (hidden units) and columns (tasks) of the last weights, with a
        prior.
    """

    layers: list[Layer]
    objective: list[float] = field(default_factory=list)
    feature: Precision | None = None
    task: Precision | None = None


def load_torch() -> ModuleType:
    """Import PyTorch.

    Raises
    ------
    ConfigError
        With the command that installs it.
    """
    try:
        import torch
    except ImportError:
        raise ConfigError(
            "MTNetwork needs PyTorch, which is not installed", "pip install '.[nn]'"
        ) from None
    return torch


def forward(layers: list[Layer], X: Design) -> Array:
    """Return the outputs of a network for rows X, of shape (n, T)."""
    for weights, biases in layers[:-1]:
        # X may be sparse in the first layer.
        products = np.asarray(X @ weights)
        X = np.maximum(products + biases, 0.0)
    weights, biases = layers[-1]
    return np.asarray(X @ weights) + biases


def train_network(
    data: TaskData,
    hidden: tuple[int, ...],
    *,
    prior: Prior | None = None,
    weight_decay: float = 0.0,
    learning_rate: float = 1e-3,
    batch_size: int = 256,
    epochs: int = 100,
    early_stopping: bool = False,
    seed: int = 0,
    groups: Any = None,
) -> TrainedNetwork:
    """Minimize the squared error by Adam on random batches, in single precision.

    With N observed entries in all, the objective is::

        1/N [sum of squares + prior of the last weights W]
            + weight_decay/2 * (sum of squares of all weights)
        prior = eta ||W||_F^2 + rho [tr(S1 W S2 W') - T log|S1| - h log|S2|]

    W is learned by back-propagation like the layers below; after every epoch S1 and S2
    are replaced by their exact minimizers with eigenvalues in a box. Columns of X and
    targets should be about of unit scale.

    Parameters
    ----------
    data : TaskData
        Any layout, without weights except for missing targets; a sparse X is made
        dense.
    hidden : tuple of int
        Units of the hidden layers.
    prior : Prior, optional
    weight_decay : float, default 0.0
    learning_rate : float, default 1e-3
        Of Adam; it falls to zero along a half cosine.
    batch_size : int, default 256
    epochs : int, default 100
    early_stopping : bool, default False
        Hold a tenth of the rows out, stop when ten epochs have not lowered the squared
        error on them, and return the network of the epoch in which it was lowest.
    seed : int, default 0
        Of the first weights and of the order of the rows; torch's global generator is
        not touched.
    groups : array-like of shape (n_rows,), optional
        Early stopping holds out whole groups; of a single group it holds out nothing.

    Raises
    ------
    ConfigError
        If PyTorch is not installed.
    """
    torch = load_torch()
    generator = torch.Generator().manual_seed(seed)
    batches = _Batches(torch, data)
    # Weights and biases in turn, uniform within 1 / sqrt(inputs) as in PyTorch's linear
    # layers
    parameters = []
    sizes = [data.n_features, *hidden, data.n_tasks]
    for inputs, outputs in itertools.pairwise(sizes):
        for shape in ((inputs, outputs), (outputs,)):
            uniform = torch.rand(shape, generator=generator)
            values = (2.0 * uniform - 1.0) * inputs**-0.5
            parameters.append(values.requires_grad_())
    if prior is None:
        penalty = None
    else:
        # Weights and biases alternate: the last weights come before the last biases.
        penalty = _Penalty(torch, prior, parameters[-2])
    rows = torch.arange(data.n_rows)
    held = torch.arange(0)
    if early_stopping and groups is not None:
        if len(np.unique(groups)) > 1:
            kept, left_out = held_out_groups(data, groups, seed)
            rows = torch.from_numpy(kept)
            held = torch.from_numpy(left_out)
    elif early_stopping and data.n_rows > 1:
        n_held = math.ceil(data.n_rows / _HELD_OUT)
        permutation = torch.randperm(data.n_rows, generator=generator)
        held, rows = permutation.tensor_split([n_held])
    optimizer = torch.optim.Adam(parameters, lr=learning_rate)
    # The learning rate changes after every batch, not only after every epoch.
    n_batches = math.ceil(len(rows) / batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer,
        epochs * n_batches,
    )
    history: list[float] = []
    best = TrainedNetwork([])
    least = np.inf
    for _ in range(epochs):
        order = rows[torch.randperm(len(rows), generator=generator)]
        total = 0.0
        for batch in order.split(batch_size):
            # An unbiased estimate of the sum over all rows, as the prior is not
            # divided among the batches.
            rows_per_batch_row = data.n_rows / len(batch)
            loss = batches.loss(parameters, batch) * rows_per_batch_row
            if penalty is not None:
                loss = loss + penalty.value()
            loss = loss / batches.count
            if weight_decay > 0:
                # Of the weights, not of the biases.
                squares = sum(p.square().sum() for p in parameters[::2])
                loss = loss + 0.5 * weight_decay * squares
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += float(loss.detach()) * len(batch)
        if penalty is not None:
            penalty.update()
        history.append(total / len(rows))
        if not len(held):
            continue
        error = float(batches.loss(parameters, held).detach())
        if error < least:
            best = _network(parameters, history[:], penalty)
            least = error
            continue
        # `best` keeps the history up to its epoch.
        n_worse_epochs = len(history) - len(best.objective)
        if n_worse_epochs >= _PATIENCE:
            break
    if best.layers:
        # The network of the best epoch, with the history of all epochs.
        return replace(best, objective=history)
    return _network(parameters, history, penalty)


def held_out_groups(data: TaskData, groups: Any, seed: int) -> tuple[Array, Array]:
    """Return the rows to train on, and rows of groups that hold about a tenth."""
    if data.shared:
        tasks = None
    else:
        tasks = np.repeat(np.arange(data.n_tasks), data.sizes)
    strata = strata_of(data.targets, tasks, labels=False)
    train_share = 1 - 1 / _HELD_OUT
    return group_split(groups, strata, data.targets, train_share, seed)


def _network(
    parameters: list[Any],
    objective: list[float],
    penalty: _Penalty | None,
) -> TrainedNetwork:
    """Return a copy of the network as it is now."""
    # `astype` copies: the next step of Adam changes the parameters in place.
    arrays = [p.detach().numpy().astype(np.float64) for p in parameters]
    weights = arrays[::2]
    biases = arrays[1::2]
    layers = list(zip(weights, biases, strict=True))
    if penalty is None:
        return TrainedNetwork(layers, objective)
    return TrainedNetwork(layers, objective, penalty.feature, penalty.task)


class _Batches:
    """Rows of the data as tensors, and the squared error of some of them."""

    def __init__(self, torch: ModuleType, data: TaskData) -> None:
        X = dense(data.X)
        self._X = torch.from_numpy(X.astype(np.float32))
        self._y = torch.from_numpy(data.targets.astype(np.float32))
        if data.observed is None:
            self._observed = None
        else:
            self._observed = torch.from_numpy(data.observed.astype(np.float32))
        if data.shared:
            self._task = None
        else:
            # Each row has one target, the one of its task.
            task_of_row = np.repeat(np.arange(data.n_tasks), data.sizes)
            self._task = torch.from_numpy(task_of_row)
        self.count = int(data.sizes.sum())

    def loss(self, parameters: list[Any], rows: Array) -> Any:
        """Return the sum of squares over observed entries of some rows."""
        out = self._X[rows]
        hidden_weights = parameters[:-2:2]
        hidden_biases = parameters[1:-2:2]
        for weights, biases in zip(hidden_weights, hidden_biases, strict=True):
            out = (out @ weights + biases).relu()
        out = out @ parameters[-2] + parameters[-1]
        if self._task is not None:
            out = out.gather(1, self._task[rows][:, None])[:, 0]
        error = (out - self._y[rows]).square()
        # Missing targets are 0, and must not count.
        if self._observed is not None:
            error = error * self._observed[rows]
        return error.sum()


class _Penalty:
    """Relationship prior of the last weights W (h, T), with its precision matrices."""

    def __init__(self, torch: ModuleType, prior: Prior, W: Any) -> None:
        self._torch = torch
        self._prior = prior
        self._W = W
        start = min(max(1.0, prior.lower), prior.upper)
        self.feature = Precision.scalar(W.shape[0], start)
        self.task = Precision.scalar(W.shape[1], start)
        self._tensors()

    def value(self) -> Any:
        """Return the prior as a function of W."""
        # tr(S1 W S2 W') as a sum of products of entries; S1 and S2 are constants here.
        trace = (self._W * (self._S1 @ self._W @ self._S2)).sum()
        ridge_term = self._prior.eta * self._W.square().sum()
        return ridge_term + self._prior.rho * (trace - self._logs)

    def update(self) -> None:
        """Replace both matrices by their minimizers."""
        # In double precision: eigenvalues decide which bounds are active.
        W = self._W.detach().numpy().astype(np.float64)
        p = self._prior
        self.feature = exact_precision(
            feature_moment(W, self.task.matrix),
            W.shape[1],
            p.lower,
            p.upper,
        )
        self.task = exact_precision(
            task_moment(W, self.feature.matrix),
            W.shape[0],
            p.lower,
            p.upper,
        )
        self._tensors()

    def _tensors(self) -> None:
        self._S1 = self._torch.from_numpy(self.feature.matrix.astype(np.float32))
        self._S2 = self._torch.from_numpy(self.task.matrix.astype(np.float32))
        n_hidden, n_tasks = self._W.shape
        self._logs = n_tasks * self.feature.logdet + n_hidden * self.task.logdet
