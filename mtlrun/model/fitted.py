"""Fitted methods that predict from the columns of a table.

A `Model` joins an estimator with facts about its training table, so that it takes data
frames and returns the units and labels of the table.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from scipy.special import ndtri
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mtlrun.data.clock import Clock
from mtlrun.data.dataset import Dataset
from mtlrun.data.reading.frames import column_names, ordered_columns
from mtlrun.data.reading.names import class_task, distinct, is_number
from mtlrun.data.reading.table import Table, table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.roles.schema import (
    NewRows,
    Schema,
    UnknownTasks,
    new_rows,
    training_ranges,
)
from mtlrun.data.transforms import transform_named
from mtlrun.engine.evaluation import TrainTestData, predict_labels, predict_std
from mtlrun.engine.job import DatasetRef
from mtlrun.errors import (
    DataError,
    UserError,
    counted,
    listed,
    with_arguments,
)
from mtlrun.estimators.baselines import given, predict_scores
from mtlrun.features.table import TableFeatures, table_step
from mtlrun.model.intervals import LEVEL, Intervals, StoredIntervals
from mtlrun.utils.io import read_fields
from mtlrun.utils.text import normalized, sanitize, table_text

#: Default name of the column of tasks.
TASK_COLUMN = "task"


@dataclass(frozen=True)
class ModelColumns:
    """Columns that a model reads.

    Attributes
    ----------
    n_features : int
    names : list of str
        Empty if columns have no names.
    strings : bool
        Whether the rows are DNA strings.
    categories : dict of str to list of str
        Words of each column of text.
    task_column : str or None
    table : bool
        Whether the feature step is made for tables.
    ranges : dict of str to list of float
        Smallest and largest training value of columns of numbers.
    kept : list of str
        Columns that predictions show next to the task.
    levels : list of str
        Columns of further groups.
    clock : Clock or None
    """

    n_features: int = 0
    names: list[str] = field(default_factory=list)
    strings: bool = False
    categories: dict[str, list[str]] = field(default_factory=dict)
    task_column: str | None = None
    table: bool = False
    ranges: dict[str, Any] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    levels: list[str] = field(default_factory=list)
    clock: Clock | None = None


@dataclass(frozen=True)
class ModelEstimator:
    """Estimator of a model: its name in the training file, its class and parameters."""

    name: str = ""
    class_: str = ""
    per_task: bool = False
    params: dict[str, Any] = field(default_factory=dict)

    def mentions(self, text: str) -> bool:
        """Whether its names, or the names of estimators inside, contain a text."""
        return text in json.dumps(asdict(self))

    @property
    def method(self) -> str:
        """Name of the method, without wrappers that scale targets."""
        name = self.name
        inner = self.params.get("estimator")
        while isinstance(inner, Mapping):
            name = inner["estimator"]
            params = inner.get("params") or {}
            inner = params.get("estimator")
        return str(name).rpartition(":")[2]


@dataclass(frozen=True)
class ModelIntervals:
    """Intervals for tasks of the table and for new tasks, if a model has any."""

    known: StoredIntervals | None = None
    new: StoredIntervals | None = None


@dataclass(frozen=True)
class ModelDescription:
    """Facts about the method and the table of a model.

    Attributes
    ----------
    task_type : {"regression", "binary", "multiclass"}
    design : {"ragged", "shared", "single"}
        Whether each row belongs to one task, has a target for each task, or there is
        one task.
    tasks : list of str
    input : ModelColumns
    estimator : ModelEstimator
    dataset : DatasetRef
    targets : list of str
        Columns of targets of a table.
    labels : dict of str to list of str
        Labels of each target, or of each task where rows belong to tasks.
    label_types : dict of str to str
        Types that the labels of each target had in the table.
    positive : str or None
        Label that counts as positive.
    transform : str or None
        Transform of the targets.
    intervals : ModelIntervals
        From errors on other rows.
    config : dict
        Settings of the training.
    cell : str or None
        Key of the job.
    files : dict of str to str
        Digests of the files next to ``model.json``.
    """

    task_type: Literal["", "regression", "binary", "multiclass"] = ""
    design: Literal["", "ragged", "shared", "single"] = ""
    tasks: list[str] = field(default_factory=list)
    input: ModelColumns = ModelColumns()
    estimator: ModelEstimator = ModelEstimator()
    dataset: DatasetRef = field(default_factory=DatasetRef)
    targets: list[str] = field(default_factory=list)
    labels: dict[str, list[str]] = field(default_factory=dict)
    label_types: dict[str, str] = field(default_factory=dict)
    positive: str | None = None
    transform: str | None = None
    intervals: ModelIntervals = ModelIntervals()
    config: dict[str, Any] = field(default_factory=dict)
    cell: str | None = None
    files: dict[str, str] = field(default_factory=dict)


class Model(BaseEstimator):
    """Fitted method that predicts from a table, as a scikit-learn estimator.

    `predict` takes a data frame with the columns of the training table. It ignores
    other columns, including the targets. `scores`, `labels` and `probabilities` take a
    matrix and positions of tasks.

    Parameters
    ----------
    estimator : estimator
        Its tasks are the positions 0..T-1 in `facts["tasks"]`.
    step : transformer or None
        Applied to X first.
    facts : dict
        ``name, task_type, design, tasks, input {n_features, names, strings}, estimator
        {name, class, params}, dataset {id, options, fingerprint}``, and further facts
        of the caller. `save_model` adds versions and hashes. A model of a table also
        has ``targets`` and ``labels``, as `Dataset` has them.

    Attributes
    ----------
    fitted_ : Model
        Only after `fit`: the method fitted on its rows. Without it, `estimator` and
        `step` must be fitted; a clone has unfitted ones.
    classes_ : ndarray, or list of ndarray
        Original labels, a list for several targets; classifiers only.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Columns that `predict` needs: features and, if rows belong to tasks, the column
        of tasks.
    """

    def __init__(
        self, estimator: Any, step: Any = None, facts: dict[str, Any] | None = None
    ) -> None:
        self.estimator = estimator
        self.step = step
        self.facts = facts

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        description = self._now().description
        n_tasks = counted(len(description.tasks), "task")
        return f"<Model: {description.estimator.name}, {n_tasks}>"

    def __sklearn_is_fitted__(self) -> bool:
        try:
            check_is_fitted(self._now().estimator)
        except NotFittedError:
            return False
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        if self.is_regression:
            tags.estimator_type = "regressor"
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    @property
    def about(self) -> dict[str, Any]:
        """Facts about the method and its table; empty if there are none."""
        return self.facts or {}

    @property
    def description(self) -> ModelDescription:
        """The same facts, typed."""
        facts, description = self.__dict__.get("_described", (None, None))
        if description is None or facts is not self.facts:
            description = read_fields(ModelDescription, self.about)
            self._described = (self.facts, description)
        return description

    @property
    def is_regression(self) -> bool:
        """Whether the targets are numbers."""
        return self.description.task_type == "regression"

    @property
    def ragged(self) -> bool:
        """Whether every row belongs to one task."""
        return self.description.design == "ragged"

    @property
    def by_task(self) -> bool:
        """Whether each row names its task: ragged data, and classes per task."""
        if self.ragged:
            return True
        has_task_column = bool(self.description.input.task_column)
        return has_task_column and bool(self.description.labels)

    @property
    def unseen(self) -> str:
        """Treatment of unknown tasks by the estimator: ``error`` or ``mean``."""
        if not hasattr(self.estimator, "get_params"):
            return "error"
        for name, value in self.estimator.get_params().items():
            # The parameters of an estimator inside another have a prefix.
            is_unseen = name.rpartition("__")[2] == "unseen"
            if is_unseen and value == "mean":
                return "mean"
        return "error"

    @property
    def words(self) -> Mapping[str, list[str]]:
        """Labels of each target, or of each task where rows belong to tasks.

        They are -1 and +1 unless the table had others.
        """
        if self.description.labels:
            return self.description.labels
        return {name: ["-1", "1"] for name in self.description.tasks}

    @property
    def task_names(self) -> list[str]:
        """Tasks to which rows may belong."""
        if self.by_task and not self.ragged:
            # The tasks of the estimator are classes of these tasks.
            return list(self.words)
        return list(self.description.tasks)

    @property
    def target_names(self) -> list[str]:
        """Targets, one per column of `answers`."""
        if self.by_task:
            targets = self.description.targets or ["prediction"]
            return targets[:1]
        return list(self.description.labels or self.description.tasks)

    @property
    def schema(self) -> Schema:
        """Columns that new rows must have."""
        inputs = self.description.input
        task_column = None
        task_names: tuple[str, ...] = ()
        if self.by_task:
            task_column = inputs.task_column or TASK_COLUMN
            task_names = tuple(self.task_names)
        clock = inputs.clock
        if clock is not None:
            clock = clock.of_model(inputs.names, inputs.categories)
        # Features that no training row lacked.
        complete_features: tuple[str, ...] = ()
        if isinstance(self.step, TableFeatures) and hasattr(self.step, "transformer_"):
            complete_columns = self.step.complete_columns()
            complete_features = tuple(inputs.names[j] for j in complete_columns)
        return Schema(
            inputs.n_features,
            tuple(inputs.names),
            inputs.strings,
            task_column,
            inputs.table,
            inputs.categories,
            task_names,
            complete_features,
            clock,
            inputs.ranges,
        )

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns that `predict` needs."""
        schema = self._now().schema
        if not schema.features or not self.__sklearn_is_fitted__():
            raise AttributeError(
                "feature_names_in_ exists for models that were fitted on columns with "
                "names"
            )
        names = list(schema.needed_features)
        if schema.task_column:
            names.append(schema.task_column)
        return np.array(names, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Number of columns that `predict` needs."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError("n_features_in_ exists after fit")
        schema = self._now().schema
        if schema.clock is None:
            return schema.n_features + self.by_task
        return len(schema.needed_features) + self.by_task

    @property
    def classes_(self) -> Any:
        """Original labels; a list of them for several targets."""
        model = self._now()
        if model.is_regression or not self.__sklearn_is_fitted__():
            raise AttributeError("classes_ exists for fitted classifiers")
        if model.by_task:
            labels = list(chain.from_iterable(model.words.values()))
            return np.unique(model._values(labels))
        classes = [model._values(words, name) for name, words in model.words.items()]
        if len(classes) == 1:
            return classes[0]
        return classes

    @with_arguments
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the same method with the same parameters to other rows of the table.

        Parameters
        ----------
        X, y
            As of `dataset`.

        Raises
        ------
        UserError
            As by `dataset`.
        """
        dataset = self.dataset(X, y)
        clock = self.schema.clock
        step = table_step(dataset).fit(dataset.X)
        with config_context(transform_output="default"):
            ready = replace(dataset, X=step.transform(dataset.X), features=[])
        rows = np.arange(dataset.n_samples)
        part = TrainTestData.of(ready, rows, rows[:1])
        estimator = part.fit(clone(self.estimator))
        columns_read = {
            **self.about["input"],
            "n_features": len(dataset.features),
            "names": dataset.features,
            "categories": dataset.categories,
            "ranges": training_ranges(dataset),
        }
        if clock is not None and dataset.clock is not None:
            columns_read["clock"] = dataset.clock.to_dict()
        new_facts = {
            "tasks": dataset.tasks,
            "labels": dataset.labels,
            "input": columns_read,
            "targets": dataset.targets,
            "label_types": dataset.label_types,
            # The intervals of the earlier fit do not hold for this one.
            "intervals": {},
        }
        self.fitted_ = Model(estimator, step, self.about | new_facts)
        return self

    def dataset(self, X: Any, y: Any = None) -> Dataset:
        """Return rows of the table, with targets, as the data set of a fit.

        Parameters
        ----------
        X : data frame
        y : array-like, optional
            Targets with their original labels, a column per target. Columns with names
            may have any order. Default: the columns of X.

        Raises
        ------
        UserError
            If the model was not fitted on a table, and as
            `mtlrun.data.roles.make.make_dataset`.
        """
        schema = self.schema
        targets = [normalized(name) for name in self.description.targets]
        if not schema.table or not targets:
            raise UserError(
                "this model was not fitted on a table",
                "Train it again with `mtlrun train`.",
            )
        frame = table_of_frame(X, like=schema).frame
        if y is not None:
            if column_names(y) is not None:
                values = ordered_columns(y, targets)
            else:
                values = np.asarray(y, dtype=object).reshape(len(frame), -1)
            # Rows of y go by position, so its index says nothing.
            columns_of_y = pd.DataFrame(values).reset_index(drop=True)
            target_frame = table_of_frame(columns_of_y).frame.set_axis(targets, axis=1)
            frame = frame.drop(columns=targets, errors="ignore")
            frame = frame.join(target_frame)
        columns = list(schema.needed_features)
        if schema.task_column:
            columns.append(schema.task_column)
        columns += targets
        lacking = [name for name in columns if name not in frame.columns]
        if lacking:
            raise DataError(
                f"the data frame lacks {listed(lacking)}",
                "The columns of the table are needed.",
            )
        table = Table("data frame", frame[columns])
        clock = schema.clock
        time = None
        since_first = None
        if clock is not None and clock.is_feature:
            since_first = clock.column
        elif clock is not None:
            time = clock.column
        description = self.description
        task_type = description.task_type
        label_lists = description.labels.values()
        has_classes = any(len(labels) > 2 for labels in label_lists)
        if has_classes or (self.by_task and not self.ragged):
            # The estimator was fitted on one binary task per class.
            task_type = "multiclass"
        levels = tuple(description.input.levels)
        roles = Roles(
            targets=tuple(targets),
            task=schema.task_column,
            task_type=task_type,
            positive=description.positive,
            categorical=tuple(set(schema.categories) - set(levels)),
            min_rows=1,
            also_grouped_by=levels,
            transform=description.transform,
            time=time,
            since_first=since_first,
        )
        dataset = make_dataset(table, roles, clock=clock).with_levels()
        if clock is not None and clock.last_column in schema.features:
            dataset = dataset.with_elapsed()
        return dataset

    @with_arguments
    def predict(self, X: Any) -> np.ndarray | pd.Series | pd.DataFrame:
        """Predict new rows, in the units or labels of the table.

        Parameters
        ----------
        X : data frame or array
            A frame with the columns of the table; the targets are optional. An array
            only for a model that needs no column of tasks.

        Returns
        -------
        Series, DataFrame or ndarray
            One prediction per row, or a column per target. For a frame: a Series or
            DataFrame with its index, named after the targets. For an array: an array.
            A model that was fitted again with `fit` returns arrays for frames as well,
            as the tools of scikit-learn that fit it expect.

        Raises
        ------
        DataError
            If columns are missing, or a cell does not fit.
        UnknownNameError
            For a task that the model was not fitted on.
        """
        model = self._now()
        predicted = model.answers(*model.read(X))
        is_frame = isinstance(X, pd.DataFrame) or column_names(X) is not None
        if not is_frame or isinstance(X, Table) or model is not self:
            return predicted
        index = None
        if isinstance(X, pd.DataFrame):
            index = X.index
        names = model.target_names
        if predicted.ndim == 1:
            return pd.Series(predicted, index, name=names[0])
        return pd.DataFrame(predicted, index, names).infer_objects()

    @with_arguments
    def predict_table(
        self, X: Any, *, probabilities: bool = False, interval: float | None = None
    ) -> pd.DataFrame:
        """Predict new rows and flag rows unlike the training rows.

        Does not warn, so that a program which predicts all day can decide for each row.

        Parameters
        ----------
        X : data frame or array
            As of `predict`.
        probabilities : bool, default=False
            Whether to add the probability of the positive label.
        interval : float, optional
            Probability, such as 0.95, with which a new target lies between ``lower``
            and ``upper``; only for models of numbers that have intervals.

        Returns
        -------
        DataFrame
            The columns of ``mtlrun predict``, with the index of X in the place of
            ``row``, and

            is_known_task : bool
                Whether the model was fitted on rows of this task; only where rows
                belong to tasks.
            similar_task : str or None
                Task of the training rows that an unknown task resembles: 95 for 00095.
                It may be the same task, written differently. Only where rows belong to
                tasks.
            unknown_categories : tuple of str
                Columns whose category in this row no training row had.
            missing : tuple of str
                Columns that are empty in this row and were complete in training.
            beyond_range : tuple of str
                Columns whose number or time in this row lies outside the training rows,
                so that the model extrapolates.
            is_beyond_times : bool
                Whether the row lies outside the times of the training rows, so that the
                model extrapolates; only for models that use times.

            Rows of tasks that the model cannot predict have empty cells in place of
            predictions: NaN for numbers, None for labels.

        Raises
        ------
        DataError
            As `predict`.
        UserError
            If the model has no probabilities or no intervals.
        """
        # That module needs this one.

        model = self._now()
        if interval is not None and not 0 < interval < 1:
            raise UserError(
                f"interval={interval:g} is not a probability",
                "Give a number between 0 and 1, such as 0.95.",
            )
        rows = model._new_rows(X)
        names, is_predicted = model.predictable(rows.tasks)
        task_id = model.codes(names, "data frame")
        table = answers_table(
            model,
            rows.X,
            task_id,
            with_probabilities=probabilities,
            interval=interval,
            names=rows.tasks,
            is_predicted=is_predicted,
        )
        table = with_flags(table, model, rows, task_id, is_predicted)
        table = table.drop(columns="row", errors="ignore")
        if isinstance(X, pd.DataFrame):
            table = table.set_axis(X.index)
        return table

    @available_if(lambda self: hasattr(self._now().estimator, "predict_proba"))
    @with_arguments
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each label, in the order of `classes_`.

        The result is a matrix; a list of matrices for several targets.
        """
        model = self._now()
        chances = model.chances(*model.read(X))
        if len(chances) == 1:
            return chances[0]
        return chances

    @available_if(lambda self: not self.is_regression)
    @with_arguments
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of the labels of a data frame.

        Returns
        -------
        ndarray
            For one target with two labels of shape (n,): a row with a score above 0
            gets the second label of `classes_`. Otherwise a column per target with two
            labels, and one per label of a target with more, in the order of `classes_`.
            Where rows belong to tasks with more than two labels, a label that does not
            occur in the task of a row has the score -inf.

        Raises
        ------
        DataError, UnknownNameError
            As `predict`.
        """
        model = self._now()
        X, task_id = model.read(X)
        scores = model.scores(X, task_id)
        if model._is_first_label_positive:
            scores = -scores
        if not model.by_task or model.ragged:
            return _without_single_column(scores)
        scores_by_task = []
        for words, columns in model.outputs():
            values = scores[:, columns]
            if len(words) == 2:
                values = np.column_stack([-values, values])
            scores_by_task.append(values)
        return model._by_class(scores_by_task, task_id, fill=-np.inf)

    def score(self, X: Any, y: Any) -> float:
        """Return R2 of numbers, the accuracy of labels (of all targets together)."""
        model = self._now()
        predicted = model.answers(*model.read(X))
        if predicted.ndim == 2:
            y = ordered_columns(y, model.target_names)
        truth = np.asarray(y, dtype=predicted.dtype).reshape(predicted.shape)
        if self.is_regression:
            return float(r2_score(truth, predicted))
        true_labels = [normalized(str(label)) for label in truth.ravel()]
        labels = [normalized(str(label)) for label in predicted.ravel()]
        return float(accuracy_score(true_labels, labels))

    def read(self, X: Any) -> tuple[Any, np.ndarray | None]:
        """Return the features of new rows as a matrix, and positions of their tasks.

        Parameters
        ----------
        X : data frame, Table or array
            An array holds the features in their order, so it has no column of tasks.
        """
        rows = self._new_rows(X)
        if self.by_task and rows.without_task:
            raise DataError(
                rows.without_task,
                "Every row needs its task; predict_table leaves other rows empty.",
            )
        name = "data frame"
        if isinstance(X, Table):
            name = X.name
        task_id = self.codes(rows.tasks, name)
        texts = rows.sentences()
        if task_id is not None and (task_id < 0).any():
            texts += self.unknown_tasks(rows.tasks).sentences()
        for text in texts:
            # Of the caller of `predict`, which has a wrapper.
            warnings.warn(text, UserWarning, stacklevel=4)
        return rows.X, task_id

    def _new_rows(self, X: Any) -> NewRows:
        """Return new rows, as `read` takes them, in the form that the model needs."""
        check_is_fitted(self)
        if isinstance(X, Table):
            return new_rows(X, self.schema)
        table = table_of_frame(X, like=self.schema)
        table.named = column_names(X) is not None
        return new_rows(table, self.schema)

    def predictable(
        self, names: Sequence[str] | np.ndarray | None
    ) -> tuple[Sequence[str] | np.ndarray | None, np.ndarray | bool]:
        """Return tasks that the model can predict, and which rows have them.

        Parameters
        ----------
        names : sequence of str, ndarray of int or None
            Tasks of rows, as of `codes`.

        Returns
        -------
        names : as in the call
            The first task of the model replaces tasks that it cannot predict, so that
            all rows are computed at once. Predictions of such rows mean nothing.
        is_predicted : ndarray of bool, or True where rows name no tasks
        """
        if not self.by_task or names is None or isinstance(names, np.ndarray):
            return names, True
        if self.unseen == "mean" and self.ragged:
            is_predicted = np.array([name != "" for name in names])
        else:
            tasks = self._positions()
            is_predicted = np.array([name in tasks for name in names])
        replaced = np.asarray(names, dtype=object)
        replaced[~is_predicted] = self.task_names[0]
        return replaced.tolist(), is_predicted

    def unknown_tasks(self, names: Sequence[str] | np.ndarray | None) -> UnknownTasks:
        """Return the tasks among names, as of `codes`, that the model does not know."""
        if not self.by_task or names is None or isinstance(names, np.ndarray):
            return UnknownTasks()
        given_names = [name for name in names if name]
        return UnknownTasks.of(given_names, self._positions())

    def _positions(self) -> dict[str, int]:
        """Return the position of each task by its name, or by its number."""
        tasks = self.task_names
        positions = {normalized(name): t for t, name in enumerate(tasks)}
        if self._has_numbered_tasks() and not any(name.isdecimal() for name in tasks):
            positions |= {str(t): t for t in range(len(tasks))}
        return positions

    def _has_numbered_tasks(self) -> bool:
        """Whether tasks are called by their positions: ``task 0``, or 1, 2, ..."""
        return all(
            name in (f"task {t}", str(t), str(t + 1))
            for t, name in enumerate(self.task_names)
        )

    def codes(
        self, names: Sequence[str] | np.ndarray | None, where: str
    ) -> np.ndarray | None:
        """Return the position of each row's task; None if the model needs no tasks.

        An unknown task is -1 for a model fitted with ``unseen="mean"``.

        Parameters
        ----------
        names : sequence of str, ndarray of int or None
            Names of tasks. Integers are positions, for tasks without names of their own
            (``task 0``, or 1, 2, ...).
        where : str
            Name of the data, for messages.

        Raises
        ------
        DataError
            If the model needs tasks and there are none.
        UnknownNameError
            For a task that the model was not fitted on.
        """
        if not self.by_task:
            return None
        tasks = self.task_names
        if names is None:
            column = self.schema.task_column
            raise DataError(
                f"{where}: no column says which of the {len(tasks)} tasks each row "
                "belongs to",
                f"Add a column {column!r}; mtlrun predict also takes --task COLUMN, or "
                "--task-name NAME for all rows.",
            )
        if isinstance(names, np.ndarray) and not self._has_numbered_tasks():
            names = [str(position + 1) for position in names]
        if isinstance(names, np.ndarray):
            if names.size and names.max() >= len(tasks):
                raise UserError(
                    f"{where}: the data have {names.max() + 1} tasks, but the model "
                    f"has {len(tasks)}",
                    "Train a model on these data, or name the tasks as in training.",
                )
            return names
        numbers = self._positions()
        if self.unseen == "mean" and self.ragged:
            positions = [numbers.get(name, -1) for name in names]
            return np.array(positions, dtype=int)
        unknown = UnknownTasks.of(names, numbers)
        if unknown.names:
            raise unknown.error(names, tasks, where)
        positions = [numbers[name] for name in names]
        return np.array(positions, dtype=int)

    def scores(self, X: Any, task_id: np.ndarray | None = None) -> np.ndarray:
        """Return scores or predicted numbers: (n, T) for a shared design, else (n,)."""
        features = self._features(X)
        return predict_scores(self.estimator, features, self._ids(task_id))

    def labels(self, X: Any, task_id: np.ndarray | None = None) -> np.ndarray:
        """Return predicted labels, -1/+1 or class numbers, in the shape of `scores`."""
        features = self._features(X)
        return predict_labels(self.estimator, features, self._ids(task_id))

    def deviations(self, X: Any, task_id: np.ndarray | None = None) -> np.ndarray:
        """Return standard deviations of new targets, with noise, shaped like `scores`.

        Raises
        ------
        UserError
            If the model has none.
        """
        features = self._features(X)
        stds = predict_std(self.estimator, features, self._ids(task_id))
        if stds is None:
            raise UserError(
                f"{self.description.estimator.name} predicts no intervals",
                "HierarchicalMTL and SmoothMTL do; or leave out --interval.",
            )
        return stds

    def probabilities(self, X: Any, task_id: np.ndarray | None = None) -> np.ndarray:
        """Return the probability of +1, in the shape of `scores`.

        Raises
        ------
        UserError
            If the model has none.
        """
        if self.is_regression:
            raise UserError(
                "the model predicts numbers, not probabilities",
                "Leave out --proba, or use predict.",
            )
        if not hasattr(self.estimator, "predict_proba"):
            raise UserError(
                f"{self.description.estimator.name} does not predict probabilities",
                "Use compare with --calibrate, or train a model with the logistic loss.",
            )
        task_ids = self._ids(task_id)
        chances = self.estimator.predict_proba(
            self._features(X), **given(task_id=task_ids)
        )
        if task_ids is None and self.description.design == "shared":
            return np.asarray(chances)
        return np.asarray(chances[:, 1])

    def answers(self, X: Any, task_id: np.ndarray | None = None) -> np.ndarray:
        """Return predictions in the units or labels of the table.

        They have shape (n,), or (n, n_targets) for several targets.
        """
        if self.is_regression:
            return _without_single_column(self.in_units(self.scores(X, task_id)))
        signs = self.labels(X, task_id)
        if not self.description.labels:
            return signs
        if self.ragged:
            return self.spelt(signs)
        scores = signs
        has_classes = len(self.words) < signs.shape[1]
        if has_classes and hasattr(self.estimator, "predict_proba"):
            # Probabilities of classes are comparable, scores not always.
            scores = self.probabilities(X)
        elif has_classes:
            scores = self.scores(X)
        predicted = []
        for name, (words, columns) in zip(self.words, self.outputs(), strict=True):
            if len(words) == 2:
                indices = (signs[:, columns.start] > 0).astype(int)
            else:
                indices = scores[:, columns].argmax(axis=1)
            predicted.append(self._values(words, name)[indices])
        if self.by_task:
            dtypes = {labels.dtype for labels in predicted}
            # The labels of tasks may differ in their type.
            dtype = dtypes.pop() if len(dtypes) == 1 else np.dtype(object)
            by_task = np.stack(predicted).astype(object)
            return by_task[task_id, np.arange(len(signs))].astype(dtype)
        if len(predicted) == 1:
            return predicted[0]
        return np.stack([labels.astype(object) for labels in predicted], axis=1)

    def in_units(self, values: np.ndarray) -> np.ndarray:
        """Return predictions in the units of the targets.

        Predictions of transformed targets become medians.
        """
        name = self.description.transform
        if name is None:
            return values
        return transform_named(name).inverse(values)

    def means(self, X: Any, task_id: np.ndarray | None = None) -> np.ndarray:
        """Return predicted means of transformed targets, in their units.

        Raises
        ------
        UserError
            If the model predicts no transformed targets, or knows no errors.
        """
        name = self.description.transform
        if name is None:
            raise UserError(
                "the model predicts means already: its targets are not transformed",
                "Leave out --mean.",
            )
        scores = self.scores(X, task_id)
        predicted = scores.ravel()
        inverse = transform_named(name).inverse
        means = np.empty(scores.size)
        for intervals, rows, tasks, scale in self._interval_parts(X, task_id, scores):
            means[rows] = intervals.means(predicted[rows], tasks, scale, inverse)
        if scores.ndim == 2 and scores.shape[1] > 1:
            return means.reshape(scores.shape)
        return means

    @property
    def has_intervals(self) -> bool:
        """Whether errors on other rows are known, from which intervals are made."""
        return self.description.intervals != ModelIntervals()

    def limits(
        self, X: Any, task_id: np.ndarray | None = None, *, level: float = LEVEL
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of intervals for new targets, in the shape of `scores`.

        Parameters
        ----------
        X, task_id
            As `read` returns them.
        level : float
            Probability that a new target lies in its interval.

        Raises
        ------
        UserError
            If the model has no intervals.
        """
        scores = self.scores(X, task_id)
        if not self.has_intervals:
            quantile = ndtri(0.5 + level / 2)
            half = quantile * self.deviations(X, task_id)
            half = half.reshape(scores.shape)
            return self.in_units(scores - half), self.in_units(scores + half)
        below = np.empty(scores.size)
        above = np.empty(scores.size)
        for intervals, rows, tasks, scale in self._interval_parts(X, task_id, scores):
            below[rows], above[rows] = intervals.ends(tasks, scale, level)
        lower = scores + below.reshape(scores.shape)
        upper = scores + above.reshape(scores.shape)
        return self.in_units(lower), self.in_units(upper)

    def _interval_parts(
        self, X: Any, task_id: np.ndarray | None, scores: np.ndarray
    ) -> Iterator[tuple[Intervals, np.ndarray, np.ndarray, np.ndarray | None]]:
        """Yield the intervals for known tasks and for new tasks.

        With them come the entries of raveled scores, the tasks of these, and their
        standard deviations where the intervals of the model need them.
        """
        tasks = np.asarray(task_id)
        if task_id is None:
            n_tasks = 1
            if scores.ndim == 2:
                n_tasks = scores.shape[1]
            tasks = np.tile(np.arange(n_tasks), len(scores))
        stored = self.description.intervals
        # A model that has intervals for one kind of tasks uses them for all.
        of_table = stored.known or stored.new
        of_new_tasks = stored.new or stored.known
        if of_table is None or of_new_tasks is None:
            raise UserError(
                "the model knows no errors on other rows",
                "Models that mtlrun compare saves do.",
            )
        parts = [
            (Intervals.read(of_table), tasks >= 0),
            (Intervals.read(of_new_tasks), tasks < 0),
        ]
        deviations = None
        if any(intervals.is_relative for intervals, _ in parts):
            deviations = self.deviations(X, task_id).ravel()
        for intervals, is_kind in parts:
            rows = np.flatnonzero(is_kind)
            if rows.size:
                scale = None if deviations is None else deviations[rows]
                yield intervals, rows, tasks[rows], scale

    def spelt(self, signs: np.ndarray) -> np.ndarray:
        """Return the labels -1/+1 of ragged tasks as the original labels."""
        labels = self._values(next(iter(self.words.values())))
        return labels[(signs > 0).astype(int)]

    def _values(self, words: Sequence[Any], target: str | None = None) -> np.ndarray:
        """Return labels with the type that they had in the table.

        If the type is not stored, labels become numbers if all of them can.
        """
        types = self.description.label_types
        kind = types.get(target or "")
        if not kind and len(types) == 1:
            # All tasks share the only target.
            kind = next(iter(types.values()))
        if kind == "text":
            return np.array([str(word) for word in words], dtype=object)
        if kind == "bool" and set(words) <= {"True", "False"}:
            return np.array([word == "True" for word in words])
        return _plain(words)

    def chances(self, X: Any, task_id: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the probability of each label, as a matrix per target.

        There is a single matrix where rows belong to tasks.
        """
        positive = self.probabilities(X, task_id)
        if positive.ndim == 1:
            both = np.column_stack([1 - positive, positive])
            if self._is_first_label_positive:
                # --positive decides which label is +1; `classes_` is sorted.
                return [both[:, ::-1]]
            return [both]
        chances = []
        for words, columns in self.outputs():
            if len(words) == 2:
                second = positive[:, columns.start]
                chances.append(np.column_stack([1 - second, second]))
                continue
            # Each class has a binary model, so their probabilities need not sum to 1.
            of_classes = positive[:, columns]
            total = of_classes.sum(axis=1, keepdims=True)
            shares = np.full(of_classes.shape, 1 / len(words))
            np.divide(of_classes, total, where=total > 0, out=shares)
            chances.append(shares)
        if not self.by_task:
            return chances
        return [self._by_class(chances, task_id, fill=0.0)]

    def _by_class(
        self, by_task: Sequence[np.ndarray], task_id: np.ndarray | None, fill: float
    ) -> np.ndarray:
        """Return the columns of the task of each row, in the order of `classes_`.

        Parameters
        ----------
        by_task : sequence of ndarray of shape (n, n_labels)
            A column per label of each task.
        task_id : ndarray of shape (n,)
        fill : float
            Value of labels that do not occur in the task of a row.
        """
        classes = self.classes_
        shape = len(by_task[0]), len(classes)
        by_class = np.full(shape, fill)
        for t, words in enumerate(self.words.values()):
            rows = np.flatnonzero(task_id == t)
            positions = np.searchsorted(classes, self._values(words))
            by_class[np.ix_(rows, positions)] = by_task[t][rows]
        return by_class

    @property
    def _is_first_label_positive(self) -> bool:
        """Whether +1 of ragged tasks is the first label of `classes_`."""
        if not self.ragged:
            return False
        negative, positive = self._values(next(iter(self.words.values())))
        return bool(positive < negative)

    def outputs(self) -> Iterator[tuple[list[str], slice]]:
        """Yield the labels of each target, and its columns in the scores.

        For a shared design. Where rows belong to tasks with classes, tasks take the
        place of targets.
        """
        start = 0
        for words in self.words.values():
            # Two labels share a score.
            n_columns = 1 if len(words) == 2 else len(words)
            yield words, slice(start, start + n_columns)
            start += n_columns

    def _now(self) -> Model:
        """Return the model that predicts: the result of `fit` if it was called."""
        return self.__dict__.get("fitted_", self)

    def _ids(self, task_id: np.ndarray | None) -> np.ndarray | None:
        """Return the tasks that the estimator needs.

        It needs none where the classes of tasks are columns of a shared design.
        """
        if self.by_task and not self.ragged:
            return None
        return task_id

    def _features(self, X: Any) -> Any:
        if self.step is None:
            return X
        with config_context(transform_output="default"):
            return self.step.transform(X)


def _without_single_column(values: np.ndarray) -> np.ndarray:
    """Return a matrix of one column as a vector, and other arrays unchanged."""
    if values.ndim == 2 and values.shape[1] == 1:
        return values[:, 0]
    return values


def _plain(words: Sequence[Any]) -> np.ndarray:
    """Return labels as numbers, if all of them are such."""
    texts = [str(word) for word in words]
    if not all(map(is_number, texts)):
        return np.array(texts, dtype=object)
    values = np.array([float(text) for text in texts])
    are_whole = (values == np.round(values)).all()
    if are_whole and np.abs(values).max() < 2**53:
        return values.astype(np.int64)
    return values


#: Labels that names of columns leave out, because the second one is plainly positive.
_PLAIN = (["0", "1"], ["-1", "1"])


def answers_table(
    model: Model,
    X: Any,
    task_id: np.ndarray | None,
    *,
    with_scores: bool = True,
    with_probabilities: bool = False,
    interval: float | None = None,
    means: bool = False,
    names: Sequence[str] | np.ndarray | None = None,
    is_predicted: np.ndarray | bool = True,
) -> pd.DataFrame:
    """Return the predictions of a model for new rows as a table.

    The predictions have the units and labels of the table that the model was fitted on.

    Parameters
    ----------
    model : Model
    X, task_id
        As `Model.read` returns them.
    with_scores, with_probabilities : bool
        Whether to add scores and probabilities to labels.
    interval : float, optional
        Probability with which a new target lies between ``lower`` and ``upper``,
        columns that are added to predictions of numbers (``TARGET:lower`` with several
        targets).
    means : bool, default False
        Whether transformed targets are predicted by their means, not medians.
    names : sequence of str, or ndarray of int, optional
        Tasks of the rows as they are written, which new tasks keep; positions are not
        written.
    is_predicted : ndarray of bool, or True
        Rows whose predictions are shown; other rows have empty cells.

    Returns
    -------
    DataFrame
        ``row``, ``task`` where rows belong to tasks, and the predictions:
        ``prediction`` or ``label`` for a single target, else a column per target.
        ``score`` and ``probability`` follow, of the second of two labels or of each of
        more labels. The label precedes them (``yes:score``, ``TARGET=red:score``)
        unless the labels are 0/1 or -1/+1.

    Raises
    ------
    UserError
        If probabilities or intervals are requested and the model has none.
    """
    task_type = model.description.task_type
    if means:
        predicted = model.means(X, task_id)
    else:
        predicted = model.answers(X, task_id)
    values_by_kind: dict[str, np.ndarray] = {}
    if with_scores:
        values_by_kind["score"] = model.scores(X, task_id)
    if with_probabilities:
        values_by_kind["probability"] = model.probabilities(X, task_id)
    columns: dict[str, Any] = {"row": np.arange(len(predicted))}
    if model.by_task and task_id is not None:
        # The position of an unknown task is -1, the last name.
        task_names = np.append(np.asarray(model.task_names, dtype=object), "unknown")
        tasks_of_rows = task_names[task_id]
        if names is not None and not isinstance(names, np.ndarray):
            written = np.asarray(names, dtype=object)
            tasks_of_rows = np.where(task_id < 0, written, tasks_of_rows)
        columns["task"] = tasks_of_rows
    if predicted.ndim > 1:
        # A target may be called "row" or "task", as other columns of this table are.
        target_columns = distinct(model.target_names, columns)
        columns |= dict(zip(target_columns, predicted.T, strict=True))
    elif task_type == "regression":
        columns["prediction"] = predicted
    else:
        if task_type == "multiclass":
            predicted = np.asarray(model.description.tasks, dtype=object)[predicted]
        columns["label"] = predicted
    if task_type == "regression" and interval is not None:
        lower, upper = model.limits(X, task_id, level=interval)
        ends = ["lower", "upper"]
        if predicted.ndim > 1:
            ends = [f"{name}:lower" for name in model.target_names]
            ends += [f"{name}:upper" for name in model.target_names]
        shape = predicted.shape
        limits = np.column_stack([lower.reshape(shape), upper.reshape(shape)])
        columns |= dict(zip(distinct(ends, columns), limits.T, strict=True))
    if task_type not in ("regression", "multiclass"):
        for kind, values in values_by_kind.items():
            score_columns = distinct(_score_columns(model, kind), columns)
            by_column = values.reshape(len(predicted), -1).T
            columns |= dict(zip(score_columns, by_column, strict=True))
    table = pd.DataFrame(columns)
    if np.all(is_predicted):
        return table
    for name in table.columns:
        if name == "task":
            written = np.asarray(names, dtype=object)
            table[name] = np.where(is_predicted, table[name], written)
        elif name != "row":
            column = table[name]
            if pd.api.types.is_float_dtype(column):
                table[name] = column.where(is_predicted)
            else:
                table[name] = column.astype(object).where(is_predicted, None)
    return table


def with_flags(
    table: pd.DataFrame,
    model: Model,
    rows: NewRows,
    task_id: np.ndarray | None,
    is_predicted: np.ndarray | bool,
    *,
    as_text: bool = False,
) -> pd.DataFrame:
    """Return predictions with columns of what is unlike the training rows.

    Parameters
    ----------
    table : DataFrame
        As of `answers_table`.
    model : Model
    rows : NewRows
    task_id, is_predicted
        As of `answers_table`.
    as_text : bool, default False
        Whether the columns that a flag names are one text, not a tuple.

    Returns
    -------
    DataFrame
        See `Model.predict_table`.
    """
    flags: dict[str, Any] = {}
    if task_id is not None:
        similar = model.unknown_tasks(rows.tasks).similar
        twins = list(map(similar.get, table["task"]))
        flags = {
            "is_known_task": (task_id >= 0) & is_predicted,
            # As objects, because pandas would make NaN of None.
            "similar_task": pd.Series(twins, table.index, dtype=object),
        }
    for kind, names_by_row in rows.flags().items():
        flags[kind] = names_by_row
        if as_text:
            flags[kind] = ["; ".join(columns) for columns in names_by_row]
    if rows.is_beyond is not None:
        flags["is_beyond_times"] = rows.is_beyond
    # A target may be called like a flag.
    names = distinct(list(flags), table)
    columns = dict(zip(names, flags.values(), strict=True))
    return table.assign(**columns)


def scores_table(model: Model, X: Any, task_id: np.ndarray | None) -> pd.DataFrame:
    """Return the scores of labels as a table, with the columns of `answers_table`."""
    scores = model.scores(X, task_id)
    columns = distinct(_score_columns(model, "score"))
    scores = scores.reshape(len(scores), -1)
    return pd.DataFrame(scores, columns=columns)


def _score_columns(model: Model, kind: str) -> list[str]:
    """Return the names of the columns of scores or probabilities; `kind` says which.

    They start with the label, the target or both, except for plain labels of tasks with
    rows of their own.
    """
    if model.ragged:
        words = next(iter(model.words.values()))
        if words in _PLAIN:
            return [kind]
        return [f"{words[1]}:{kind}"]
    names = []
    for words, columns in model.outputs():
        tasks = model.description.tasks[columns]
        if len(words) == 2 and words not in _PLAIN and not model.by_task:
            # The task of two labels is named after its target only.
            tasks = [class_task(task, words[1]) for task in tasks]
        names += [f"{task}:{kind}" for task in tasks]
    return names


def tested_table(model: Model, test: Dataset, rows: np.ndarray) -> pd.DataFrame:
    """Return the predictions of a model for test rows, next to their targets.

    Parameters
    ----------
    model : Model
    test : Dataset
        The test rows.
    rows : ndarray of int
        Numbers of the test rows.

    Returns
    -------
    DataFrame
        As of `answers_table`; with the column ``target`` for a single target.
    """
    task_id = test.task_id
    if model.by_task and task_id is None:
        # Each class of each task is a column. In a row, the columns of other tasks are
        # missing.
        is_present = []
        for _, columns in model.outputs():
            is_present.append(~np.isnan(test.y[:, columns.start]))
        task_id = np.array(is_present).argmax(axis=0)
    table = answers_table(model, test.X, task_id)
    table = table.assign(row=rows)
    if test.y.ndim != 1:
        return table
    target = test.y
    if test.task_type == "multiclass":
        target = np.asarray(test.tasks, dtype=object)[test.y]
    elif test.task_type == "regression":
        target = model.in_units(target)
    if model.ragged and model.description.labels:
        target = model.spelt(target)
    position = 1
    if task_id is not None:
        position = 2
    table.insert(position, "target", target)
    return table


def to_csv(table: pd.DataFrame, *, safe: bool = True, digits: int = 15) -> str:
    """Return a table as CSV.

    With less than 15 digits, numbers that differ little next to a large offset become
    one.

    Parameters
    ----------
    table : DataFrame
    safe : bool, default=True
        For people and spreadsheets: escape texts that a spreadsheet takes for formulas
        and characters that control a terminal, which changes labels such as ``-``.
        Otherwise write texts unchanged, for programs.
    digits : int, default=15
        Significant digits of numbers.
    """
    if safe:
        columns = []
        for _, column in table.items():
            if not pd.api.types.is_numeric_dtype(column):
                column = column.map(_safe_text)
            columns.append(column)
        names = [_safe_text(name) for name in table.columns]
        table = pd.concat(columns, axis=1)
        table = table.set_axis(names, axis=1)
    return str(
        table.to_csv(index=False, float_format=f"%.{digits}g", lineterminator="\n")
    )


def _safe_text(value: object) -> str:
    return table_text(sanitize(str(value)))
