"""Comparisons of tables: column roles, protocol, budget, results, estimators."""

import json
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.io import savemat
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

import mtlrun
from mtlrun.catalog.registry import build
from mtlrun.comparison.candidates import core, default_candidates
from mtlrun.comparison.options import CompareOptions
from mtlrun.comparison.protocol import Protocol, facts_of
from mtlrun.comparison.verdict import Strategy
from mtlrun.data.reading.read import read_table
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.sets.load import load_dataset
from mtlrun.data.splits import time_folds
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.engine.job import with_params
from mtlrun.engine.record import Record
from mtlrun.errors import ConfigError, DataError, UnknownNameError
from mtlrun.estimators.baselines import (
    CalibratedTasks,
    ScaledTargets,
    TaskFeature,
    TaskMean,
)
from mtlrun.estimators.compare_baselines import BOOSTING
from mtlrun.estimators.independent import IndependentLogistic, IndependentRidge
from mtlrun.features.table import TableFeatures
from mtlrun.model.files import load_model

FEW = {"methods": ["TraceNormMTL"], "splits": 3, "repeats": 1, "folds": 2}


def schools(n_tasks=12, n=16, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    base, frames = rng.normal(size=4), []
    for t in range(n_tasks):
        X = rng.normal(size=(n, 4))
        y = X @ (base + 0.1 * rng.normal(size=4)) + noise * rng.normal(size=n)
        frames.append(pd.DataFrame(X, columns=list("abcd")).assign(school=f"s{t}", y=y))
    return pd.concat(frames, ignore_index=True)


def dataset_of(frame, **roles):
    return make_dataset(table_of_frame(frame), Roles(**roles))


# --- roles of columns ---


def test_ragged_and_shared_tables_and_classes_are_read():
    frame = schools()
    ragged = dataset_of(frame, targets=("y",), task="school")
    assert ragged.task_type == "regression"
    assert ragged.tasks == [f"s{t}" for t in range(12)]
    assert ragged.features == list("abcd")
    shared = dataset_of(
        frame.assign(z=frame.y > 0, u=frame.a > 0),
        targets=("z", "u"),
        drop=("school", "y"),
    )
    assert shared.task_type == "binary"
    assert shared.y.shape == (len(frame), 2)
    classes = dataset_of(
        frame.assign(size=pd.cut(frame.y, 3, labels=["L", "M", "S"]).astype(str)),
        targets=("size",),
        drop=("school",),
    )
    assert classes.tasks == ["L", "M", "S"]
    assert (classes.y.sum(axis=1) == -1).all()  # One class of three
    with pytest.raises(DataError, match="group and by time"):
        dataset_of(frame, targets=("y",), task="school", group="a", time="b")
    with pytest.raises(UnknownNameError, match="'maybe'"):
        dataset_of(
            frame.assign(z=frame.y > 0), targets=("z",), task="school", positive="maybe"
        )


def test_missing_targets_are_masked_or_dropped_and_text_is_encoded():
    frame = schools(4)
    frame.loc[:2, "y"] = np.nan
    frame["club"] = np.where(frame.a > 0, "x", "y")
    frame.loc[3, "club"] = None
    ragged = dataset_of(frame, targets=("y",), task="school")
    assert ragged.n_samples == len(frame) - 3
    assert ragged.categories == {"club": ["x", "y"]}
    assert np.isnan(ragged.X[0, 4])
    shared = dataset_of(frame.drop(columns="school"), targets=("y", "d"))
    assert np.isnan(shared.y).sum() == 3
    assert shared.n_samples == len(frame)


def test_groups_and_times_are_kept_apart_in_splits_and_folds():
    frame = schools(3, 20).assign(g=np.arange(60) % 7, when=np.arange(60)[::-1])
    grouped = dataset_of(frame, targets=("y",), task="school", group="g")
    protocol = Protocol.of(grouped, CompareOptions(splits=4, repeats=2))
    parts = [protocol.rows(grouped, split) for split in range(protocol.n_splits)]
    assert len(parts) == 8
    for train, test in parts:
        assert not set(grouped.source["group"][train]) & set(
            grouped.source["group"][test]
        )
    assert sorted(np.concatenate([test for _, test in parts[:4]])) == list(range(60))
    assert {tuple(test) for _, test in parts[:4]} != {
        tuple(test) for _, test in parts[4:]
    }
    timed = dataset_of(
        frame.drop(columns="g"), targets=("a", "b"), drop=("school",), time="when"
    )
    protocol = Protocol.of(timed, CompareOptions())
    assert (protocol.n_splits, protocol.n_repeats) == (5, 1)
    for split in range(5):
        train, test = protocol.rows(timed, split)
        assert timed.source["time"][train].max() < timed.source["time"][test].min()
    for before, after in time_folds(timed.source["time"][train], 3):
        assert (
            timed.source["time"][train][before].max()
            < timed.source["time"][train][after].min()
        )


def test_formats_give_the_same_tasks(tmp_path):
    frame = schools(3, 6)
    parts = [group for _, group in frame.groupby("school", sort=False)]
    X, Y = np.empty(3, dtype=object), np.empty(3, dtype=object)
    for t, part in enumerate(parts):
        X[t], Y[t] = part[list("abcd")].to_numpy(), part[["y"]].to_numpy()
    savemat(tmp_path / "cells.mat", {"X": X, "Y": Y})
    pairs = [
        [f"{j + 1}:{v!r}" for j, v in enumerate(row)]
        for row in frame[list("abcd")].to_numpy().tolist()
    ]
    rows = zip(frame.y.tolist(), frame.school, pairs, strict=True)
    lines = [f"{y!r} qid:{int(s[1:]) + 1} {' '.join(p)}" for y, s, p in rows]
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
    frame.to_parquet(tmp_path / "table.parquet")
    frame.to_csv(tmp_path / "table.csv.gz", index=False)
    for name in ("cells.mat", "rows.svm", "table.parquet", "table.csv.gz"):
        roles = Roles() if name[0] in "cr" else Roles(targets=("y",), task="school")
        dataset = make_dataset(read_table(tmp_path / name), roles)
        assert dataset.n_tasks == 3, name
        np.testing.assert_allclose(dataset.y, frame.y)
        dense = dataset.X.toarray() if sparse.issparse(dataset.X) else dataset.X
        np.testing.assert_allclose(dense, frame[list("abcd")])


# --- comparing ---


def test_the_result_has_tables_verdict_model_and_files(tmp_path):
    result = mtlrun.compare(schools(), target="y", task="school", **FEW)
    board = result.leaderboard
    assert list(board["rank"]) == [1, 2, 3, 4, 5]
    assert list(board["rmse"]) == sorted(board["rmse"])
    row = board.set_index("method").loc["TraceNormMTL"]
    assert row["rmse"] < board.set_index("method").loc["TaskMean", "rmse"]
    assert row["better in"].endswith(" of 12")
    assert np.isnan(board.set_index("method").loc["IndependentRidge", "gain"])
    assert result.tasks.shape == (12, 6)
    assert result.coefficients.shape == (12, 5)
    assert result.verdict == result.board.answer.text
    folder = result.save(tmp_path / "out")
    model = load_model(folder / "model")
    new = schools(seed=3)
    codes = model.codes(list(new.school), "new.csv")
    again = model.scores(new[list("abcd")].to_numpy(), codes)
    np.testing.assert_allclose(
        again, result.model.scores(new[list("abcd")].to_numpy(), codes)
    )
    assert (
        np.corrcoef(again, new.y)[0, 1] > 0
    )  # Another seed gives tasks with other coefficients.
    drawn = result.plot()
    assert drawn.get_xlabel() == "share of the squared error removed"
    names = [text.get_text() for text in drawn.get_yticklabels()]
    assert names[0] == board.set_index("method")["gain"].idxmax()


@pytest.mark.slow
def test_a_table_in_the_output_folder_is_kept(tmp_path):
    path = tmp_path / "out" / "data" / "own-rows" / "rows.csv"
    path.parent.mkdir(parents=True)
    schools(4, 10).to_csv(path, index=False)
    content = path.read_bytes()
    result = mtlrun.compare(
        path, target="y", task="school", methods=["PooledRidge"], splits=2, folds=2
    )
    result.save(tmp_path / "out")
    assert path.read_bytes() == content
    again = load_dataset("own-rows", data_dir=tmp_path / "out" / "data")
    assert again.n_samples == 40


@pytest.mark.slow
@pytest.mark.parametrize("change", ["edited", "deleted", "replaced by a folder"])
def test_a_table_that_changes_during_the_fits_is_stored_as_it_was_read(
    tmp_path, change
):
    table, test = tmp_path / "grades.csv", tmp_path / "new.csv.gz"
    schools(4, 10).to_csv(table, index=False)
    schools(4, 5, seed=1).to_csv(test, index=False)
    read = table.read_bytes()

    def edit(line):
        if line.startswith("TaskMean") and table.is_file():
            for path in (table, test):
                path.unlink()
                if change == "edited":
                    schools(4, 10, seed=5).to_csv(path, index=False)
                elif change != "deleted":
                    path.mkdir()

    options = {"target": "y", "task": "school", "methods": ["PooledRidge"], "say": edit}
    result = mtlrun.compare(table, test=test, folds=2, **options)
    folder = result.save(tmp_path / "out")
    assert (folder / "data/own-grades/rows.csv").read_bytes() == read
    again = load_dataset("own-grades", data_dir=folder / "data")
    np.testing.assert_array_equal(again.X, result.dataset.X)
    np.testing.assert_array_equal(again.y, result.dataset.y)


@pytest.mark.slow
def test_a_table_in_the_output_folder_that_changes_during_the_fits_is_not_overwritten(
    tmp_path,
):
    path = tmp_path / "out/data/own-rows/rows.csv"
    path.parent.mkdir(parents=True)
    schools(4, 10).to_csv(path, index=False)
    result = mtlrun.compare(
        path, target="y", task="school", methods=["PooledRidge"], splits=2, folds=2
    )
    path.write_text("my edits")
    result.save(tmp_path / "out")
    assert path.read_text() == "my edits"
    again = load_dataset("own-rows", data_dir=tmp_path / "out/data")
    np.testing.assert_array_equal(again.y, result.dataset.y)


@pytest.mark.slow
def test_results_depend_on_the_seed_but_not_on_the_number_of_jobs():
    options = {
        "target": "y",
        "task": "school",
        "methods": ["TraceNormMTL"],
        "splits": 2,
        "repeats": 1,
        "folds": 2,
    }
    runs = [
        mtlrun.compare(schools(6, 12), **options, jobs=jobs, seed=seed)
        for jobs, seed in ((1, 0), (2, 0), (1, 1))
    ]
    tables = [
        [(e.label, e.scores, e.tasks, e.chosen) for e in run.board.entries]
        for run in runs
    ]
    assert tables[0] == tables[1]
    assert tables[0] != tables[2]
    np.testing.assert_array_equal(runs[0].coefficients, runs[1].coefficients)


@pytest.mark.slow
def test_related_tasks_gain_and_an_unrelated_task_loses():
    frame = schools(14, 12, noise=1.0)
    contrary = frame.school == "s3"
    frame.loc[contrary, "y"] = -frame.y[contrary]
    result = mtlrun.compare(
        frame, target="y", task="school", methods=["GraphMTL"], splits=3, repeats=1
    )
    gain = dict(
        zip(result.leaderboard["method"], result.leaderboard["gain"], strict=True)
    )
    assert gain["GraphMTL"] > 0
    assert (
        "s3"
        in [name for name, *_ in result.board.hurt(result.board.best("multi-task"))][:1]
    )
    errors = result.tasks.loc["s3"].astype(float)
    assert errors["PooledRidge"] > errors[result.board.reference.label]


def test_test_rows_may_have_unseen_tasks_and_weights():
    frame = schools(6, 14).assign(w=1.0)
    new = schools(7, 5, seed=1).assign(w=1.0)
    with pytest.raises(DataError, match="test rows: s6"):
        mtlrun.compare(frame, target="y", task="school", test=new, weight="w", **FEW)
    result = mtlrun.compare(
        frame, target="y", task="school", test=new, weight="w", unseen="mean", **FEW
    )
    assert result.board.n_splits == 1
    assert all(value is not None for e in result.board.entries for value in e.tasks[0])


@pytest.mark.slow
def test_an_integer_weight_counts_as_repetitions_and_zero_as_absence():
    frame = schools(5, 12)
    weights = np.where(np.arange(len(frame)) % 4 == 0, 0.0, 1.0)
    noisy = frame.assign(y=np.where(weights == 0, 100.0, frame.y), w=weights)
    result = mtlrun.compare(
        noisy,
        target="y",
        task="school",
        weight="w",
        methods=["IndependentRidge"],
        splits=2,
        folds=2,
    )
    assert result.leaderboard.set_index("method").loc["IndependentRidge", "rmse"] < 20


@pytest.mark.slow
def test_binary_shared_targets_may_be_missing_and_are_calibrated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    Z = X @ rng.normal(size=(3, 2)) + rng.normal(size=(80, 2))
    frame = pd.DataFrame(X, columns=list("abc")).assign(
        p=np.where(Z[:, 0] > 0, "yes", "no"), q=(Z[:, 1] > 0) * 1.0
    )
    frame.loc[:9, "q"] = np.nan
    result = mtlrun.compare(frame, targets=["p", "q"], calibrate=True, **FEW)
    chances = result.model.probabilities(X)
    assert chances.shape == (80, 2)
    assert abs(chances[:, 0].mean() - (Z[:, 0] > 0).mean()) < 0.1
    with pytest.raises(ConfigError, match="targets that are labels"):
        mtlrun.compare(schools(), target="y", task="school", calibrate=True, **FEW)


def test_misspelled_options_are_rejected():
    with pytest.raises(TypeError, match="categorial"):
        mtlrun.compare(schools(), target="y", task="school", categorial=["a"])


# --- stored jobs ---


@pytest.mark.slow
def test_a_new_method_computes_only_itself_and_a_new_table_computes_everything(
    tmp_path,
):
    options = {
        "target": "y",
        "task": "school",
        "splits": 2,
        "repeats": 1,
        "folds": 2,
        "output": tmp_path,
    }
    first = mtlrun.compare(schools(4, 12), methods=["PooledRidge"], **options)
    before = {
        path: path.stat().st_mtime_ns for path in (tmp_path / "cells").glob("*.json")
    }
    lines = []
    extended = mtlrun.compare(
        schools(4, 12), methods=["PooledRidge", "GraphMTL"], say=lines.append, **options
    )
    new = set((tmp_path / "cells").glob("*.json")) - before.keys()
    assert {path: path.stat().st_mtime_ns for path in before} == before
    keys = {
        entry["key"]
        for entry in extended.cells["cells"]
        if entry["method"] == "GraphMTL"
    }
    records = [Record.from_line(path.read_text()) for path in new]
    assert {record.key for record in records if record.family == "fit"} == keys
    assert all("GraphMTL" in json.dumps(record.inputs) for record in records)
    assert sum("computed before" in line for line in lines) == 4  # The baselines
    scores = {e.label: e.scores for e in extended.board.entries}
    assert {e.label: e.scores for e in first.board.entries}.items() <= scores.items()
    other = mtlrun.compare(schools(4, 12, seed=5), methods=["PooledRidge"], **options)
    assert not {e["key"] for e in other.cells["cells"]} & {
        e["key"] for e in extended.cells["cells"]
    }


@pytest.mark.slow
def test_the_best_model_is_refitted_only_if_something_changed(tmp_path):
    options = {
        "target": "y",
        "task": "school",
        "methods": ["GraphMTL"],
        "splits": 2,
        "repeats": 1,
        "folds": 2,
        "output": tmp_path,
    }
    first = mtlrun.compare(schools(4, 12), **options)
    first.save(tmp_path)
    for again in ({}, {"seed": 1}):
        lines = []
        result = mtlrun.compare(schools(4, 12), say=lines.append, **options, **again)
        fitted = [line for line in lines if line.endswith("on all rows")]
        assert bool(fitted) == bool(again)
        if not again:
            np.testing.assert_array_equal(
                result.model.estimator.coef_, first.model.estimator.coef_
            )
            assert result.config == first.config
    (tmp_path / "model" / "model.skops").write_bytes(b"damaged")
    lines = []
    mtlrun.compare(schools(4, 12), say=lines.append, **options)
    assert any(line.endswith("on all rows") for line in lines)


@pytest.mark.slow
def test_additional_repeats_compute_only_themselves(tmp_path):
    options = {
        "target": "y",
        "task": "school",
        "methods": ["PooledRidge"],
        "splits": 2,
        "folds": 2,
        "output": tmp_path,
    }
    first = mtlrun.compare(schools(4, 12), repeats=1, **options)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").glob("*")}
    extended = mtlrun.compare(schools(4, 12), repeats=2, **options)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    for old, new in zip(first.board.entries, extended.board.entries, strict=True):
        assert old.scores.items() <= new.scores.items()
        np.testing.assert_array_equal(old.losses[1], new.losses[1])


@pytest.mark.slow
def test_a_frame_is_compared_like_its_file(tmp_path):
    rng = np.random.default_rng(0)
    frame = schools(3, 20).assign(
        flag=rng.random(60) > 0.5, size=pd.Categorical(rng.integers(1, 4, 60))
    )
    frame["code"] = [f"{k:05d}" for k in range(60)]  # An identifier is left out.
    frame.loc[0, "size"] = None
    frame = frame.rename(columns={"school": "the school"})
    result = mtlrun.compare(
        frame,
        target="y",
        task="the school",
        methods=["PooledRidge"],
        splits=2,
        folds=2,
    )
    assert result.dataset.categories == {"size": ["1", "2", "3"]}
    assert result.dataset.features == ["a", "b", "c", "d", "flag", "size"]
    result.save(tmp_path)
    again = load_dataset("own-data-frame", data_dir=tmp_path / "data")
    assert again.fingerprint == result.dataset.fingerprint
    np.testing.assert_array_equal(again.X, result.dataset.X)


def test_a_frame_keeps_tasks_that_csv_cannot_represent():
    frame = schools(3, 12)
    frame["school"] = frame.school.map({"s0": "01", "s1": "1", "s2": "1.0"})
    result = mtlrun.compare(frame, target="y", task="school", **FEW)
    assert result.dataset.tasks == ["01", "1", "1.0"]
    assert np.isfinite(result.predict(frame)).all()


def test_a_task_named_na_is_missing_in_frames_as_in_files():
    frame = schools(3, 12)
    frame["school"] = frame.school.map({"s0": "a", "s1": "b", "s2": "NA"})
    with pytest.raises(DataError, match=r"row 25: .*'school' is empty"):
        mtlrun.compare(frame, target="y", task="school", **FEW)


@pytest.mark.parametrize("unseen", ["error", "mean"])
def test_new_rows_without_a_task_have_no_prediction(unseen):
    frame = schools(3, 12)
    options = {**FEW, "methods": ["PooledRidge"], "splits": 2, "unseen": unseen}
    result = mtlrun.compare(frame, target="y", task="school", **options)
    new = frame.drop(columns="y").head(4)
    new.loc[1, "school"] = None
    table = result.model.predict_table(new)
    assert table.prediction.isna().tolist() == [False, True, False, False]
    assert table.is_known_task.tolist() == [True, False, True, True]
    with pytest.raises(DataError, match=r"row 2: the task is empty \(1 row in all\)"):
        result.predict(new)


# --- methods and budget ---


def test_default_methods_include_the_baselines_of_each_family():
    frame = schools()
    words = frame.assign(y=frame.y > 0)
    for data, linear in (
        (dataset_of(frame, targets=("y",), task="school"), "Ridge"),
        (dataset_of(words, targets=("y",), task="school"), "Logistic"),
        (dataset_of(frame.drop(columns="school"), targets=("y", "d")), "Ridge"),
    ):
        by_label = {c.label: c for c in default_candidates(data, 0.8)}
        assert {c.label for c in core(list(by_label.values()))} >= {
            "TaskMean",
            f"Independent{linear}",
            f"Independent{linear}CV",
            f"Pooled{linear}",
        }
        families = {label: c.family for label, c in by_label.items()}
        assert families["GradientBoosting+Task"] == "pooled"
        single = families.keys() & {
            "IndependentKernelRidge",
            "IndependentGradientBoosting",
        }
        assert [families[label] for label in single] == ["independent"]
        assert list(families.values()).count("multi-task") >= 6
        shared = data.task_id is None
        assert ("MultiOutputExtraTrees" in families) == shared
        # They are cheaper than boosted trees and often better: a budget must not drop
        # them first.
        if shared:
            assert [*families].index("MultiOutputRandomForest") < [*families].index(
                "GradientBoosting+Task"
            )
        assert (f"Pooled{linear}+Task" in families) != shared
        hierarchical = (
            "HierarchicalMTL" if linear == "Ridge" else "HierarchicalMTLClassifier"
        )
        assert (
            next(label for label, family in families.items() if family == "multi-task")
            == hierarchical
        )
        for candidate in by_label.values():  # Competing methods have an inner score.
            competes = candidate.family in ("multi-task", "independent", "pooled")
            assert competes == bool(candidate.grid or candidate.is_scored), (
                candidate.label
            )


def test_the_search_of_boosted_trees_is_halved_for_many_rows():
    # 80% of the rows are training rows.
    for rows, halved in ((2400, False), (2520, True)):
        frame = pd.DataFrame(
            {
                "a": np.arange(rows) % 7.0,
                "school": np.arange(rows) % 30,
                "y": np.arange(rows) % 11.0,
            }
        )
        data = dataset_of(frame.astype({"school": str}), targets=("y",), task="school")
        by_label = {c.label: c for c in default_candidates(data, 0.8)}
        trees = {label for label in by_label if "GradientBoosting" in label}
        assert len(trees) == 2
        assert {
            label for label, candidate in by_label.items() if candidate.halving
        } == (trees if halved else set())
        facts = facts_of(
            data,
            Protocol.of(data, CompareOptions()),
            Roles(targets=("y",), task="school"),
            list(by_label.values()),
        )
        assert (
            any(
                "better half" in fact and all(label in fact for label in trees)
                for fact in facts
            )
            == halved
        )


def test_boosted_trees_come_from_scikit_learn_and_split_tasks_with_few_rows():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(126, 2)), columns=list("ab")).assign(
        school=np.repeat(list("xyz"), 42)
    )
    frame["y"] = np.where(frame.school == "z", -3, 3) * np.sign(frame.a) + frame.b
    data = dataset_of(frame, targets=("y",), task="school")
    by_label = {c.label: c for c in default_candidates(data, 0.8)}
    few = {c.label for c in default_candidates(data, 0.7)}
    assert "IndependentKernelRidge" in few - by_label.keys()
    assert "IndependentGradientBoosting" in by_label.keys() - few
    part = TrainTestData.of(data, np.arange(126), np.arange(126))
    models = {}
    for label in ("GradientBoosting+Task", "IndependentGradientBoosting"):
        candidate = by_label[label]
        chosen = {name: values[-1] for name, values in candidate.grid.items()}
        models[label] = build(
            {
                "estimator": candidate.estimator,
                "params": with_params(candidate.params, chosen),
            }
        )
        assert (
            r2_score(data.y, part.predict(part.fit(models[label]))) > 0.8
        )  # Not the mean of a task
    trees = HistGradientBoostingRegressor(
        max_bins=255,
        categorical_features=[0],
        early_stopping=False,
        max_leaf_nodes=16,
        random_state=0,
        **BOOSTING,
    )
    rows, scaled = np.c_[data.task_id, data.X], (data.y - data.y.mean()) / data.y.std()
    by_hand = trees.fit(rows, scaled).predict(rows) * data.y.std() + data.y.mean()
    np.testing.assert_allclose(part.predict(models["GradientBoosting+Task"]), by_hand)


