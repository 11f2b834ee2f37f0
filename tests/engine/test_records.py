"""Records on disk: alterations, packing, self-contained published runs."""

import json
import lzma
import math
import shutil
from dataclasses import replace

import pytest

from mtlrun.cli.inspect import status
from mtlrun.engine.job import choose
from mtlrun.engine.packed import (
    PACKED,
    compact,
    pack,
    stored_digits,
)
from mtlrun.engine.plan import job_states, other_versions, rerun_reasons
from mtlrun.engine.record import Record, SearchResult, name_candidates
from mtlrun.engine.store import Store
from mtlrun.errors import DataError
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.formats import FILES, FORMATS
from mtlrun.lab.results import compact_run, write_results
from mtlrun.utils.io import read_fields, stored_fields
from mtlrun.utils.outputs import publish


def record(key="a", **fields):
    return Record(key, "fit", {"x": 1}, metrics={"auc": 0.75}, **fields)


def test_a_line_is_read_as_it_was_written():
    new_record = record(error="é \u2028", solver={"gap": float("nan")})
    again = Record.from_line(new_record.line())
    assert again == record(error="é \u2028", solver={"gap": None})
    assert again.line() == new_record.line()
    assert new_record.line().count("\n") == 1


@pytest.mark.parametrize(
    "altered",
    [
        lambda line: line.replace("0.75", "0.85"),
        lambda line: line[:-2],
        lambda line: line + line,
        lambda line: "",
        lambda line: line.replace('"sha256":"', '"sha256":"0', 1),
        lambda line: line.replace('"record"', '"recorx"'),
    ],
)
def test_an_altered_line_is_rejected_and_its_file_named(tmp_path, altered):
    line = altered(record().line())
    with pytest.raises(ValueError, match=r"digest|not a record"):
        Record.from_line(line)
    stored = Store(tmp_path, tmp_path / "run")
    stored.cells_folder.mkdir()
    stored.path("a").write_text(line)
    with pytest.raises(ValueError, match=r"cells/a\.json is damaged"):
        stored.read("a")
    assert stored.load("a") is None


def test_a_record_under_another_name_is_rejected(tmp_path):
    stored = Store(tmp_path)
    stored.cells_folder.mkdir()
    stored.path("b").write_text(record("a").line())
    with pytest.raises(ValueError, match=r"cells/b\.json"):
        stored.read("b")


def read_packed(folder):
    """Return the packed records of a folder by key."""
    stored = Store(folder, folder)
    return {key: stored.load(key) for key in stored.packed.records}


def test_packing_gives_the_same_bytes_again(tmp_path):
    content_by_key = {key: record(key) for key in "cab"}
    content = pack(content_by_key.values())
    assert content == pack(content_by_key[key] for key in "abc")
    (tmp_path / PACKED).write_bytes(content)
    assert read_packed(tmp_path) == {key: record(key) for key in "abc"}
    again = read_packed(tmp_path).values()
    assert pack(again) == content


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[:-9],
        lambda b: b"",
        lambda b: b"{}",
        lambda b: b[:60] + bytes([b[60] ^ 1]) + b[61:],
        lambda b: lzma.compress(lzma.decompress(b).replace(b"0.75", b"0.85")),
        lambda b: lzma.compress(b"[]"),
    ],
)
def test_a_damaged_pack_is_named(tmp_path, damage):
    content = damage(pack([record()]))
    (tmp_path / PACKED).write_bytes(content)
    stored = Store(tmp_path, tmp_path)
    assert PACKED in stored.packed.damage
    assert stored.load("a") is None


def test_keys_that_can_be_derived_are_not_stored(lab):
    lab.run()
    plan = lab.plan()
    write_results(plan)
    text = lzma.decompress((plan.folder / PACKED).read_bytes()).decode()
    keys = {row.job.key for row in plan.rows}
    keys |= {fold.key for row in plan.rows for fold in row.job.folds}
    assert keys
    assert not [key for key in keys if key in text]
    stored = Store(lab.root, plan.folder)
    for row in plan.rows:
        packed = stored.load(row.job.key)
        loaded = plan.store().load(row.job.key)
        assert packed.key == loaded.key
        assert packed.inputs == loaded.inputs
        assert packed.selection.key == loaded.selection.key
        assert packed.selection.chosen == loaded.selection.chosen
        assert packed.metrics == loaded.metrics
        assert packed.per_task == loaded.per_task


def test_a_packed_run_is_up_to_date_and_has_the_same_records(lab):
    lab.run()
    plan = lab.plan()
    write_results(plan)
    shutil.rmtree(lab.output / "cells")
    before = {path: path.read_bytes() for path in files_of(plan.folder)}
    assert lab.run().unchanged
    write_results(lab.plan())
    assert {path: path.read_bytes() for path in files_of(plan.folder)} == before


