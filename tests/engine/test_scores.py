"""Test scores are sealed by their records and stored without loss."""

import io
import shutil
import zipfile

import numpy as np
import pandas as pd
import pytest

import mtlrun
from mtlrun.engine.plan import job_states, rerun_reasons
from mtlrun.engine.record import SCORES_DIGEST, JobKind, Record, Seconds
from mtlrun.engine.run import run
from mtlrun.engine.store import Store, is_settled
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.formats import FILES
from mtlrun.lab.report.run import storable_tests, stored_tests
from mtlrun.lab.results import write_results
from mtlrun.model.fitted import to_csv
from mtlrun.parallel.status import TIMEOUT
from mtlrun.stats import PairedTest
from mtlrun.utils.arrays import array_digest, npz

FEW = {"methods": ["TraceNormMTL"], "splits": 2, "repeats": 1, "folds": 2}


def flipped(path):
    """Change a byte in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


def swapped(path, other):
    content = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)


def other_numbers(path):
    """Write a valid file with other numbers."""
    scores = np.load(path)["scores"]
    path.write_bytes(npz({"scores": scores + 1e-9}))


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    frame["task"] = ["s", "t"] * 30
    frame["y"] = frame.a + rng.normal(size=60)
    return frame


def compared(table, output, said=None):
    say = (lambda text: None) if said is None else said.append
    return mtlrun.compare(table, target="y", task="task", output=output, say=say, **FEW)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["swap", "empty"])
def test_a_comparison_names_damaged_scores_and_recomputes_them(table, tmp_path, damage):
    first = compared(table, tmp_path)
    files = sorted((tmp_path / "cells").glob("*.npz"))
    {
        "swap": lambda: swapped(files[0], files[1]),
        "empty": lambda: files[0].write_bytes(b""),
    }[damage]()
    before = [path.read_bytes() for path in files]
    messages = []
    second = compared(table, tmp_path, messages)
    named = {
        name
        for name in (f"cells/{path.stem}.npz" for path in files)
        if any(name in line for line in messages)
    }
    assert len(named) == (2 if damage == "swap" else 1)
    score = first.leaderboard.drop(columns="seconds", errors="ignore")
    pd.testing.assert_frame_equal(
        second.leaderboard.drop(columns="seconds", errors="ignore"), score
    )
    assert [path.read_bytes() for path in files] != before


@pytest.mark.parametrize("damage", [flipped, other_numbers])
def test_reproduce_and_report_name_damaged_scores(lab, damage):
    text = lab.tiny + "keep: [predictions]\n"
    plan = lab.plan(text)
    run(plan)
    store, row = plan.store(), plan.rows[0]
    damage(store.scores_path(row.job.key))
    states = job_states(lab.plan(text))
    assert [state.name for state in states] == [
        "damaged",
        *["done"] * (len(states) - 1),
    ]
    assert f"cells/{row.job.key}.npz" in rerun_reasons(plan, states)[0]
    report = build_report(plan.folder)
    assert any("test scores" in line for line in report.summary)
    assert "test scores" in FILES["report.md"](report)
    assert run(lab.plan(text)).n_ok == 1
    assert build_report(plan.folder).run.unsound == []


CLAIM = """\
claims:
  - id: one
    text: They do not differ.
    checks:
      - {kind: paired, unit: prediction, of: strong, over: weak, at_least: 0.05}
