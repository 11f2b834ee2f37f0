"""Altered JSON files with recomputed digests in results folders cause one message,
never a crash.
"""

import copy
import json
import lzma
import os
import shutil
import warnings
from pathlib import Path

import pytest
from all_cases import all_cases
from typer.testing import CliRunner

import mtlrun
from mtlrun.cli.app import app
from mtlrun.engine.packed import PACKED
from mtlrun.engine.store import Store
from mtlrun.engine.stored import (
    COMPARED,
    LEADERBOARD,
    MODEL_FILE,
    PROVENANCE,
    RUN_FILE,
    TRAINED,
    read_json,
    read_raw,
)
from mtlrun.errors import DataError, UserError
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.formats import render
from mtlrun.lab.report.frames import load_results
from mtlrun.lab.report.run import read_run
from mtlrun.lab.report.summary import read_overview
from mtlrun.model.files import load_model
from mtlrun.model.plots import plot_model
from mtlrun.utils.io import sealed

OTHERS = [None, -1, 1.5, "x", [], {}, [[1]], {"a": None}, True]
# Beside each other, so that an overview of the comparison does not read the run.
RUN, COMPARISON = "runs/dcrmtl/table2/smoke", "compared/compare/t"
MODEL = f"{COMPARISON}/model"


@pytest.fixture(scope="module")
def run_results(tmp_path_factory):
    """Return a folder with results of a run."""
    root = tmp_path_factory.mktemp("stored")
    mtlrun.reproduce("table2", profile="smoke", output=root / "runs")
    return root


@pytest.fixture(scope="module")
def results(run_results):
    """Return results of a run, and a comparison with its model."""
    root = run_results
    before = Path.cwd()
    os.chdir(root)
    rows = "\n".join(f"{k % 7},{'ab'[k % 2]},{k % 5}" for k in range(60))
    Path("t.csv").write_text(f"x,task,y\n{rows}\n")
    words = [
        "compare",
        "t.csv",
        "--target",
        "y",
        "--task",
        "task",
        "--methods",
        "TraceNormMTL",
        "--output",
        "compared",
    ]
    assert (
        CliRunner()
        .invoke(app, [*words, "--splits", "3", "--repeats", "1", "--folds", "2"])
        .exit_code
        == 0
    )
    os.chdir(before)
    return run_results


#: The files and the commands that read them
FILES = {
    f"{RUN}/run.json": lambda root: render(build_report(root / RUN), "md"),
    f"{RUN}/provenance.json": lambda root: render(build_report(root / RUN), "md"),
    f"{COMPARISON}/compare.json": lambda root: load_results(root / COMPARISON),
    f"{COMPARISON}/leaderboard.json": lambda root: read_overview(root / "compared"),
    f"{MODEL}/model.json": lambda root: load_model(root / MODEL),
    f"{MODEL}/metrics.json": lambda root: (
        load_results(root / MODEL),
        plot_model(root / MODEL, "path", root / "x.svg"),
    ),
}


def paths_of(value, depth=4, path=()):
    """Yield the paths of the parts of a value, only the first of long ones."""
    if path:
        yield path
    parts = (
        list(value.items())[:12]
        if isinstance(value, dict)
        else list(enumerate(value))[:2]
    )
    for key, part in parts if depth else ():
        if isinstance(part, dict | list):
            yield from paths_of(part, depth - 1, (*path, key))
        else:
            yield (*path, key)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_altered_files_are_rejected_or_read(results, name, request):
    """Each part gets another value, with ``--all-pairs`` two of them in turn."""
    file, read = results / name, FILES[name]
    steps = (0, 4) if request.config.getoption("all_pairs") else (0,)
    before = file.read_text()
    content = json.loads(before)
    was_sealed = content.pop("digest", None) is not None
    refused = tried = 0
    try:
        for number, path in enumerate(paths_of(content)):
            for step in steps:
                other = OTHERS[(number + step) % 9]
                altered = copy.deepcopy(content)
                inner = altered
                for key in path[:-1]:
                    inner = inner[key]
                inner[path[-1]] = other
                file.write_text(json.dumps(sealed(altered) if was_sealed else altered))
                tried += 1
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        read(results)
                    except UserError as error:
                        refused += bool(error.remedy)
    finally:
        file.write_text(before)
    assert tried > 10
    assert refused > 0 or name.endswith("leaderboard.json")