USER_DEFINED = "sklearn.linear_model:Ridge"


@pytest.mark.parametrize(
    ("family", "kind"), [((), "own"), ((f"multi-task={USER_DEFINED}",), "multi-task")]
)
def test_classes_of_the_user_compete_only_if_their_family_is_named(family, kind):
    result = mtlrun.compare(
        schools(4, 12),
        target="y",
        task="school",
        methods=[USER_DEFINED],
        family=family,
        splits=3,
        repeats=1,
        folds=2,
    )
    assert {e.label: e.family for e in result.board.entries}["Ridge"] == kind
    assert (result.board.answer.decision == "no verdict") == (kind == "own")


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("multitask=a.b:C", ["multitask", "multi-task"]),
        ("multi-task", ["--family 'multi-task'"]),
        ("own=a.b:C", ["a.b:C", "--methods"]),
    ],
)
def test_invalid_families_are_rejected(family, words, lacking):
    with pytest.raises(ConfigError) as caught:
        mtlrun.compare(schools(4, 12), target="y", task="school", family=[family])
    assert not lacking(f"{caught.value.message} {caught.value.remedy}", *words)


@pytest.mark.slow
def test_the_selected_strategy_has_the_best_inner_score_of_the_pipeline():
    """Compare folds, inner scores and losses with scikit-learn on the same rows."""
    frame = schools(6, 20)
    options = {"target": "y", "task": "school", "methods": ["PooledRidge"]}
    result = mtlrun.compare(frame, **options)
    board, data = result.board, result.dataset
    entries = {e.label: e for e in board.entries}
    model = entries["IndependentRidge"]
    protocol = Protocol.of(data, CompareOptions())
    for split in (0, 3):
        train, test = protocol.rows(data, split)
        assert np.array_equal(test, board.evaluation.rows[split])
        assert set(np.bincount(data.task_id[test], minlength=6)) == {4}
        step = StandardScaler().fit(data.X[train])
        alpha = model.chosen[split]["estimator__alpha"]
        centre, scale = data.y[train].mean(), data.y[train].std()
        predicted = np.zeros(len(test))
        for t in range(6):
            mine, is_tested = train[data.task_id[train] == t], data.task_id[test] == t
            ridge = Ridge(alpha).fit(
                step.transform(data.X[mine]), (data.y[mine] - centre) / scale
            )
            predicted[is_tested] = (
                ridge.predict(step.transform(data.X[test[is_tested]])) * scale + centre
            )
        expected = (data.y[test] - predicted) ** 2 / board.evaluation.scales[
            data.task_id[test]
        ]
        np.testing.assert_allclose(model.losses[split], expected, rtol=1e-4, atol=1e-6)
        tuned, alone = entries["IndependentRidgeCV"].inner[split], model.inner[split]
        independent = Strategy.of(
            [e for e in board.entries if e.family == "independent"], range(5)
        )
        assert entries[independent.selected[split]].inner[split] == min(tuned, alone)


