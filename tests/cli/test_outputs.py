"""Output files are replaced atomically, may be links or pipes, and are never inputs."""

import json
import os
import socket
import stat
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mtlrun.cli.app import app
from mtlrun.errors import UserError
from mtlrun.lab.report.frames import write_parquet
from mtlrun.utils.outputs import write_output

FEW = (
    "--methods",
    "PooledRidge",
    "--splits",
    "2",
    "--repeats",
    "1",
    "--folds",
    "2",
    "-q",
)


def mtlrun(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def table(path, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.normal(size=60), "task": ["a", "b"] * 30})
    frame["y"] = frame.x
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """Prepare a folder with a comparison, a run and a model."""
    root = tmp_path_factory.mktemp("place")
    before = Path.cwd()
    os.chdir(root)
    table("t.csv")
    assert (
        mtlrun("compare", "t.csv", "--target", "y", "--task", "task", *FEW).exit_code
        == 0
    )
    table2 = ("reproduce", "table2", "--profile", "smoke", "--only", "method=RidgeReg")
    assert mtlrun(*table2, "-q").exit_code == 0
    os.chdir(before)
    return root


#: All commands that write one file, with the suffix of its format.
COMMANDS = {
    "predict": (("predict", "results/runs/compare/t/model", "t.csv", "-q"), "csv"),
    "report": (("report", "results/runs/dcrmtl/table2/smoke", "--format", "md"), "md"),
    "report all": (("report", "all", "--format", "json"), "json"),
    "report parquet": (
        ("report", "results/runs/compare/t", "--format", "parquet"),
        "parquet",
    ),
    "plot": (("plot", "results/runs/compare/t/model", "--kind", "coefficients"), "svg"),
    "init": (("init", "school", "--force"), "yaml"),
    "init schema": (("init", "--schema", "--force"), "json"),
}


@pytest.fixture(params=COMMANDS)
def command(request, workspace, monkeypatch, tmp_path):
    monkeypatch.chdir(workspace)
    words, ending = COMMANDS[request.param]
    if ending == "parquet":
        pytest.importorskip("pyarrow")

    def write(path):
        return mtlrun(*words, "--out", path)

    write.ending = ending
    return write


@pytest.mark.slow
@pytest.mark.every(2)
def test_a_symlink_is_kept_and_its_target_is_written(command, tmp_path):
    target, link = (
        tmp_path / f"target.{command.ending}",
        tmp_path / f"link.{command.ending}",
    )
    link.symlink_to(target)
    for _ in range(2):  # A dangling link and one that points to a file
        assert command(link).exit_code == 0
        assert link.is_symlink()
        assert target.stat().st_size > 0
        target.write_bytes(b"")


def test_a_named_pipe_is_written_to(command, tmp_path):
    pipe = tmp_path / f"pipe.{command.ending}"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(
        target=lambda: read.append(pipe.read_bytes()), daemon=True
    )
    reader.start()
    result = command(pipe)
    assert result.exit_code == 0, result.output
    reader.join(10)
    assert read[0]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


def test_a_device_remains_a_device(command, tmp_path):
    device = tmp_path / f"null.{command.ending}"
    device.symlink_to("/dev/null")
    assert command(device).exit_code == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert device.is_symlink()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no /dev/fd")
@pytest.mark.parametrize(
    ("command_name", "folder"),
    [("predict", "/dev/fd"), ("report", "/proc/self/fd")],
)
def test_output_to_a_file_descriptor_is_appended(
    workspace, monkeypatch, tmp_path, command_name, folder
):
    monkeypatch.chdir(workspace)
    words, _ = COMMANDS[command_name]
    target = tmp_path / "log"
    with target.open("wb", buffering=0) as stream:
        stream.write(b"first\n")
        done = mtlrun(*words, "--out", f"{folder}/{stream.fileno()}")
    assert done.exit_code == 0, done.output
    assert target.read_bytes().startswith(b"first\n")
    assert len(target.read_bytes()) > 50


def test_a_replaced_file_keeps_its_permissions_and_a_new_one_follows_the_umask(
    tmp_path,
):
    path = tmp_path / "a.csv"
    before = os.umask(0o077)
    try:
        write_output(path, "new")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o640)
        write_output(path, "other")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_text() == "other"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.csv"]


