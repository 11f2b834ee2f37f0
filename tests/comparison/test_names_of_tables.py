"""Results depend on the rows and the options, not on names and formats of files."""

import numpy as np
import pandas as pd
import pytest

import mtlrun
from mtlrun.engine.job import job_seed
from mtlrun.lab.experiment.load import load_training
from mtlrun.lab.plan import plan

OPTIONS = {"splits": 2, "folds": 2, "repeats": 1}
RAGGED = {"target": "y", "task": "site", "drop": "w", "methods": ["PooledRidge"]}
ROLES = {
    "numbers": RAGGED,
    "curve": {
        **RAGGED,
        "drop": (),
        "weight": "w",
        "curve": True,
        "methods": ["GraphMTL"],
    },
    "labels": {
        "target": "label",
        "task": "site",
        "drop": ["y", "w"],
        "methods": ["PooledLogistic"],
    },
    "targets": {
        "targets": ["y", "a"],
        "drop": ["w", "site"],
        "methods": ["PooledRidge"],
    },
}


def table(n_rows=90):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 2))
    site = np.arange(n_rows) % 3
    y = X @ [1.0, 0.5] + rng.normal(size=3)[site] + rng.normal(size=n_rows)
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame["site"] = [f"s{k}" for k in site]
    frame["w"] = 1.0 + site % 2
    frame["y"] = y
    if n_rows == 90:
        frame["label"] = np.where(y > 0, "high", "low")
    return frame


def results(data, **options):
    """Return all that the rows decide."""
    result = mtlrun.compare(data, **{**OPTIONS, **options})
    scores = {entry.label: entry.tasks for entry in result.board.entries}
    rows = [test.tolist() for test in result.board.evaluation.rows]
    return scores, rows, result.verdict, result.coefficients.to_dict()


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        ("numbers", "copy of visits.csv"),
        ("targets", "rows.parquet"),
        pytest.param("curve", "copy of visits.csv", marks=pytest.mark.slow),
        pytest.param("labels", "rows.parquet", marks=pytest.mark.slow),
    ],
)
def test_a_table_has_the_same_results_under_any_name_and_in_any_format(
    layout, name, tmp_path
):
    frame = table()
    if layout != "labels":
        frame = frame.drop(columns="label")
    if name.endswith("csv"):
        frame.to_csv(tmp_path / name, index=False)
    else:
        frame.to_parquet(tmp_path / name)
    expected = results(frame, **ROLES[layout])
    assert results(tmp_path / name, **ROLES[layout]) == expected


def test_the_names_of_a_table_and_its_test_rows_do_not_matter(tmp_path):
    frame = table().drop(columns="label")
    parts = {"a": frame[:60], "b": frame[60:], "c": frame[:60], "d": frame[60:]}
    for name, part in parts.items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    first = results(tmp_path / "a.csv", test=tmp_path / "b.csv", **RAGGED)
    assert results(tmp_path / "c.csv", test=tmp_path / "d.csv", **RAGGED) == first
    assert results(parts["a"], test=parts["b"], **RAGGED) == first


@pytest.mark.slow
@pytest.mark.parametrize("weights", [{}, {"drop": (), "weight": "w"}])
def test_the_names_of_chunks_do_not_matter(weights, tmp_path):
    rows = table(n_rows=600)
    roles = {**RAGGED, **weights, "splits": 3, "repeats": 1}
    names = {
        "days": ["mo.csv", "tu.csv", "we.csv"],
        "parts": ["1.csv", "2.csv", "3.csv"],
    }
    for folder, files in names.items():
        (tmp_path / folder).mkdir()
        for file, part in zip(files, np.split(np.arange(600), 3), strict=True):
            rows.iloc[part].to_csv(tmp_path / folder / file, index=False)

    def scores(data):
        result = mtlrun.compare(data, **roles, folds=5)
        by_method = {entry.label: entry.tasks for entry in result.board.entries}
        return by_method, result.verdict

    assert scores(tmp_path / "days") == scores(tmp_path / "parts")
    listed = [tmp_path / "days" / file for file in names["days"]]
    renamed = [file.rename(tmp_path / f"{9 - k}.csv") for k, file in enumerate(listed)]
    assert scores(renamed) == scores(tmp_path / "parts")


@pytest.mark.slow
def test_the_training_file_has_the_seeds_of_its_comparison(tmp_path):
    table().drop(columns="label").to_csv(tmp_path / "grades.csv", index=False)
    result = mtlrun.compare(tmp_path / "grades.csv", **OPTIONS, **RAGGED)
    result.save(tmp_path / "out")
    data_dir = tmp_path / "out/data"
    training = load_training(tmp_path / "out/chosen.yaml", data_dir=data_dir)
    job = plan(training, data_dir=data_dir).rows[0].job
    assert job.key == result.model.about["cell"]


def test_seeds_of_experiments_still_contain_the_data_set():
    assert job_seed(0, "school", 1) != job_seed(0, "sarcos", 1)
    assert job_seed(0, "own-grades", 1) == job_seed(0, "own-data-frame", 1)