def test_long_lists_of_names_are_shortened():
    rng = np.random.default_rng(0)
    frame = schools(3, 20)
    words = {f"w{j}": rng.choice(["red", "blue"], 60) for j in range(9)}
    frame = pd.concat([frame, pd.DataFrame(words)], axis=1)
    lines = []
    options = {"methods": ["PooledRidge"], "splits": 2, "repeats": 1, "folds": 2}
    mtlrun.compare(frame, target="y", task="school", say=lines.append, **options)
    assert any(
        "9 text columns one-hot encoded (w0, w1, w2, w3, w4 and 4 more)" in line
        for line in lines
    )


# --- estimators for tables ---


def test_task_mean_task_feature_and_target_scaling_match_their_definitions():
    rng = np.random.default_rng(0)
    X, ids = rng.normal(size=(40, 3)), np.repeat([0, 1], 20)
    y = X @ [1.0, 2.0, 3.0] + 5 * ids
    means = TaskMean(unseen="mean").fit(X, y, task_id=ids)
    expected = [y[:20].mean(), y[20:].mean(), y.mean()]
    np.testing.assert_allclose(means.predict(X[:3], task_id=[0, 1, 2]), expected)
    fitted = TaskFeature(LinearRegression()).fit(X, y, task_id=ids)
    np.testing.assert_allclose(fitted.predict(X, task_id=ids), y)
    np.testing.assert_allclose(fitted.coef_, [[1, 2, 3], [1, 2, 3]])
    np.testing.assert_allclose(np.diff(fitted.intercept_), [5])
    numbered = TaskFeature(LinearRegression(), encoding="number")
    assert not hasattr(numbered.fit(X, y, task_id=ids), "coef_")
    with pytest.raises(ValueError, match="has not seen"):
        fitted.predict(X[:1], task_id=[7])
    assert np.isfinite(
        TaskFeature(LinearRegression(), unseen="mean")
        .fit(X, y, task_id=ids)
        .predict(X[:1], task_id=[7])
    )
    Y = np.column_stack([y, 1000 * X[:, 0]])
    scaled = ScaledTargets(IndependentRidge(1e-8)).fit(X, Y)
    np.testing.assert_allclose(
        scaled.predict(X), X @ scaled.coef_.T + scaled.intercept_
    )
    np.testing.assert_allclose(scaled.coef_[1], [1000, 0, 0], atol=1e-3)
    ragged = ScaledTargets(IndependentRidge(1.0)).fit(X, y, task_id=ids)
    plain = IndependentRidge(1.0).fit(
        X, y, task_id=ids
    )  # One scale for all tasks changes only the units.
    np.testing.assert_allclose(ragged.coef_, plain.coef_)