@all_cases("text", ["", "{", "[]", "null", '{"a": NaN}', "\xff", "[" * 100_000])
def test_a_file_without_a_json_object_has_one_message(tmp_path, text):
    names = [RUN_FILE, PROVENANCE, COMPARED, LEADERBOARD, TRAINED, MODEL_FILE]
    for name in names:
        (tmp_path / name).write_text(text, encoding="latin-1")
        with pytest.raises(DataError) as caught:
            read_json(tmp_path / name)
        assert name in caught.value.message
        assert caught.value.remedy


def test_oversized_json_is_not_read(tmp_path):
    # A file with a hole: it takes no space on the disk.
    with open(tmp_path / "run.json", "wb") as stream:
        stream.truncate((256 << 20) + 1)
    with pytest.raises(DataError, match="the limit is 268,435,456"):
        read_json(tmp_path / "run.json")


@pytest.mark.slow
def test_a_plan_without_a_digest_counts_as_altered(results):
    file = results / RUN / "run.json"
    before = file.read_text()
    assert not read_run(results / RUN).altered
    content = json.loads(before)
    del content["digest"]
    try:
        file.write_text(json.dumps(content))
        assert read_run(results / RUN).altered
        assert any("run.json" in line for line in build_report(results / RUN).summary)
        content["title"] = "a\u2028b"
        file.write_text(json.dumps(sealed(content)))
        assert read_raw(file)["title"] == "a\u2028b"
        assert not read_run(results / RUN).altered, (
            "the digest is of the text as it was written"
        )
    finally:
        file.write_text(before)


def test_a_damaged_pack_matters_only_without_the_job_files(run_results, tmp_path):
    shutil.copytree(run_results / "runs", tmp_path / "runs")
    folder = tmp_path / RUN
    (folder / PACKED).write_bytes((folder / PACKED).read_bytes()[:-20])
    report = build_report(folder)
    assert not report.run.unreadable
    assert report.job_counts == build_report(run_results / RUN).job_counts
    shutil.rmtree(tmp_path / "runs" / "cells")
    with pytest.raises(DataError, match=PACKED) as caught:
        build_report(folder)
    assert caught.value.remedy
    assert not Store.of_run(folder).has("a")
    result = CliRunner().invoke(app, ["report", str(folder)])
    assert (result.exit_code, "bug" in result.stderr) == (2, False)
    (folder / PACKED).write_bytes(lzma.compress(b"no record\n"))
    assert CliRunner().invoke(app, ["report", str(folder)]).exit_code in (0, 1, 2)


@pytest.mark.parametrize(
    "change",
    [
        {
            "claims": [
                {
                    "id": "c",
                    "text": "t",
                    "checks": [
                        {"kind": "ration", "quantity": "auc", "of": "A", "at_least": 1}
                    ],
                }
            ]
        },
        {
            "claims": [
                {
                    "id": "c",
                    "text": "t",
                    "checks": [{"kind": "value", "quantity": "auc", "of": "A"}],
                }
            ]
        },
        {"reference": [{"dataset": "alpha", "method": "A", "value": 1}]},
        {"statistics": {"metric": "auc"}},
    ],
)
def test_the_fields_of_an_experiment_used_by_a_report_are_checked(maker, change):
    maker.config.update(change)
    with pytest.raises(DataError) as caught:
        build_report(maker.fill().write())
    (section,) = change
    assert f"run.json: config.{section}" in caught.value.message
    assert caught.value.remedy


def test_keys_that_experiments_no_longer_have_are_left_out_of_a_report(maker):
    plain = render(build_report(maker.fill().write()), "md")
    maker.config["former_section"] = {"a": 1}
    maker.config["methods"][0]["former_option"] = True
    report = build_report(maker.write())
    # The digest is of the file as it is, so it is sound.
    assert not report.run.altered
    assert render(report, "md") == plain


def test_a_stored_command_names_the_present_option(maker):
    maker.info["command"] = "mtlrun reproduce made/table1 --reading all"
    run = build_report(maker.fill().write()).run
    assert run.experiment.command.endswith("--interpretation all")


def test_a_section_of_another_interpretation_is_checked(maker):
    maker.info["reading"] = "plain"
    maker.info["readings"] = {
        "plain": {"why": "so", "main": {"rule": "convention"}},
        "other": {"why": "so", "config": {"claims": [{"id": "c"}]}},
    }
    with pytest.raises(DataError, match="claims") as caught:
        build_report(maker.fill().write())
    assert caught.value.remedy