def files_of(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("scores", [[2 / 3, 1 / 7, None], [0.1, math.pi], [1.0], []])
def test_scores_of_tasks_keep_all_digits(tmp_path, scores):
    new_record = record(per_task={"auc": scores})
    other = record("b", per_task={"auc": scores[::-1]})
    content = pack([new_record, other])
    (tmp_path / PACKED).write_bytes(content)
    assert read_packed(tmp_path) == {"a": new_record, "b": other}


def test_rounding_does_not_affect_fractions_and_averages():
    new_record = record(per_task={"auc": [2 / 3, None], "mse": [math.pi, 0.5]})
    short = compact(new_record, task_digits=7)
    assert short.per_task == {"auc": [2 / 3, None], "mse": [3.141593, 0.5]}
    assert short.metrics == new_record.metrics
    assert stored_digits(short.per_task["mse"]) == 7
    assert stored_digits(short.per_task["auc"]) is None


def test_results_of_searches_follow_the_order_of_the_experiment():
    """JSON sorts the names of a grid, but candidates have the order of the file."""
    grid = {"lam": [1, 2], "beta": [3, 4]}
    means = [0.1, 0.9, 0.2, 0.3]
    scores = {"scores": means, "errors": [None] * 4, "warm_started": True}
    column = SearchResult(**scores, undefined=[0] * 4, not_converged=[False] * 4)
    choice = choose(grid, "auc", True, [("key", column)])
    assert choice.chosen == {"lam": 1, "beta": 4}
    stored = json.loads(json.dumps(stored_fields(choice), sort_keys=True))
    read = read_fields(SearchResult, stored)
    assert read.best_scores("lam") == {1: 0.9, 2: 0.3}
    assert read.best_scores("beta") == {3: 0.2, 4: 0.9}
    earlier = replace(read, names=None)
    name_candidates([earlier])
    assert earlier.best_scores("lam") == {1: 0.9, 2: 0.3}


def test_a_published_run_has_the_same_report_as_its_jobs(lab, tmp_path_factory):
    text = lab.tiny + "keep: [predictions]\n"
    plan = lab.plan(text)
    lab.run(text)
    write_results(plan)
    before = {name: writer(build_report(plan.folder)) for name, writer in FILES.items()}
    folder = tmp_path_factory.mktemp("published") / "run"
    plan.folder.rename(folder)
    lab.output.rename(lab.root / "gone")
    assert {
        name: writer(build_report(folder)) for name, writer in FILES.items()
    } == before


@pytest.mark.slow
def test_a_compact_run_has_the_same_reports_and_is_up_to_date(lab):
    lab.run()
    plan = lab.plan()
    write_results(plan)
    before = {
        name: writer(build_report(plan.folder)) for name, writer in FORMATS.items()
    }
    compact_run(plan.folder)
    size = (plan.folder / "run.json").stat().st_size
    shutil.rmtree(lab.output / "cells")
    report = build_report(plan.folder)
    assert {name: writer(report) for name, writer in FORMATS.items()} == before
    assert not report.run.altered
    assert lab.run().unchanged
    assert (plan.folder / "run.json").stat().st_size == size
    assert [state.name for state in job_states(lab.plan())] == ["done"] * len(plan.rows)


@pytest.mark.slow
def test_a_compact_run_without_its_records_is_rejected(lab):
    lab.run()
    plan = lab.plan()
    write_results(plan)
    compact_run(plan.folder)
    (plan.folder / PACKED).unlink()
    with pytest.raises(DataError, match=PACKED) as caught:
        build_report(plan.folder)
    assert caught.value.remedy
    assert lab.run().unchanged


@pytest.mark.slow
def test_compacting_does_not_hide_an_altered_plan(lab):
    lab.run()
    plan = lab.plan()
    write_results(plan)
    run_file = plan.folder / "run.json"
    run_file.write_text(run_file.read_text().replace("A tiny", "Another"))
    compact_run(plan.folder)
    assert build_report(plan.folder).run.altered


def test_jobs_of_other_versions_are_named(lab, capsys):
    lab.run()
    plan = lab.plan()
    assert other_versions(plan, job_states(plan)) is None
    store, key = plan.store(), plan.rows[0].job.key
    record = store.load(key)
    record.environment["packages"]["numpy"] = "0.9"
    store.save(record)
    states = job_states(plan)
    assert [state.name for state in states] == ["done"] * 4
    assert states[0].versions == {"numpy": "0.9"}
    assert other_versions(plan, states).startswith(
        "1 result computed with numpy 0.9 (here: numpy "
    )
    status(str(lab.root / "tiny.yaml"), output_dir=lab.output)
    assert (
        "1 result computed with numpy 0.9 (here: numpy "
        in capsys.readouterr().out.replace("\n", " ")
    )


def test_a_job_of_the_first_protocol_is_reported_as_such(lab):
    plan = lab.plan()
    plan.write()
    old = [Record("0" * 63 + str(i), "fit", {}, protocol=1) for i in range(4)]
    (plan.folder / PACKED).write_bytes(pack(old))
    run_file = plan.folder / "run.json"
    text = run_file.read_text()
    for row, record in zip(plan.rows, old, strict=True):
        text = text.replace(row.job.key, record.key)
    run_file.write_text(text)
    now = lab.plan()
    states = job_states(now)
    assert {(state.name, state.reason) for state in states} == {
        ("outdated", "made by an earlier version of mtlrun")
    }
    assert rerun_reasons(now, states)[0].endswith(
        "/2 trials: made by an earlier version of mtlrun"
    )


SEPARATORS = ["\u2028", "\u2029", "\x85", "\x1c", "\x1d", "\x1e", "\x0b", "\x0c", "\r"]


@pytest.mark.parametrize("separator", SEPARATORS)
def test_names_with_other_line_separators_survive_packing(tmp_path, separator):
    records = {
        key: record(key, result={"tasks": [f"a{separator}b", "c"]}) for key in "ab"
    }
    (tmp_path / PACKED).write_bytes(pack(records.values()))
    assert read_packed(tmp_path) == records
    stored = Store(tmp_path)
    stored.cells_folder.mkdir()
    stored.path("a").write_text(records["a"].line())
    assert stored.read("a") == records["a"]


def test_obsolete_files_may_have_any_name(tmp_path):
    names = [f"a{separator}b" for separator in SEPARATORS if separator != "\r"]
    for name in [*names, "a", "b"]:
        (tmp_path / name).touch()
    with publish(tmp_path, obsolete=names):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