def test_a_task_can_be_a_number_and_a_single_task_needs_no_ids():
    rng = np.random.default_rng(0)
    X, ids = rng.normal(size=(30, 2)), np.repeat([3, 5, 9], 10)
    y = X[:, 0] + 2 * np.searchsorted(
        [3, 5, 9], ids
    )  # Linear in the position of the task, not in its name
    fitted = TaskFeature(LinearRegression(), encoding="number").fit(X, y, task_id=ids)
    np.testing.assert_allclose(fitted.predict(X, task_id=ids), y)
    one_hot = TaskFeature(LinearRegression()).fit(X, y**2, task_id=ids)
    assert one_hot.estimator_.n_features_in_ == 5
    with pytest.raises(ValueError, match=r"task_id.*3"):
        fitted.predict(X)
    single = TaskFeature(LinearRegression()).fit(X[:10], y[:10])
    np.testing.assert_allclose(single.predict(X[:10]), y[:10])
    shared = np.column_stack([y, -y])
    scaled = ScaledTargets(IndependentRidge(1e-8)).fit(X, shared)
    rows = scaled.predict(
        X, task_id=np.arange(30) % 2
    )  # Each row of a shared design counts for the task of its id.
    np.testing.assert_allclose(
        rows, scaled.predict(X)[np.arange(30), np.arange(30) % 2]
    )


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (
            TaskFeature(LinearRegression(), encoding="hot"),
            {},
            "encoding must be 'one-hot' or 'number', not 'hot'",
        ),
        (
            TaskFeature(KNeighborsRegressor()),
            {"sample_weight": np.ones(4)},
            "KNeighborsRegressor takes no weights of rows",
        ),
        (
            TaskMean(),
            {"y": np.ones((4, 2)), "task_id": [0, 0, 1, 1]},
            "a 2-D y already has one column per task",
        ),
    ],
)
def test_invalid_input_of_these_estimators_is_rejected(model, options, message):
    with pytest.raises(ValueError, match=message):
        model.fit(
            np.ones((4, 2)), **{"y": np.arange(4.0), "task_id": [0, 0, 1, 1], **options}
        )