def test_predictions_never_overwrite_their_input_rows(workspace, monkeypatch, tmp_path):
    monkeypatch.chdir(workspace)
    rows = table(tmp_path / "new.csv")
    before = rows.read_bytes()
    (tmp_path / "hard.csv").hardlink_to(rows)
    (tmp_path / "soft.csv").symlink_to(rows)
    for name in ("new.csv", "hard.csv", "soft.csv"):
        result = mtlrun(
            "predict", "results/runs/compare/t/model", rows, "-o", tmp_path / name
        )
        assert result.exit_code == 2
        assert name in result.stderr
    assert rows.read_bytes() == before


def test_predictions_never_overwrite_their_model_or_its_comparison(
    workspace, monkeypatch, tmp_path
):
    monkeypatch.chdir(workspace)
    rows, folder = table(tmp_path / "new.csv"), Path("results/runs/compare/t")
    mine = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    archive = folder / "model" / "model.skops"
    (tmp_path / "hard.csv").hardlink_to(archive)
    (tmp_path / "soft.csv").symlink_to(archive.resolve())
    (tmp_path / "cell.csv").symlink_to(
        next(path for path in mine if path.parent.name == "cells").resolve()
    )
    for model_path in (folder, folder / "model", archive):
        for out in (
            *tmp_path.glob("*.csv"),
            folder / "leaderboard.csv",
            folder / "model" / "predictions.csv",
        ):
            if out != rows:
                result = mtlrun("predict", model_path, rows, "-o", out)
                assert (result.exit_code, out.name in result.stderr) == (2, True)
    assert {path: path.read_bytes() for path in mine} == mine


@pytest.mark.parametrize("name", ["run.json", "provenance.json"])
def test_reports_never_overwrite_their_inputs(workspace, monkeypatch, name):
    monkeypatch.chdir(workspace)
    file = Path("results/runs/dcrmtl/table2/smoke") / name
    before = file.read_bytes()
    result = mtlrun("report", file.parent, "-o", file)
    assert (result.exit_code, file.read_bytes()) == (2, before)
    assert name in result.stderr


def test_a_comparison_does_not_overwrite_its_table(workspace, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "results/runs/compare/tasks"
    folder.mkdir(parents=True)
    rows = table(folder / "tasks.csv")
    before = rows.read_bytes()
    result = mtlrun("compare", rows, "--target", "y", "--task", "task", *FEW)
    assert (result.exit_code, rows.read_bytes()) == (2, before)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("predict", "results/runs/compare/t/model", "t.csv"), "p.xlsx"),
        (("predict", "results/runs/compare/t/model", "t.csv"), "p.csv.gz"),
        (("predict", "results/runs/compare/t/model", "t.csv"), "p.parquet"),
        (("report", "results/runs/dcrmtl/table2/smoke", "--format", "md"), "r.json"),
        (
            ("report", "results/runs/dcrmtl/table2/smoke", "--format", "parquet"),
            "r.csv",
        ),
        (("plot", "results/runs/compare/t/model", "--kind", "coefficients"), "p.gif"),
        (("init", "school"), "school.json"),
        (("init", "--schema"), "schema.yaml"),
    ],
)
@pytest.mark.parametrize("option", ["--out", "--output"])
def test_a_suffix_of_another_format_is_rejected(
    workspace, monkeypatch, tmp_path, words, name, option
):
    monkeypatch.chdir(workspace)
    result = mtlrun(*words, option, tmp_path / name)
    assert result.exit_code == 2
    assert name in result.stderr
    assert not (tmp_path / name).exists()


NAMES = [
    "sales.2023",
    "sales.2024",
    "sales-2023",
    "données",
    "donnees",
    "数据",
    "資料",
    "Sales",
    "a b",
    "a_b",
    "a-b",
    "x" * 240,
]


def test_tables_with_different_names_have_separate_folders_and_ids():
    from mtlrun.comparison.compare import short_name
    from mtlrun.data.sets.cards import check_id
    from mtlrun.utils.text import id_of, stem_of

    folders = {short_name(f"{name}.csv.gz") for name in NAMES}
    ids = {check_id(id_of(stem_of(f"{name}.csv"))) for name in NAMES}
    assert len(folders) == len(ids) == len(NAMES)
    assert {"sales.2023", "données", "数据", "Sales"} <= folders
    assert all(
        len(name.encode()) < 200 and "/" not in name and name.strip(".") == name
        for name in folders
    )
    assert short_name("rows/*.csv") != short_name("other/*.csv")
    assert short_name("..") not in ("", ".", "..")


