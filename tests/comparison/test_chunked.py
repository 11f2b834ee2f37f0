"""Tables larger than memory: sums over files equal those of all rows at once."""

import codecs
import gzip
import pickle
from dataclasses import replace
from decimal import Decimal
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.preprocessing import StandardScaler

import mtlrun
from mtlrun.chunks.compare import Chunked, candidate_of
from mtlrun.chunks.summed import FoldSearch, SummedEvaluation, Training
from mtlrun.chunks.sums import (
    Folds,
    Sums,
    add_up,
    rows_of,
    statistics_of,
)
from mtlrun.chunks.table import ChunkedTable, chunk_files, fold_of
from mtlrun.comparison.candidates import Candidate
from mtlrun.comparison.gain import RowIndex, correction, relative_gain
from mtlrun.comparison.verdict import MULTITASK, POOLED
from mtlrun.errors import ConfigError, DataError, MemoryLimitError, UnknownNameError
from mtlrun.estimators import GraphMTL, PooledRidge
from mtlrun.estimators.baselines import ScaledTargets
from mtlrun.estimators.metadata import Scale
from mtlrun.parallel.pool import Pool
from mtlrun.problem.statistics import TaskStatistics

D, T, N = 4, 6, 900
RAGGED = {"target": "y", "task": "store", "weight": "w", "drop": ["y2", "y3"]}
SHARED = {"targets": "y*", "drop": ["store", "w"]}