def test_trees_score_labels_by_their_log_odds():
    rng = np.random.default_rng(0)
    X, ids = rng.normal(size=(60, 2)), np.arange(60) % 2
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    forest = TaskFeature(RandomForestClassifier(20, max_depth=2, random_state=0)).fit(
        X, y, task_id=ids
    )
    scores = forest.decision_function(X, task_id=ids)
    chances = forest.estimator_.predict_proba(np.c_[X, ids == 0, ids == 1])[:, 1]
    inside = (chances > 1e-6) & (chances < 1 - 1e-6)
    np.testing.assert_allclose(scores[inside], np.log(chances / (1 - chances))[inside])
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(np.sign(scores), forest.predict(X, task_id=ids))
    # Training rows of a single class: that class is predicted.
    for label in (-1.0, 1.0):
        constant = TaskFeature(RandomForestClassifier(2)).fit(
            X, np.full(60, label), task_id=ids
        )
        np.testing.assert_array_equal(
            constant.decision_function(X, task_id=ids), np.full(60, label)
        )


def test_the_task_feature_of_labels_matches_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    Y = np.sign(X @ rng.normal(size=(2, 2)) + 0.5 * rng.normal(size=(60, 2)))
    Y[:5, 1] = np.nan
    fitted = TaskFeature(LogisticRegression()).fit(sparse.csr_matrix(X), Y)
    is_known = ~np.isnan(Y[:, 1])
    stacked = np.vstack(
        [
            np.c_[X, np.ones(60), np.zeros(60)],
            np.c_[X, np.zeros(60), np.ones(60)][is_known],
        ]
    )
    expected = LogisticRegression().fit(stacked, np.r_[Y[:, 0], Y[is_known, 1]])
    scores = fitted.decision_function(sparse.csr_matrix(X))
    np.testing.assert_allclose(
        scores[:, 1],
        expected.decision_function(np.c_[X, np.zeros(60), np.ones(60)]),
        atol=1e-6,
    )


