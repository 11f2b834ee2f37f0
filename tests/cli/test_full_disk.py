"""Errors on a full disk name the folder and a remedy, and never blame input files."""

import hashlib
import http.server
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mtlrun.cli.app import main

CARD = """\
id: mine
title: My set
task_type: regression
design: ragged
reader: {{name: table, options: {{data: t.csv, target: y, task: task}}}}
folder: full
files: [{{name: t.csv, sha256: {sha}, bytes: {size}}}]
licence: free
citation: nobody
"""
TRAIN = """\
schema: 1
kind: train
id: train/wide
dataset: {id: simulated-rmtl, n: 60, d: 400, m: 3}
method: IndependentRidge
split: {kind: random, train: 0.5}
metrics: [auc]
"""
NO_SPACE = "No space left on device"


@pytest.fixture
def on_full_disk(tmp_path, environment, own_mounts, forked):
    """Run a command with a disk of `size` kB mounted at `full`; return exit code,
    output and the files on the disk.
    """
    (tmp_path / "full").mkdir()

    def run(size, *words):
        def command():
            own_mounts()
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", "full"],
                check=True,
            )
            sys.argv = ["mtlrun", *words]
            try:
                main()
            finally:
                sys.stdout.write(
                    "".join(
                        f"{path}\n"
                        for path in Path("full").rglob("*")
                        if path.is_file()
                    )
                )

        process = forked(command, tmp_path, environment)
        out, err = process.communicate()
        return (
            process.returncode,
            err,
            [line for line in out.splitlines() if line.startswith("full/")],
        )

    return run


@pytest.fixture
def table(tmp_path):
    """Write a table of 1 MB, mostly a column that is not a feature."""
    rng = np.random.default_rng(0)
    rows = 400
    frame = pd.DataFrame(
        {
            "task": np.arange(rows) % 4,
            "x": rng.normal(size=rows),
            "y": rng.normal(size=rows),
        }
    )
    frame["note"] = [f"{k} " * 600 for k in range(rows)]
    path = tmp_path / "grades.csv"
    frame.to_csv(path, index=False)
    content = path.read_bytes()
    (tmp_path / "cards").mkdir()
    card = CARD.format(sha=hashlib.sha256(content).hexdigest(), size=len(content))
    (tmp_path / "cards" / "mine.yaml").write_text(card)
    return path


@pytest.fixture
def address(table, monkeypatch):
    """Serve the table on this machine and return its address."""
    content = table.read_bytes()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/t.csv"
        server.shutdown()


def assert_told(code, err, place, remedy):
    assert code == 2, err
    line, rest = err[err.index("error:") :].split("\n", 1)
    assert place in line
    assert NO_SPACE in line
    assert "grades.csv" not in line
    assert remedy in rest
    assert "Traceback" not in err


@pytest.mark.slow
def test_compare_reports_a_full_disk(on_full_disk, table):
    before = table.read_bytes()
    words = ("--target", "y", "--task", "task", "--drop", "note")
    fast = ("--methods", "JointFeatureMTL", "--splits", "2", "--repeats", "1", "-q")
    code, err, _ = on_full_disk(
        600, "compare", "grades.csv", *words, *fast, "-o", "full"
    )
    assert_told(code, err, "full/compare/grades", "folder")
    assert table.read_bytes() == before


@pytest.mark.slow
def test_train_reports_a_full_disk(on_full_disk, tmp_path):
    (tmp_path / "wide.yaml").write_text(TRAIN)
    code, err, files = on_full_disk(20, "train", "wide.yaml", "-q", "-o", "full")
    assert_told(code, err, "full/train/wide", "--output")
    assert not [name for name in files if name.endswith((".tmp", "model.json"))]


def test_predict_reports_a_full_disk(on_full_disk, mtlrun, tmp_path):
    (tmp_path / "wide.yaml").write_text(TRAIN.replace("d: 400", "d: 3"))
    assert mtlrun("train", "wide.yaml", "-q").exit_code == 0
    rows = np.random.default_rng(0).normal(size=(1000, 3))
    np.savetxt(tmp_path / "new.csv", rows, delimiter=",")
    code, err, files = on_full_disk(
        40, "predict", "results/runs/train/wide", "new.csv", "-o", "full/out.csv"
    )
    assert_told(code, err, "full/out.csv", "--output")
    assert not files


def test_data_add_reports_a_full_disk(on_full_disk, table):
    code, err, files = on_full_disk(
        400, "data", "add", "mine", "grades.csv", "--data-dir", "."
    )
    assert_told(code, err, "full/t.csv", "--data-dir")
    assert not files


def test_data_fetch_reports_a_full_disk(on_full_disk, table, address):
    code, err, files = on_full_disk(
        400, "data", "fetch", "mine", "--url", address, "--data-dir", ".", "--yes"
    )
    assert_told(code, err, "full/", "--data-dir")
    assert "full/t.csv" not in files


def test_data_fetch_reports_a_disk_too_small_for_the_unpacked_copy(
    on_full_disk, table, address
):
    """The download fits; the file unpacked from it does not."""
    code, err, files = on_full_disk(
        1600, "data", "fetch", "mine", "--url", address, "--data-dir", ".", "--yes"
    )
    assert_told(code, err, "full/t.csv", "--data-dir")
    assert not files


@pytest.mark.skipif(
    sys.platform != "linux", reason="a file that cannot be read is made with /proc"
)
@pytest.mark.parametrize(
    "words",
    [
        ("compare", "grades.csv", "--target", "y", "--task", "task"),
        ("data", "add", "mine", "grades.csv", "--data-dir", "."),
        ("predict", "results/runs/train/wide", "grades.csv"),
    ],
    ids=lambda words: words[0],
)
def test_read_errors_name_the_input_file_and_do_not_suggest_deleting_it(
    mtlrun, table, tmp_path, words
):
    """The reverse case: reading from the disk fails."""
    if words[0] == "predict":
        (tmp_path / "wide.yaml").write_text(TRAIN.replace("d: 400", "d: 3"))
        assert mtlrun("train", "wide.yaml", "-q").exit_code == 0
    table.unlink()
    table.symlink_to("/proc/self/mem")
    result = mtlrun(*words)
    assert result.exit_code == 2
    assert "grades.csv" in result.stderr
    assert "Input/output error" in result.stderr
    assert "elete" not in result.stderr
    assert table.is_symlink()
