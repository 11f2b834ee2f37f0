"""Results reveal no absolute paths of the user and respect the umask."""

import contextlib
import json
import os
import stat
import sys
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from mtlrun.cli.app import app
from mtlrun.engine.environment import command_line, private_path
from mtlrun.parallel.pool import Pool


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Return a comparison of a table given with its folder, under a umask of 077."""
    root = tmp_path_factory.mktemp("compared")
    rows = root / "secret" / "t.csv"
    rows.parent.mkdir()
    frame = pd.DataFrame({"x": range(60), "task": ["a", "b"] * 30, "y": range(60)})
    frame.to_csv(rows, index=False)
    (root / "work").mkdir()
    words = ["compare", str(rows), "--target", "y", "--task", "task", "-q"]
    words += ["--methods", "TraceNormMTL"]
    words += ["--splits", "2", "--repeats", "1", "--folds", "2"]
    before = os.umask(0o077)
    try:
        with contextlib.chdir(root / "work"):
            assert CliRunner().invoke(app, words).exit_code == 0
    finally:
        os.umask(before)
    return root / "work" / "results" / "runs" / "compare" / "t"


def test_files_have_the_permissions_of_the_umask(compared):
    files = [path for path in compared.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


def test_written_files_contain_no_folder_of_the_user(compared):
    assert list(
        json.loads((compared / "compare.json").read_text())["dataset"]["files"]
    ) == ["t.csv"]
    assert "secret" not in (compared / "compare.json").read_text()


def test_the_command_in_the_provenance_contains_no_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    inside, outside = str(tmp_path / "a" / "b.csv"), "/home/someone/c.csv"
    monkeypatch.setattr(
        sys,
        "argv",
        [
            "/usr/bin/mtlrun",
            "reproduce",
            inside,
            "--data-dir",
            outside,
            f"--out={outside}",
        ],
    )
    words = command_line()
    assert words[:3] == ["mtlrun", "reproduce", "a/b.csv"]
    assert not any("someone" in word for word in words)
    assert (
        private_path(outside)
        == private_path(outside)
        != private_path("/home/other/c.csv")
    )
    assert Path(private_path(outside)).name == "c.csv"


@pytest.mark.parametrize(
    "word",
    [
        "/home/someone",
        "-o/home/someone/out",
        "--set=a=/home/someone/x",
        "methods.0.params.file=/home/someone/x",
        "--only=a,/home/someone/b",
        "tcp://someone.example:8786",
        "--scheduler=tcp://someone.example:8786",
    ],
)
def test_recorded_commands_contain_no_folder_or_host(word, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["mtlrun", "reproduce", word])
    kept = command_line()[-1]
    assert not {"/home", ".example"} & {
        part for part in ("/home", ".example") if part in kept
    }
    assert kept.split("=")[0] == word.split("=")[0] or "=" not in word


def test_training_on_a_folder_of_files_records_no_folder_of_the_user(
    tmp_path, monkeypatch
):
    """Files are recorded as training files name them; absolute paths lose folders."""
    (tmp_path / "secret" / "rows").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for k in range(2):
        rows = {
            "x": range(60),
            "task": ["a", "b"] * 30,
            "y": [v * v % 7 for v in range(60)],
        }
        pd.DataFrame(rows).to_csv(
            tmp_path / "secret" / "rows" / f"{k}.csv", index=False
        )
    for name, files in (("here", "rows"), ("there", tmp_path / "secret" / "rows")):
        text = f"schema: 1\nid: own/{name}\nkind: train\ndata: {{files: {files}, target: y, task: task}}\n"
        file = tmp_path / "secret" / f"{name}.yaml"
        file.write_text(f"{text}method: IndependentRidge\nfolds: 3\n")
        assert (
            CliRunner().invoke(app, ["train", str(file), "-q", "-o", "out"]).exit_code
            == 0
        )
        texts = [
            path.read_text() for path in (tmp_path / "out/own" / name).glob("*.json")
        ]
        assert len(texts) > 2
        assert not [text for text in texts if str(tmp_path) in text]


def test_there_are_at_most_as_many_processes_as_cores_jobs_and_memory_allow(
    monkeypatch,
):
    monkeypatch.setattr("joblib.cpu_count", lambda: 4)
    assert n_workers() == 4
    assert n_workers(3) == 3
    resource = pytest.importorskip("resource")
    sizes = Path("/proc/self/statm")
    n_pages = int(sizes.read_text().split()[0]) if sizes.exists() else 0
    # The limit of this process leaves memory for two others.
    limit = n_pages * resource.getpagesize() + (700 << 20)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert n_workers() == 2


def n_workers(max_workers=None):
    """Return how many workers a pool of 64 keeps; threads need no processes."""
    with Pool(64, backend="threading").keep_workers(max_workers) as pool:
        return len(pool.workers)


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "MODEL", "LONG"),
        ("compare", "LONG", "--target", "y"),
        ("report", "LONG"),
    ],
)
def test_impossible_file_names_cause_clear_messages(words):
    result = CliRunner().invoke(
        app, [word.replace("LONG", "x" * 300) for word in words]
    )
    assert (result.exit_code, "bug" in result.stderr) == (2, False)


def test_a_run_of_a_custom_experiment_records_no_folder_of_the_user(
    compared, tmp_path, monkeypatch
):
    """Results and report contain only a hash of the folders of experiment and data."""
    data = str(compared / "data")
    file = tmp_path / "secret" / "e.yaml"
    file.parent.mkdir()
    lines = [
        "schema: 1",
        "id: own/e",
        "kind: evaluate",
        "title: t",
        "datasets: [own-t]",
        "metrics: [rmse]",
    ]
    last_lines = [
        "split: {kind: kfold, folds: 3}",
        "methods: [{label: T, estimator: TaskMean}]",
    ]
    file.write_text("\n".join([*lines, *last_lines, ""]))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    result = CliRunner().invoke(
        app, ["reproduce", str(file), "--data-dir", data, "-o", str(tmp_path / "out")]
    )
    assert result.exit_code == 0, result.output
    paths = [
        path
        for path in (tmp_path / "out").rglob("*")
        if path.suffix in (".json", ".md", ".html", ".csv")
    ]
    assert len(paths) > 4
    assert [path.name for path in paths if str(tmp_path) in path.read_text()] == []