def test_calibration_recovers_the_probabilities():
    rng = np.random.default_rng(0)
    X, ids = rng.normal(size=(3000, 2)), np.arange(3000) % 3
    chance = 1 / (1 + np.exp(-2 * X[:, 0] - ids + 1))
    y = np.where(rng.uniform(size=3000) < chance, 1.0, -1.0)
    fitted = CalibratedTasks(IndependentLogistic(1.0)).fit(X, y, task_id=ids)
    probabilities = fitted.predict_proba(X, task_id=ids)[:, 1]
    assert np.abs(probabilities - chance).mean() < 0.03
    assert (
        fitted.predict(X, task_id=ids) == np.where(probabilities > 0.5, 1, -1)
    ).all()


def test_table_features_are_imputed_scaled_and_named():
    X = np.array([[1.0, 0.0], [np.nan, 1.0], [3.0, np.nan], [5.0, 1.0]])
    step = TableFeatures({1: ["red", "blue"]}).fit(X)
    names = step.get_feature_names_out(["age", "colour"]).tolist()
    assert names == [
        "age",
        "age is missing",
        "colour=red",
        "colour=blue",
        "colour=missing",
    ]
    transformed = step.transform(np.array([[np.nan, 7.0]]))
    assert transformed.shape == (1, 5)
    assert transformed[0, 2:].tolist() == [0, 0, 0]
    assert abs(step.transform(X)[:, 0].mean()) < 1e-12
    words = TableFeatures({0: ["red", "blue"]}).fit(X[:, 1:])
    assert words.get_feature_names_out(["colour"]).tolist() == [
        "colour=red",
        "colour=blue",
        "colour=missing",
    ]
    thin = sparse.csr_matrix([[0.0, 4.0], [0.0, -8.0], [0.5, 0.0]])
    scaled = TableFeatures().fit(thin)
    assert sparse.issparse(scaled.transform(thin))
    assert scaled.transform(thin).toarray().tolist() == [
        [0, 0.5],
        [0, -1],
        [1, 0],
    ]  # Zeros stay zeros.
    assert scaled.get_feature_names_out(["a", "b"]).tolist() == ["a", "b"]
    no_gaps = TableFeatures().fit(X[[0, 3], :1])
    assert no_gaps.transform(np.array([[np.nan]])).tolist() == [[0.0]]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compare_schools", "compare_outputs"])
