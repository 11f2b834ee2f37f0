"""Weights and groups in `compare` and `train`, from the table to the saved model."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

import mtlrun
from mtlrun.catalog.registry import build
from mtlrun.chunks.compare import Chunked
from mtlrun.chunks.table import ChunkedTable, chunk_files
from mtlrun.comparison.candidates import default_candidates, named_candidates
from mtlrun.comparison.differences import differences
from mtlrun.comparison.gain import RowIndex, auc_gain, concordances, task_scales
from mtlrun.comparison.options import CompareOptions
from mtlrun.comparison.protocol import Protocol
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.splits import WEIGHT
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.engine.fit import with_features
from mtlrun.engine.job import Features
from mtlrun.estimators.baselines import PerTask, ScaledTargets, TaskMean
from mtlrun.features.table import TableFeatures
from mtlrun.parallel.pool import Pool

SMALL = {"splits": 3, "repeats": 1, "folds": 2}


def table(labels=False, n=90, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    frame["color"] = rng.choice(["red", "blue"], n)
    frame["t"] = np.array(["p", "q", "r"])[np.arange(n) % 3]
    y = frame.a + (frame.t == "q") * frame.b + rng.normal(size=n)
    frame["y"] = np.where(y > 0, "yes", "no") if labels else y
    frame["w"] = rng.integers(1, 4, n).astype(float)
    return frame


def with_absurd_rows(frame):
    rows = frame.head(4).assign(w=0.0, a=1e6, color="green")
    if frame.y.dtype.kind == "f":
        rows["y"] = -1e6
    rows.loc[rows.index[0], "t"] = "only here"
    rows.loc[rows.index[1], "b"] = np.nan
    return pd.concat([rows, frame], ignore_index=True)


def compared(frame, **more):
    return mtlrun.compare(frame, target="y", task="t", weight="w", **{**SMALL, **more})


def outcome(result):
    """Return the numbers behind the leaderboard and, if there is one, the verdict."""
    numbers = {}
    for entry in result.board.entries:
        numbers[entry.label] = [*entry.scores.values(), *entry.inner.values()]
    gain = result.board.answer.gain
    if gain is not None:
        numbers["gain"] = [gain.value, gain.low, gain.high, *gain.tasks]
    return numbers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "options"),
    [
        (False, {"methods": ["GraphMTL"]}),
        (True, {"methods": ["PooledLogistic"], "splits": 2}),
    ],
)
def test_rows_of_weight_0_change_no_number_and_no_text(labels, options):
    frame = table(labels, n=60)
    first = compared(frame, **options)
    second = compared(with_absurd_rows(frame), **options)
    assert outcome(first) == outcome(second)
    assert first.predict(frame).equals(second.predict(frame))
    assert first.verdict == second.verdict
    notes = [line for line in second.board.facts if "weight 0" in line]
    assert notes == [
        "4 rows of weight 0 left out",
        "1 task left out, whose rows all have weight 0: only here",
    ]
    assert [
        line for line in second.board.facts if line not in notes
    ] == first.board.facts


@pytest.mark.slow
def test_cells_in_rows_of_weight_0_do_not_affect_the_types_of_a_data_frame():
    frame = table().assign(d=lambda frame: np.arange(len(frame)) % 5)
    rows = frame.head(2).astype({"d": object}).assign(w=0.0)
    rows["d"] = ["not measured", [3]]
    options = {"methods": ["PooledRidge"], "splits": 2}
    first = compared(frame, **options)
    second = compared(pd.concat([frame, rows], ignore_index=True), **options)
    assert outcome(first) == outcome(second)
    assert list(second.coefficients.columns) == list(first.coefficients.columns)


@pytest.mark.slow
def test_cells_in_test_rows_of_weight_0_do_not_affect_the_types_of_a_data_frame():
    frame = table().assign(d=lambda frame: np.arange(len(frame)) % 5)
    rows = frame.head(2).astype({"d": object}).assign(w=0.0, d="not measured")
    absurd = pd.concat([frame, rows], ignore_index=True)
    options = {"methods": ["PooledRidge"], "splits": 2}
    first = compared(frame, **options, test=frame)
    second = compared(absurd, **options, test=absurd)
    assert outcome(first) == outcome(second)
    assert list(second.coefficients.columns) == list(first.coefficients.columns)


@pytest.mark.slow
def test_a_common_factor_of_all_weights_changes_nothing():
    frame = table()
    first = outcome(compared(frame, methods=["GraphMTL"]))
    second = compared(frame.assign(w=frame.w * 1e300), methods=["GraphMTL"])
    assert outcome(second).keys() == first.keys()
    for label, numbers in first.items():
        assert outcome(second)[label] == pytest.approx(numbers, rel=1e-6), label


@pytest.mark.slow
def test_labels_with_huge_weights_are_compared_like_those_with_weights_of_1():
    frame = table(labels=True, n=45)
    options = {"methods": ["HierarchicalMTLClassifier"], "splits": 2}
    first = compared(frame.assign(w=1.0), **options)
    second = compared(frame.assign(w=1e4), **options)
    assert outcome(first) == outcome(second)


def test_a_task_of_weight_0_is_unknown_to_the_model():
    rows = with_absurd_rows(table())
    result = compared(rows, methods=["IndependentRidge"])
    with pytest.raises(mtlrun.errors.UnknownNameError):
        result.predict(table().head(1).assign(t="only here"))


# --- all methods on weighted rows ---


def parts(frame):
    """Return training and test rows, with features learned on the training rows."""
    data = make_dataset(
        table_of_frame(frame), Roles(targets=("y",), task="t", weight="w")
    )
    test = np.arange(0, data.n_samples, 5)
    train = np.setdiff1d(np.arange(data.n_samples), test)
    part, _ = with_features(TrainTestData.of(data, train, test), Features("table"))
    return part


LABELS = [
    candidate.label
    for candidate in default_candidates(
        make_dataset(table_of_frame(table()), Roles(targets=("y",), task="t")), 0.8
    )
]


@pytest.mark.every(3)
@pytest.mark.parametrize("label", LABELS)
def test_no_method_depends_on_a_common_factor_of_the_weights(label):
    predictions = []
    for factor in (1.0, 1000.0):
        part = parts(table().assign(w=lambda frame, c=factor: frame.w * c))
        (candidate,) = (
            one
            for one in named_candidates([label], part.train, 0.8)
            if one.label == label
        )
        method = {"estimator": candidate.estimator, "params": candidate.params}
        predictions.append(part.predict(part.rows.fit(build(method)), many=True))
    assert predictions[1] == pytest.approx(predictions[0], rel=1e-4, abs=1e-4)


def test_a_constant_column_with_weights_gives_no_warning():
    X = np.full((40, 1), 0.1)
    weights = np.random.default_rng(0).uniform(0.5, 2, size=40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        transformed = TableFeatures().fit_transform(X, sample_weight=weights)
    assert transformed == pytest.approx(0.0, abs=1e-12)


def test_features_and_variances_equal_those_of_repeated_rows():
    frame = table()
    frame.loc[::7, "b"] = np.nan
    weighted = parts(frame)
    w = frame.w.to_numpy().astype(int)
    roles = Roles(targets=("y",), task="t", drop=("w",))
    data = make_dataset(table_of_frame(frame), roles)
    test = np.arange(0, 90, 5)
    train = np.setdiff1d(np.arange(90), test)
    copies = np.repeat(train, w[train])
    repeated, _ = with_features(TrainTestData.of(data, copies, test), Features("table"))
    assert pytest.approx(repeated.test.X) == weighted.test.X
    repeated_rows = np.repeat(np.arange(90), w)
    tasks = data.task_id[repeated_rows]
    variances = [data.y[repeated_rows][tasks == t].var() for t in range(3)]
    assert weighted.variance == pytest.approx(variances)


@pytest.mark.parametrize("metric", ["rmse", "nmse", "r2"])
@pytest.mark.parametrize("how", ["task", "sample"])
def test_scores_of_equal_predictions_equal_those_of_repeated_rows(metric, how):
    frame = table()
    weighted = parts(frame)
    model = TaskMean().fit(
        weighted.train.X, weighted.train.y, task_id=weighted.train.task_id
    )
    weights = frame.w.to_numpy()[weighted.test_rows].astype(int)
    copies = np.repeat(np.arange(len(weights)), weights)
    test = weighted.test.subset(copies)
    del test.source[WEIGHT]
    repeated = TrainTestData(
        weighted.train,
        test,
        weighted.one_class,
        weighted.variance,
        copies,
        weighted.shrunken_variance,
    )
    scores = [
        part.score(model, part.predict(model), [metric], how)[metric]
        for part in (weighted, repeated)
    ]
    assert scores[0].mean == pytest.approx(scores[1].mean)
    assert scores[0].per_task == pytest.approx(scores[1].per_task)


# --- gains at equal predictions ---


def weighted_and_repeated(seed=0, n=60):
    rng = np.random.default_rng(seed)
    tasks = np.arange(n) % 3
    weights = rng.integers(0, 4, n)
    copies = np.repeat(np.arange(n), weights)
    layouts = (
        RowIndex(3, tasks, None, weights.astype(float)),
        RowIndex(3, tasks[copies]),
    )
    return rng, copies, layouts


def test_scales_of_tasks_equal_those_of_repeated_rows():
    rng, copies, (weighted, repeated) = weighted_and_repeated()
    y = rng.normal(size=60)
    assert task_scales(y, weighted) == pytest.approx(task_scales(y[copies], repeated))


def test_the_gain_of_the_auc_equals_that_of_repeated_rows():
    rng, copies, layouts = weighted_and_repeated()
    y = rng.choice([-1.0, 1.0], 60)
    first, second = rng.normal(size=60), y + rng.normal(size=60)
    gains = []
    for rows, row_index in ((np.arange(60), layouts[0]), (copies, layouts[1])):
        all_rows = np.arange(len(rows))
        fields = [
            concordances(y[rows], scores[rows], row_index, all_rows)
            for scores in (second, first)
        ]
        (joint, pairs), (without, _) = fields
        gains.append(auc_gain(joint, without, pairs, y[rows] > 0, row_index, 1.0))
    assert gains[0].value == pytest.approx(gains[1].value)
    assert gains[0].tasks == pytest.approx(gains[1].tasks)


def test_the_line_about_differences_ignores_rows_of_weight_0_and_a_common_factor():
    roles = Roles(targets=("y",), task="t", weight="w")
    frame = table(n=240)
    frames = [frame, with_absurd_rows(frame), frame.assign(w=1000 * frame.w)]
    lines = {differences(make_dataset(table_of_frame(one), roles)) for one in frames}
    assert len(lines) == 1
    assert None not in lines


# --- chunks ---


def test_chunks_drop_rows_of_weight_0_and_divide_by_the_mean_weight(tmp_path):
    rows = table(n=240).drop(columns="color")
    absurd = rows.head(5).astype(object).assign(w=0, y=1e9, a="broken", t="only here")
    frames = {
        "plain": rows,
        "zeros": pd.concat([absurd, rows]),
        "factor": rows.assign(w=rows.w * 1e250),
    }
    outcomes = {}
    for name, frame in frames.items():
        folder = tmp_path / name / "rows"
        folder.mkdir(parents=True)
        frame.head(len(frame) - 120).to_csv(folder / "a.csv", index=False)
        frame.tail(120).to_csv(folder / "b.csv", index=False)
        result = mtlrun.compare(
            folder, target="y", task="t", weight="w", splits=3, methods=["GraphMTL"]
        )
        outcomes[name] = outcome(result)
        assert "240 rows" in result.board.facts[0]
    for label, numbers in outcomes["plain"].items():
        assert outcomes["zeros"][label] == pytest.approx(numbers, rel=1e-9), label
        assert outcomes["factor"][label] == pytest.approx(numbers, rel=1e-9), label


def test_weights_of_chunks_have_mean_1_over_all_files(tmp_path):
    rows = table(n=240).drop(columns="color")
    rows.head(120).to_csv(tmp_path / "a.csv", index=False)
    rows.tail(120).assign(w=9.0).to_csv(tmp_path / "b.csv", index=False)
    files = chunk_files(tmp_path)
    chunks = ChunkedTable.of(files, target="y", task="t", weight="w", n_folds=3)
    data = Chunked.read(chunks, Pool(), lambda text: None)
    assert data.folds.whole.weight.sum() == pytest.approx(240)
    mean = (rows.w.head(120).sum() + 9 * 120) / 240
    assert data.table.weight_unit == pytest.approx(mean)


# --- groups ---


def clinics(seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(180, 2)), columns=["a", "b"])
    frame["patient"] = [f"p{k}" for k in np.repeat(np.arange(30), 6)]
    frame["t"] = [f"c{k}" for k in np.repeat(np.arange(6), 30)]
    frame["y"] = frame.a + rng.normal(size=180)
    return frame


@pytest.mark.slow
@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(3))
def test_patients_in_clinics_are_compared(seed):
    result = mtlrun.compare(
        clinics(), target="y", task="t", group="patient", seed=seed, methods=["PooledRidge"],
        splits=5, repeats=1, folds=2,
    )  # fmt: skip
    assert not any(entry.failures for entry in result.board.entries)
    for rows in result.board.evaluation.rows:
        assert set(result.dataset.task_id[rows]) == set(range(6))


class SeenGroups(RegressorMixin, BaseEstimator):
    """Records the groups passed to its fit."""

    def fit(self, X, y, sample_weight=None, groups=None):
        self.groups_ = groups
        return self

    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.parametrize("scaled", [True, False])
def test_every_fit_of_a_comparison_gets_the_groups_of_its_rows(scaled):
    roles = Roles(targets=("y",), task="t", group="patient")
    data = make_dataset(table_of_frame(clinics()), roles)
    protocol = Protocol.of(data, CompareOptions(**SMALL))
    train, test = protocol.rows(data, 0)
    part = TrainTestData.of(data, train, test)
    model = PerTask(SeenGroups())
    if scaled:
        model = ScaledTargets(model)
    for fitted in (part.rows.fit(model), part.fit(model)):
        tasks = getattr(fitted, "estimator_", fitted).estimators_
        groups = np.concatenate([task_model.groups_ for task_model in tasks])
        order = np.argsort(data.task_id[train], kind="stable")
        first = np.unique(groups, return_inverse=True)[1]
        second = np.unique(data.source["group"][train][order], return_inverse=True)[1]
        assert np.array_equal(first, second)


def test_early_stopping_is_off_for_tables_with_groups():
    names = [
        "sklearn.ensemble:HistGradientBoostingRegressor",
        "sklearn.linear_model:RidgeCV",
    ]
    roles = Roles(targets=("y",), task="t", group="patient")
    data = make_dataset(table_of_frame(clinics()), roles)
    *_, trees, ridge = named_candidates(names, data, 0.8)
    assert trees.params["estimator"]["params"]["early_stopping"] is False
    assert "early stopping" in trees.note
    assert "cross-validation" in ridge.note
    del data.source["group"]
    *_, trees, ridge = named_candidates(names, data, 0.8)
    assert "early_stopping" not in trees.params["estimator"]["params"]
    assert not trees.note + ridge.note