@pytest.mark.slow
def test_two_tables_with_the_same_name_are_not_confused_silently(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = []
    for folder, seed in (("a", 0), ("b", 1), ("b", 1)):
        (tmp_path / folder).mkdir(exist_ok=True)
        rows = table(tmp_path / folder / "t.csv", seed)
        result = mtlrun("compare", rows, "--target", "y", "--task", "task", *FEW)
        assert result.exit_code == 0
        texts.append(result.stderr)
    assert "replaced" not in texts[0]
    assert "t.csv" in texts[1]
    assert "replaced" in texts[1]
    assert "replaced" not in texts[2]


def test_predictions_of_files_with_dots_have_separate_names(
    workspace, monkeypatch, tmp_path
):
    model = workspace / "results/runs/compare/t/model"
    monkeypatch.chdir(tmp_path)
    for year in (2023, 2024):
        assert (
            mtlrun("predict", model, table(tmp_path / f"sales.{year}.csv")).exit_code
            == 0
        )
    assert {path.name for path in tmp_path.glob("*-predictions.csv")} == {
        "sales.2023-predictions.csv",
        "sales.2024-predictions.csv",
    }


def test_training_files_with_dots_have_separate_ids(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ids = set()
    for name in ("a.2023.yaml", "a.2024.yaml", "a-2023.yaml", "β.yaml", "γ.yaml"):
        assert mtlrun("init", "school", "-o", name).exit_code == 0
        ids |= {
            line
            for line in Path(name).read_text().splitlines()
            if line.startswith("id:")
        }
    assert len(ids) == 5


def test_library_functions_write_through_links(tmp_path):
    pytest.importorskip("pyarrow")
    link = tmp_path / "link.parquet"
    link.symlink_to(tmp_path / "target.parquet")
    write_parquet(pd.DataFrame({"a": [1]}), link)
    assert link.is_symlink()
    assert json.loads(pd.read_parquet(link).to_json()) == {"a": {"0": 1}}
    (tmp_path / "model.json").touch()
    with pytest.raises(UserError, match="results"):
        write_output(tmp_path / "model.json", "{}")


@pytest.mark.slow
def test_the_next_command_removes_leftovers_of_killed_commands(
    workspace, monkeypatch, tmp_path
):
    monkeypatch.chdir(workspace)
    # The process no longer exists.
    left = f".{socket.gethostname()}-{2**22 + 1}-abcdef.tmp"
    run = Path("results/runs/dcrmtl/table2/smoke")
    for folder in (tmp_path, run):
        (folder / left).touch()
    assert mtlrun(*COMMANDS["predict"][0], "--out", tmp_path / "p.csv").exit_code == 0
    assert mtlrun("report", run).exit_code in (0, 1)
    assert not (tmp_path / left).exists()
    assert not (run / left).exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tasks.csv", "cells/rows.csv"])
def test_a_comparison_in_python_does_not_overwrite_its_table(workspace, tmp_path, name):
    """The check runs before the fits if the folder is known, otherwise on saving; a
    table with another name may be in the folder.
    """
    from mtlrun import compare

    (tmp_path / "cells").mkdir()
    options = {
        "target": "y",
        "task": "task",
        "methods": ["PooledRidge"],
        "splits": 2,
        "repeats": 1,
        "folds": 2,
    }
    rows = table(tmp_path / name)
    before = rows.read_bytes()
    with pytest.raises(UserError, match=r"another folder"):
        compare(rows, **options, output=tmp_path)
    with pytest.raises(UserError, match=r"another folder"):
        compare(pd.read_csv(rows), **options, test=rows, output=tmp_path)
    result = compare(rows, **options)
    with pytest.raises(UserError, match=r"another folder"):
        result.save(tmp_path)
    assert rows.read_bytes() == before
    rows.rename(tmp_path / "mine.csv")
    compare(tmp_path / "mine.csv", **options, output=tmp_path).save(tmp_path)
    assert (tmp_path / "mine.csv").read_bytes() == before


def test_a_comparison_of_a_folder_does_not_overwrite_its_tables(tmp_path):
    from mtlrun import compare

    for name in ("tasks.csv", "others.csv"):
        table(tmp_path / name)
    result = compare(
        tmp_path, target="y", task="task", methods=["TraceNormMTL"], splits=3
    )
    with pytest.raises(UserError, match=r"another folder"):
        result.save(tmp_path)