def test_examples_run(name, capsys):
    path = Path(__file__).resolve().parents[2] / "examples" / f"{name}.py"
    result = runpy.run_path(str(path))["main"]()
    assert result.verdict in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("package", ["polars", "pyarrow"])
def test_frames_of_other_packages_keep_their_column_names(package):
    other = pytest.importorskip(package, reason=f"{package} is not installed")
    table = schools(n_tasks=4)
    columns = table.to_dict("list")
    frame = other.DataFrame(columns) if package == "polars" else other.table(columns)
    options = {
        "target": "y",
        "task": "school",
        "methods": ["PooledRidge"],
        "splits": 2,
        "repeats": 1,
        "folds": 2,
    }
    result, expected = (
        mtlrun.compare(frame, **options),
        mtlrun.compare(table, **options),
    )
    pd.testing.assert_frame_equal(result.tasks, expected.tasks)
    assert list(result.tasks.index) == sorted(set(table["school"]))
    pd.testing.assert_frame_equal(result.coefficients, expected.coefficients)


@pytest.mark.parametrize("data", [7, object()])
def test_input_that_is_not_a_table_is_rejected(data):
    with pytest.raises(DataError) as caught:
        mtlrun.compare(data, target="y", task="t")
    assert "DataFrame" in str(caught.value.remedy)