"""


def test_a_packed_run_keeps_digests_of_scores_but_not_the_scores(lab):
    text = lab.tiny + "keep: [predictions]\n" + CLAIM
    plan = lab.plan(text)
    run(plan)
    before = [result.text for result in write_results(plan).claims[0].results]
    assert "p-value" in before[0]
    shutil.rmtree(lab.output / "cells")
    stored = plan.store()
    assert not any(stored.scores(stored.load(row.job.key)) for row in plan.rows)
    report = build_report(plan.folder)
    assert [result.text for result in report.claims[0].results] == before
    assert report.run.unsound == []
    assert run(lab.plan(text)).unchanged
    again = write_results(lab.plan(text))
    assert [result.text for result in again.claims[0].results] == before


def test_a_packed_digest_in_another_format_is_left_out():
    test = PairedTest("wilcoxon", 4, 0.5, 3.0, 0.2, 3, 1, 0)
    tests = {("a", "b", "wilcoxon", 0.0): test}
    entries = storable_tests(tests)
    assert stored_tests(entries) == tests
    assert stored_tests([{**entries[0], "result": {"n": 1}}, {}]) == {}


def test_scores_have_all_digits_of_the_predictions(table, tmp_path):
    table["y"] = table.y + 1.7e9  # Of a clock in seconds
    result = compared(table, tmp_path)
    for path in (tmp_path / "cells").glob("*.npz"):
        record = Record.from_line(path.with_suffix(".json").read_text())
        scores = np.load(path)["scores"]
        assert scores.dtype == np.float64
        assert record.result[SCORES_DIGEST] == array_digest(scores)
    shifted = result.leaderboard.set_index("method")
    table["y"] -= 1.7e9
    plain = compared(table, tmp_path / "plain").leaderboard.set_index("method")
    gain = next(name for name in plain.columns if "gain" in name)
    common = [
        name
        for name in plain.index
        if pd.notna(plain[gain][name]) and plain[gain][name] != 0
    ]
    assert common
    np.testing.assert_allclose(
        shifted[gain][common].astype(float),
        plain[gain][common].astype(float),
        atol=1e-3,
    )


def test_predictions_in_csv_keep_all_digits():
    values = [1.7e9 + 0.25, 1.7e9 + 0.5, 1e140]
    again = pd.read_csv(io.StringIO(to_csv(pd.DataFrame({"prediction": values}))))
    assert again["prediction"].tolist() == values


@pytest.mark.parametrize(("limit", "enough"), [(5.0, True), (6.0, True), (4.0, False)])
def test_an_analysis_stopped_at_the_same_limit_is_not_repeated(limit, enough):
    record = Record(
        "a", JobKind.ANALYSIS, {}, status=TIMEOUT, seconds=Seconds(limit=limit)
    )
    assert is_settled(record, 5.0) is enough


def test_huge_targets_are_compared(table, tmp_path):
    table["y"] *= 1e140
    result = compared(table, tmp_path)
    assert result.leaderboard["rmse"].notna().any()


@pytest.mark.parametrize("forged", ["shape", "objects", "directory", "text"])
def test_an_archive_that_claims_more_data_than_it_has_is_damaged(tmp_path, forged):
    stored = Store(tmp_path)
    stored.cells_folder.mkdir()
    record = Record("a", "fit", {}, result={"predictions": "a.npz"})
    header = io.BytesIO()
    shape = (1 << 42,) if forged == "shape" else (2,)
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    content = header.getvalue() + bytes(16)
    if forged == "objects":
        content = content.replace(b"<f8", b"|O ")
    with zipfile.ZipFile(stored.cells_folder / "a.npz", "w") as archive:
        archive.writestr("scores.npy", b"no array" if forged == "text" else content)
    if forged == "directory":
        path = stored.cells_folder / "a.npz"
        size = len(content).to_bytes(4, "little")
        path.write_bytes(
            path.read_bytes().replace(size, (1 << 31).to_bytes(4, "little"))
        )
    with pytest.raises(ValueError, match=r"cells/a\.npz"):
        stored.scores(record)
    assert stored.read_scores(record) is None


def test_scores_that_are_replaced_between_two_reads_are_checked_again(tmp_path):
    store = Store(tmp_path, tmp_path / "run", checks_scores=True)
    record = Record("a", JobKind.FIT, {})
    store.cells_folder.mkdir()
    store.save_scores(record, np.arange(3.0))
    store.save(record)
    assert store.read("a") is not None
    store.copy_scores("a", np.arange(3.0) + 1e-9)
    with pytest.raises(ValueError, match=r"a\.npz"):
        store.read("a")