def frame(seed=0, n=N):
    """Return rows of six tasks with means far from zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) + 50
    task = rng.integers(T, size=n)
    rows = pd.DataFrame(X, columns=[f"x{j}" for j in range(D)])
    W = np.array([2.0, -1, 0, 1])[:, None] + rng.normal(size=(D, T))
    rows["y"] = (X * W[:, task].T).sum(axis=1) + rng.normal(size=n)
    rows["store"] = [f"s{t}" for t in task]
    rows["w"] = rng.random(n) + 0.1
    return rows.assign(y2=rows.y + rng.normal(size=n), y3=-rows.y)


def write(folder, rows, kind="parquet", files=3):
    folder.mkdir(exist_ok=True)
    for k, part in enumerate(np.array_split(np.arange(len(rows)), files)):
        piece = rows.iloc[part]
        getattr(piece, f"to_{kind}")(folder / f"part{k}.{kind}", index=False)
    return folder


def read(folder, pool=None, folds=3, **roles):
    table = ChunkedTable.of(chunk_files(folder), **roles, n_folds=folds)
    sums = add_up(rows_of, table, pool or Pool(), lambda text: None)
    return table, *statistics_of(table, sums)


def same(actual, wanted):
    """Compare statistics with arbitrary shifts."""
    both = [about_zero(actual), about_zero(wanted)]
    for name in ("weight", "x", "xx", "y", "yy", "xy"):
        assert_allclose(*(getattr(stats, name) for stats in both), rtol=1e-10)
    assert actual.n_rows.tolist() == wanted.n_rows.tolist()


def about_zero(statistics):
    """Return statistics without shifts, with own sums for each task.

    A sum has the shifts of its first term.
    """
    n_tasks = statistics.n_tasks
    statistics = replace(statistics, tasks=np.arange(n_tasks))
    zero_row_per_task = replace(
        statistics,
        weight=np.zeros(n_tasks),
        x=np.zeros((n_tasks, D)),
        xx=np.zeros((n_tasks, D, D)),
        y=np.zeros(n_tasks),
        yy=np.zeros(n_tasks),
        xy=np.zeros((D, n_tasks)),
        x_shift=np.zeros(D),
        y_shift=np.zeros(n_tasks),
        n_rows=np.ones(n_tasks, dtype=int),
    )
    return zero_row_per_task + statistics


@pytest.fixture
def read_row_by_row(monkeypatch):
    """Return a function after which chunks are as small as possible."""
    return lambda: monkeypatch.setattr("mtlrun.chunks.table.CHUNK_BYTES", 1)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("weight", [None, "w"])
def test_sums_over_files_equal_those_of_all_rows(
    tmp_path, kind, weight, read_row_by_row
):
    read_row_by_row()
    rows = frame()
    rows.loc[3, "y"] = np.nan
    roles = {**RAGGED, "weight": weight, "drop": ["w", "y2", "y3"]}
    table, parts, names = read(write(tmp_path, rows, kind), **roles)
    complete = rows.dropna()
    codes = [names.index(task) for task in complete.store]
    X = complete[[f"x{j}" for j in range(D)]]
    w = None if weight is None else complete.w / table.weight_unit
    same(sum(parts[1:], parts[0]), TaskStatistics.of(X, complete.y, codes, w))
    sizes = [part.n_rows.sum() for part in parts]
    assert min(sizes) > 250
    assert names == sorted(set(rows.store))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tasks_whose_rows_all_have_weight_0_are_named(tmp_path, kind):
    rows = frame()
    rows.loc[rows.store == "s2", "w"] = 0.0
    rows.loc[:9, "w"] = 0.0
    said = []
    files = chunk_files(write(tmp_path, rows, kind))
    table = ChunkedTable.of(files, **RAGGED, n_folds=3)
    data = Chunked.read(table, Pool(), said.append)
    assert "s2" not in data.tasks
    assert f"{(rows.w == 0).sum()} rows of weight 0 left out" in data.notes
    (note,) = (note for note in data.notes if "s2" in note)
    assert "s1" not in note
    assert note in said


def test_the_bytes_that_are_counted_are_those_that_are_sent():
    X = np.random.default_rng(0).normal(size=(60, 50))
    sums = Sums({(0, 0): X.T @ X}, {(0, 0): 60}, 60)
    sent = pickle.dumps(sums)
    assert sums.nbytes < len(sent) < sums.nbytes + 500
    received = pickle.loads(sent)
    np.testing.assert_array_equal(received.products[0, 0], X.T @ X)


def test_targets_may_be_missing(tmp_path):
    rows = frame()
    rows.loc[::7, "y2"] = np.nan
    rows.loc[::21, ["y", "y3"]] = np.nan
    _, parts, names = read(write(tmp_path, rows), **SHARED)
    assert names == ["y", "y2", "y3"]
    same(
        sum(parts[1:], parts[0]),
        TaskStatistics.of(rows[[f"x{j}" for j in range(D)]], rows[names].to_numpy()),
    )


def folds_of(table, folds, seed=0):
    """Return the fold of each row of `frame`."""
    return np.concatenate(
        [fold_of(k, 0, N // 3, folds, seed) for k in range(len(table.files))]
    )


def test_the_fold_of_a_row_depends_only_on_seed_file_and_row_number(
    tmp_path, read_row_by_row
):
    folder = write(tmp_path, frame())
    all_rows = [part.n_rows.tolist() for part in read(folder, folds=5, **RAGGED)[1]]
    read_row_by_row()
    table, parts, names = read(folder, folds=5, **RAGGED)
    fold, task = folds_of(table, 5), frame().store.map(names.index)
    sizes = [np.bincount(task[fold == k], minlength=T).tolist() for k in range(5)]
    assert [part.n_rows.tolist() for part in parts] == all_rows == sizes
    assert 0.6 < (folds_of(table, 5, seed=1) != fold).mean() < 0.95
    assert 0.16 < np.bincount(fold).min() / N < np.bincount(fold).max() / N < 0.24


@pytest.mark.parametrize("roles", [RAGGED, SHARED], ids=["ragged", "shared"])
@pytest.mark.parametrize("family", [MULTITASK, POOLED])
def test_a_fit_without_one_fold_equals_the_fit_to_the_remaining_rows(
    tmp_path, roles, family
):
    """Training statistics by subtraction, standardized: the objective equals that of
    the rows to 1e-8.
    """
    rows = frame()
    table, parts, names = read(write(tmp_path, rows), **roles)
    fold = folds_of(table, 3)
    train = rows[fold != 1]
    X = StandardScaler().fit_transform(train[list(table.features)])
    model = {
        MULTITASK: GraphMTL(alpha=30.0, tol=1e-10),
        POOLED: PooledRidge(alpha=30.0),
    }[family]
    unweighted = {**roles, "weight": None, "drop": [*roles["drop"], "w"]}
    _, parts, names = read(tmp_path, **unweighted)
    task = {"task_id": [names.index(t) for t in train.store]} if "task" in roles else {}
    y = train[list(table.targets)].to_numpy()
    ready = ScaledTargets(model).fit(X, y if not task else y[:, 0], **task)
    candidate = Candidate(
        "", family, "GraphMTL", {"tol": 1e-10} if family == MULTITASK else {}
    )
    training = Training.of(sum(parts, parts[1]) - parts[1] - parts[1])
    fit = training.fit(candidate, {"alpha": 30.0})
    if family == MULTITASK:
        assert fit.model.objective_[-1] == pytest.approx(
            ready.estimator_.objective_[-1], rel=1e-8
        )
    ours = np.asarray(train[list(table.features)]) @ fit.coef + fit.intercept
    theirs = X @ np.broadcast_to(ready.coef_, (len(names), D)).T + ready.intercept_
    assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("roles", [RAGGED, SHARED], ids=["ragged", "shared"])
def test_gain_and_interval_from_sums_equal_those_from_rows(tmp_path, roles):
    rows = frame()
    rows.loc[::7, "y3"] = np.nan
    write(tmp_path, rows)
    table = ChunkedTable.of(chunk_files(tmp_path), **roles, n_folds=3)
    data = Chunked.read(table, Pool(), lambda text: None)
    assert data.n_rows == N
    rng = np.random.default_rng(1)
    coef, intercept = (
        rng.normal(size=(3, 2, D, len(data.tasks))),
        rng.normal(size=(3, 2, len(data.tasks))),
    )
    fold = folds_of(table, 3)
    task = (
        np.array([data.tasks.index(t) for t in rows.store]) if "task" in roles else None
    )
    y = rows[list(table.targets)].to_numpy()[:, 0 if task is not None else slice(None)]
    X, scales = rows[list(table.features)].to_numpy(), data.folds.scales
    fields = []
    for m in range(2):
        predicted = np.array(
            [x @ coef[k, m] + intercept[k, m] for x, k in zip(X, fold, strict=True)]
        )
        predicted = predicted if task is None else predicted[np.arange(N), task]
        fields.append((y - predicted) ** 2 / (scales if task is None else scales[task]))
    row_index = RowIndex(
        len(data.tasks), task, None, rows.w.to_numpy() if task is not None else None
    )
    wanted = relative_gain(*fields, row_index, correction(3, 1, 2))
    evaluation = SummedEvaluation(
        y=y, row_index=RowIndex(len(data.tasks)), rows=[], new=[], n_folds=3, n_repeats=1, measure="nMSE", smallest=0.01,
        sums=data.losses(coef, intercept),
    )  # fmt: skip
    models_by_split = [dict.fromkeys(range(3), m) for m in range(2)]
    gain = evaluation.gain(*models_by_split, 1)
    for name in ("value", "error", "df", "units", "first", "second", "tasks"):
        assert_allclose(
            getattr(gain, name), getattr(wanted, name), rtol=1e-9, err_msg=name
        )
    alone = (
        np.where(np.arange(y.shape[-1]) == 1, fields[0], np.nan)
        if task is None
        else None
    )
    alone = np.where(task == 1, fields[0], np.nan) if alone is None else alone
    one, other = (
        evaluation.task_gains(*models_by_split, 1)[1],
        relative_gain(alone, fields[1], row_index, correction(3, 1, 2)),
    )
    assert_allclose(
        [one.value, one.error, one.df], [other.value, other.error, other.df], rtol=1e-9
    )
    mse = data.scores(2, coef[2, 0], intercept[2, 0])["rmse"] ** 2
    rest = [
        S[0, 2] / S[0, 1] * scales[t]
        for (k, t), S in sorted(evaluation.sums.items(), key=str)
        if k == 2 and t is not None
    ]
    assert_allclose(mse, rest, rtol=1e-9)  # Statistics and rows give the same fold.


@pytest.mark.parametrize("label", ["IndependentRidge", "IndependentRidgeCV"])
def test_losses_of_inner_folds_add_up_to_the_inner_score(tmp_path, label):
    """Without row weights, the score of each task is a mean over its rows."""
    roles = {"target": "y", "task": "store", "drop": ["w", "y2", "y3"]}
    _, parts, _ = read(write(tmp_path, frame()), folds=4, **roles)
    folds = Folds(parts)
    candidate = candidate_of(label, Scale(100, T))
    search = FoldSearch(folds, [candidate])
    search.run(combinations(range(4), 2))
    params, score = search.best(candidate, 0)
    losses = search.fold_losses(candidate, 0, params)
    assert len(losses) == 3
    # Folds have about equally many rows of each task, so their means nearly agree.
    assert np.mean(losses) == pytest.approx(score, rel=0.05)
    training = Training.of(folds.without(0, 3))
    fit = training.fit(candidate, params)
    errors = parts[3].squared_errors(fit.coef, fit.intercept)
    errors = errors / folds.weights[3] / folds.scales
    assert losses[2] == pytest.approx(errors.mean())


def test_on_a_folder_the_first_method_within_one_standard_error_is_selected(tmp_path):
    folder = write(tmp_path / "shops", frame(seed=6))
    methods = ["TraceNormMTL", "GraphMTL"]
    result = mtlrun.compare(folder, **RAGGED, methods=methods)
    entries = {entry.label: entry for entry in result.board.entries}
    first = entries["TraceNormMTL"]
    assert all(first.inner[s] > entries["GraphMTL"].inner[s] for s in range(5))
    assert all(len(losses) == 4 for losses in first.fold_losses.values())
    selected = result.board.answer.times_selected["multi-task"]
    assert selected == {"TraceNormMTL": 4, "GraphMTL": 1}


@pytest.mark.slow
def test_compare_accepts_a_folder(tmp_path):
    folder = write(tmp_path / "shops", frame())
    heard = []
    methods = ["GraphMTL"]
    result = mtlrun.compare(folder, **RAGGED, methods=methods, say=heard.append)
    labels = [
        "TaskMean",
        "IndependentRidge",
        "PooledRidge",
        "IndependentRidgeCV",
        "GraphMTL",
    ]
    assert sorted(result.leaderboard["method"]) == sorted(labels)
    assert any("900 of 900 rows, 3 of 3 files" in line for line in heard)
    saved = result.save(tmp_path / "out")
    model = mtlrun.load_model(saved / "model")
    assert_allclose(model.predict(frame()), result.predict(frame()))
    assert np.sqrt(np.mean((model.predict(frame()) - frame().y) ** 2)) < 1.1
    with pytest.raises(ConfigError, match="rows"):
        mtlrun.compare(folder, **RAGGED, group="x0")


def test_a_feature_in_chunks_may_be_called_intercept(tmp_path):
    rows = frame().rename(columns={"x1": "intercept"})
    folder = write(tmp_path / "shops", rows)
    result = mtlrun.compare(folder, **RAGGED, methods=["PooledRidge"])
    features = list(result.coefficients.columns)
    assert features == ["intercept", "x0", "intercept (2)", "x2", "x3"]
    assert "intercept (2)" in result.page()


def test_nonconvergence_of_a_method_on_a_folder_is_reported(tmp_path, monkeypatch):
    fit = GraphMTL.fit_statistics

    def fit_partly(model, statistics):
        fit(model, statistics)
        model.converged_ = False
        return model

    monkeypatch.setattr(GraphMTL, "fit_statistics", fit_partly)
    folder = write(tmp_path / "shops", frame())
    result = mtlrun.compare(folder, **RAGGED, methods=["GraphMTL"], splits=3)
    notes = {entry.label: entry.notes for entry in result.board.entries}
    assert notes["GraphMTL"] == ["not converged"]
    assert notes["PooledRidge"] == []


def test_the_leaderboard_of_a_folder_equals_that_of_its_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("mtlrun.chunks.compare.FoldSearch", SlowSearch)
    rows = frame()
    folder = write(tmp_path / "shops", rows)
    roles = {"target": "y", "task": "store", "drop": ["y2", "y3", "w"]}
    n_folds = 4
    result = mtlrun.compare(folder, **roles, methods=["GraphMTL"], splits=n_folds)
    board = result.board
    assert board.sizes == rows["store"].value_counts().sort_index().tolist()
    fold = np.concatenate([fold_of(k, 0, 300, n_folds, 0) for k in range(3)])
    entries = {entry.label: entry for entry in board.entries}
    mean = entries["TaskMean"]
    losses = np.zeros(N)
    for k in range(n_folds):
        means = rows[fold != k].groupby("store")["y"].mean()
        errors = (rows["y"] - rows["store"].map(means))[fold == k] ** 2
        by_task = np.sqrt(errors.groupby(rows["store"]).mean())
        assert_allclose(mean.tasks[k], by_task)
        assert mean.scores[k] == pytest.approx(by_task.mean())
        losses[fold == k] = errors
    # The gain in the leaderboard: means over tasks of errors in units of shrunken
    # variances.
    counts = rows.groupby("store")["y"].count()
    variances = rows.groupby("store")["y"].var(ddof=0)
    average = (counts * variances).sum() / N
    scales = (counts * variances + 10 * average) / (counts + 10)
    relative = pd.Series(losses).groupby(rows["store"]).mean() / scales
    gain = board.gain(mean, entries["IndependentRidge"])
    assert gain.first == pytest.approx(relative.mean())
    assert gain.error > 0
    # The part of each fold of a search of 1,000 s, and the fit itself.
    for entry in board.entries:
        parts = zip(entry.seconds, entry.fit_seconds, strict=True)
        searched = [total - fit for total, fit in parts]
        assert searched == pytest.approx([1000 / n_folds] * n_folds)
    # The error of the saved model covers all folds, and all folds select its strength.
    error = result.trained.result["metrics"]["nmse"]
    assert 0 < error < gain.first


class SlowSearch(FoldSearch):
    """Pretend that the search of each method takes 1,000 seconds."""

    def run(self, left_out, kept=None):
        super().run(left_out, kept)
        self.seconds.update({c.label: 1000.0 for c in self.candidates})


BAD = {
    "x1": (
        lambda rows: rows.assign(x1=rows.x1.astype(str) + "%"),
        "part1.parquet: column 'x1' has .*row 1",
    ),
    "gap": (
        lambda rows: rows.assign(x1=rows.x1.where(rows.index != rows.index[4])),
        "part1.*'x1' has a missing.*row 5",
    ),
    "column": (lambda rows: rows.drop(columns="x2"), "part1.*missing: x2"),
    "weight": (
        lambda rows: rows.assign(w=rows.w.where(rows.index != rows.index[2], -1.0)),
        "part1.*'w' has no weight in row 3",
    ),
    "task": (
        lambda rows: rows.assign(store=None),
        "part1.*'store' has no task in row 1",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_named_with_its_column(tmp_path, name):
    spoil, text = BAD[name]
    write(tmp_path, frame())
    spoil(pd.read_parquet(tmp_path / "part1.parquet")).to_parquet(
        tmp_path / "part1.parquet"
    )
    for pool in (Pool(), Pool(2, "threading")):
        with pytest.raises(DataError, match=text):
            read(tmp_path, pool, **RAGGED)


@pytest.mark.cover
@pytest.mark.parametrize(("column", "roles"), [("x1", RAGGED), ("y2", SHARED)])
@pytest.mark.parametrize("values", [[np.inf, np.inf], [-np.inf, np.inf], [np.nan] * 2])
def test_the_first_row_without_a_number_is_named(tmp_path, column, roles, values):
    rows = frame()
    # Rows are sorted by task before they are checked.
    rows.loc[40:300:20, column] = np.resize(values, 14)
    write(tmp_path, rows, files=2)
    if column == "y2" and np.isnan(values).all():
        read(tmp_path, **roles)
        return
    with pytest.raises(DataError, match=rf"part0.*{column!r}.*row 41\b"):
        read(tmp_path, **roles)


def test_patterns_may_have_brackets_and_so_may_names(tmp_path):
    names = ["part0.csv", "part1.csv", "part2.csv", "part[1].csv"]
    for name in names:
        (tmp_path / name).write_text("y,store,x0\n1,a,2\n")

    def found(pattern):
        return [path.name for path in chunk_files(str(tmp_path / pattern))]

    assert found("part[02].csv") == ["part0.csv", "part2.csv"]
    assert found("part?.csv") == names[:3]
    assert found("*[12].csv") == names[1:3]
    # A file of this name is no pattern, and a single file is not in chunks.
    assert found("part[1].csv") == []
    below = tmp_path / "a[b]" / "c"
    below.mkdir(parents=True)
    (below / "part3.csv").write_text("y,store,x0\n1,a,2\n")
    assert found("a[b]") == ["part3.csv"]
    assert found("**/part3.csv") == ["part3.csv"]


#: CSV files that pandas misreads, or that would exhaust its memory.
ODD = {
    "short row": ("store,x0,y\na,2,1\nb,3\n", "3: 2 cells"),
    "long row": ("store,x0,y\na,2,1\nb,3,4,5\n", "3: 4 cells"),
    "all rows long": ("store,x0,y\na,2,1,\nb,3,4,\n", "2: 4 cells"),
    "long after short": ("store,x0,y\na,2\nb,3,4,5\n", "2: 2 cells"),
    "quotes": ('store,x0,y\n"a, b",2,1\n"c, d",3\n', "3: 2 cells"),
    "name twice": ("y,store,x0,x0\n1,a,2,3\n", "'x0' twice"),
    "no name": ("y,store,x0,\n1,a,2,3\n", "no name"),
    "semicolons": ("y;store;x0\n1;a;2\n", "commas"),
    "columns": (
        "y,store" + "".join(f",x{k}" for k in range(200_001)) + "\n",
        "the limit is",
    ),
    "blank lines": ("\n" * 200_000 + "y,store,x0\n1,a,2\n", "the limit is"),
    "no line ends": ("y" * (33 << 20), "the limit is"),
}


@pytest.mark.parametrize("name", ODD)
def test_invalid_csv_files_are_rejected(tmp_path, name):
    text, location = ODD[name]
    for number in range(2):
        (tmp_path / f"{number}.csv").write_text(text)
    with pytest.raises(DataError, match=location):
        read(tmp_path, target="y", task="store")


@pytest.mark.slow
def test_a_compressed_file_that_expands_without_limit_is_rejected(tmp_path):
    head = b"y,store,x0\n" + b"1,a,2\n2,b,3\n" * 5_000
    compressed = gzip.compress(head + bytes([10]) * (300 << 20), compresslevel=1)
    for number in range(2):
        (tmp_path / f"{number}.csv.gz").write_bytes(compressed)
    with pytest.raises(DataError, match="the limit is"):
        read(tmp_path, target="y", task="store")


def test_names_in_chunks_may_contain_quotes_commas_and_a_byte_order_mark(tmp_path):
    rows = (
        frame()
        .assign(store=lambda rows: 'the "old", ' + rows.store.astype(str))
        .rename(columns={"x0": 'a, "b"'})
    )
    for number in range(3):
        part = rows[number::3].to_csv(index=False, encoding="utf-8")
        (tmp_path / f"{number}.csv").write_bytes(codecs.BOM_UTF8 + part.encode())
    table, parts, tasks = read(tmp_path, **RAGGED)
    assert 'a, "b"' in table.features
    assert sorted(tasks) == sorted(rows.store.unique())
    assert sum(part.n_rows.sum() for part in parts) == len(rows)


def test_decimals_and_booleans_in_parquet_are_numbers(tmp_path):
    rows = frame()
    plain = write(
        tmp_path / "plain",
        rows.assign(x1=(rows.x1 > 0).astype(float), x2=rows.x2.round(2)),
    )
    truth, exact = rows.x1 > 0, [Decimal(f"{value:.2f}") for value in rows.x2]
    typed = write(tmp_path / "typed", rows.assign(x1=truth, x2=exact))
    for actual, wanted in zip(
        read(typed, **RAGGED)[1], read(plain, **RAGGED)[1], strict=True
    ):
        same(actual, wanted)


@pytest.mark.slow
def test_too_many_tasks_and_features_are_rejected_before_sums_are_computed(
    tmp_path, free_memory
):
    free_memory(1 << 28)
    rng = np.random.default_rng(0)
    rows = (
        pd.DataFrame(rng.normal(size=(100, 1000)))
        .add_prefix("x")
        .assign(store=range(100), y=0.0)
    )
    write(tmp_path, rows, "csv", files=2)
    with pytest.raises(MemoryLimitError, match="1000 features"):
        read(tmp_path, target="y", task="store")


def test_methods_and_columns_that_chunks_do_not_support_are_rejected(tmp_path):
    folder = write(tmp_path, frame())
    with pytest.raises(
        ConfigError,
        match=r"TraceNormMTLClassifier(.|\n)*TraceNormMTL",
    ):
        mtlrun.compare(folder, **RAGGED, methods=["TraceNormMTLClassifier"])
    with pytest.raises(ConfigError, match="repeats"):
        mtlrun.compare(folder, **RAGGED, repeats=2)
    with pytest.raises(UnknownNameError, match="stor"):
        mtlrun.compare(folder, **{**RAGGED, "task": "stor"})
    with pytest.raises(DataError, match=r"no \.parquet or \.csv"):
        mtlrun.compare(tmp_path.parent / "nothing*", **RAGGED)


def test_a_column_that_varies_by_rounding_alone_keeps_its_unit():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=30), 1e6 + 1e-6 * rng.normal(size=30)])
    statistics = TaskStatistics.of(X, X[:, 0], np.arange(30) % 2)
    factors = Training.of(statistics).factors
    assert_allclose(factors, [1 / X[:, 0].std(), 1.0])