@pytest.mark.slow
def test_labels_are_compared_by_the_log_loss_where_most_tasks_have_no_auc():
    rng = np.random.default_rng(0)
    # Of 8 tasks, 6 have labels of one class.
    sizes = np.repeat([20, 6], [2, 6])
    labels = np.tile(["no", "yes"], 38).astype(object)
    labels[40:] = "no"
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=76),
            "task": np.repeat(np.arange(8), sizes),
            "y": labels,
        }
    )
    roles = {"targets": ("y",), "task": "task"}
    data = dataset_of(frame, **roles)
    protocol = Protocol.of(data, CompareOptions())
    assert protocol.metric == "log_loss"
    facts = facts_of(data, protocol, Roles(**roles), default_candidates(data, 0.8))
    assert any("AUC of most tasks" in fact for fact in facts)
    options = {"target": "y", "task": "task", **FEW}
    options["methods"] = ["GraphMTLClassifier"]
    by_auc = mtlrun.compare(frame, metric="auc", **options)
    assert by_auc.board.answer.decision == "no verdict"
    assert "--metric log_loss" in by_auc.board.answer.sentence
    both_classes = frame.assign(y=np.tile(["no", "yes"], 38))
    data = dataset_of(both_classes, **roles)
    assert Protocol.of(data, CompareOptions()).metric == "auc"
