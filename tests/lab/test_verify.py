"""Stored numbers are recomputed: agreement is reported, nothing is replaced."""

import json
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from all_cases import check_each

import mtlrun
from mtlrun.catalog import methods
from mtlrun.data.sets import load as data_load
from mtlrun.engine.job import job_from
from mtlrun.engine.plan import job_states
from mtlrun.engine.record import Record
from mtlrun.engine.store import Store
from mtlrun.errors import DataError
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.plan import plan
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.formats import markdown
from mtlrun.lab.verify import agreement_of, verify

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
METHODS = """\
  - {label: ridge, estimator: IndependentRidge, grid: {alpha: [0.1, 10]}}
  - {label: trace, estimator: TraceNormMTL, params: {max_iter: 500}}
"""


def stored(lab):
    return {path: path.read_bytes() for path in (lab.output / "cells").iterdir()}


@pytest.fixture
def finished(lab):
    """Return the folder of a finished run of two methods."""
    text = lab.tiny.partition("  - label: strong")[0] + METHODS
    lab.run(text, n_jobs=1)
    before = stored(lab)
    yield lab.plan(text).folder
    assert stored(lab) == before, "verify must replace nothing"


def alter(lab, change):
    """Change the stored records of a run; they stay valid."""
    for key, record in lab.records().items():
        (lab.output / "cells" / f"{key}.json").write_text(change(record).line())


def test_numbers_of_the_same_code_are_equal_and_the_report_says_so(finished):
    trials = [*verify([finished], search=True)]
    assert len(trials) == 4
    assert all(trial.agrees and trial.agreed_digits == 16 for trial in trials)
    compared = {name for trial in trials for name in trial.digits}
    assert compared == {"auc", "auc per task", "chosen parameters"}
    content = json.loads((finished / "verified.json").read_text())
    assert (content["finished"], len(content["cells"])) == (4, 4)
    assert (
        "4 of 4 results computed again (of 4 finished) agree to 16 digits or more"
        in markdown(build_report(finished))
    )


def test_a_different_number_is_reported_with_its_digits(lab):
    text = lab.tiny.partition("  - label: strong")[0] + METHODS
    lab.run(text, n_jobs=1)
    folder = lab.plan(text).folder

    def worse(record):
        if record.family == "fold":
            return record
        return replace(record, metrics={"auc": record.metrics["auc"] * (1 + 1e-4)})

    alter(lab, worse)
    trials = [*verify([folder])]
    assert not any(trial.agrees for trial in trials)
    assert all(
        3.9 < trial.digits["auc"] < 4.1 and trial.digits["auc per task"] == 16
        for trial in trials
    )
    assert "Does not agree" in markdown(build_report(folder))


DIFFERENT = {"stl": 0.65, "proposed": 0.65, "gain": 0.0}


@pytest.mark.parametrize(("moved", "digits"), [(1 / 360, 2.5), (0.05, 1.1)])
def test_a_difference_of_fractions_agrees_to_the_digits_of_the_fractions(moved, digits):
    """If one row of 360 changes sides, a gain of 0 has no common digits, which does not
    indicate changed code.
    """
    fields = {
        "key": "a",
        "family": "measure",
        "inputs": {"method": {"measure": "mtmkl-sharing"}},
    }
    before = Record(**fields, versions={}, made_by={}, status="ok", metrics=DIFFERENT)
    after = replace(
        before, metrics=DIFFERENT | {"proposed": 0.65 + moved, "gain": moved}
    )
    agreement = agreement_of(before, after)
    assert agreement["gain"] == pytest.approx(digits + 0.05, abs=0.3)
    assert agreement["gain"] == pytest.approx(agreement["proposed"], abs=0.3)


def test_only_a_repeated_search_detects_a_different_selection(lab):
    text = lab.tiny.partition("  - label: strong")[0] + METHODS
    lab.run(text, n_jobs=1, only=["method=ridge"])
    folder = lab.plan(text).folder

    def other(record):
        if record.family == "fold":
            return record
        chosen = {"alpha": 10 if record.selection.chosen["alpha"] != 10 else 0.1}
        return replace(record, selection=replace(record.selection, chosen=chosen))

    alter(lab, other)
    assert all(
        trial.digits["chosen parameters"] == 0
        for trial in verify([folder], search=True)
    )


#: A solver whose solution, or failure, depends on the environment
CHANGING = """

class Changing(Ridge):
    def fit(self, X, y):
        super().fit(X, y)
        self.coef_ = self.coef_ + 1 / float(os.environ.get("LAB_SCALE", "inf"))
        return self
"""


@pytest.fixture
def changing(lab):
    """Return the folder of a finished run of a stable and a changing method."""
    lab.models.write_text(lab.models.read_text() + CHANGING)
    text = lab.tiny.partition("  - label: strong")[0] + (
        "  - {label: ridge, estimator: IndependentRidge, params: {alpha: 1.0}}\n"
        '  - {label: changing, estimator: "lab.models:Changing"}\n'
    )
    lab.run(text, n_jobs=1)
    return lab.plan(text).folder


def test_a_changed_solver_does_not_agree(changing, monkeypatch):
    monkeypatch.setenv("LAB_SCALE", "10")
    agrees = {trial.names[changing]: trial.agrees for trial in verify([changing])}
    assert {name.split("/")[1]: good for name, good in agrees.items()} == {
        "ridge": True,
        "changing": False,
    }


def test_jobs_that_cannot_be_recomputed_are_counted_with_the_reason(lab):
    text = lab.tiny.partition("  - label: strong")[0] + METHODS
    lab.run(text, n_jobs=1)
    folder = lab.plan(text).folder

    def earlier(record):
        return replace(record, versions=record.versions | {"generator:rmtl": 0})

    alter(lab, earlier)
    trials = [*verify([folder])]
    assert {trial.refused for trial in trials} == {"generator:rmtl changed since"}
    assert not (folder / "verified.json").exists()


def test_the_cheapest_job_of_each_method_comes_first_and_a_sample_has_one(finished):
    assert len([*verify([finished], sample=2)]) == 2
    content = json.loads((finished / "verified.json").read_text())
    labels = {
        name.split("/")[1]
        for trial in verify([finished], sample=2)
        for name in trial.names.values()
    }
    assert labels == {"ridge", "trace"}
    assert len(content["cells"]) == 2
    assert [*verify([finished], seconds=0)] == []


def test_cells_of_two_runs_are_tried_once_and_count_for_both(finished, lab):
    other = finished.with_name("again")
    shutil.copytree(finished, other)
    trials = [*verify([finished, other])]
    assert len(trials) == 4
    assert all(set(trial.names) == {finished, other} for trial in trials)
    assert (finished / "verified.json").exists()
    assert (other / "verified.json").exists()
    (other / "verified.json").unlink()


def test_an_error_does_not_agree(changing, monkeypatch):
    monkeypatch.setenv("LAB_SCALE", "0")
    trials = [
        trial
        for trial in verify([changing])
        if "changing" in trial.names[changing].split("/")
    ]
    assert len(trials) == 2
    assert all(
        "ZeroDivisionError" in trial.error and not trial.agrees for trial in trials
    )


def test_a_job_can_be_rebuilt_from_its_record(lab):
    text = lab.tiny + "features: standardize\ntiming: {repeats: 2}\n"
    for row in lab.plan(text).rows:
        for job in (row.job, *row.job.folds):
            searched = job.search.versions if job.search else {}
            assert (
                job_from(
                    json.loads(json.dumps(job.content())), job.versions, searched
                ).key
                == job.key
            )


# --- the committed runs


#: Methods with a raised version whose stored jobs have not been recomputed: `Whom` 2
#: moves tasks between groups in an order that does not depend on their names.
WAITING_FOR_COMPUTATION = {
    "mtmkl/table1": ["Whom", "CoClus"],
    "mtmkl/table2": ["Whom", "CoClus"],
    # Hierarchical models of few tasks have the variances of REML, and their noise may
    # differ by task.
    "atlas/gain": [f"{n} rows" for n in (5, 10, 20, 50, 100, 200)],
    "atlas/verdicts": ["10 rows", "50 rows"],
}


#: Runs with some jobs computed from a tree with uncommitted changes, before new runs
#: had to come from clean commits. Recomputed runs are removed from the list. In
#: `mtmkl/sharing` only the files of this run differed from the commit.
FROM_CHANGED_TREES = {
    "atlas/curve/quick",
    "atlas/gain/quick",
    "atlas/methods/quick",
    "atlas/sharing/quick",
    "dcrmtl/speed/quick",
    "dcrmtl/table2/real",
    "dcrmtl/table3/real",
    "fetr/table1/quick",
    "mtmkl/gain/quick",
    "mtmkl/repaired/quick",
    "mtmkl/sharing/quick",
    "mtmkl/table1/full",
    "mtmkl/table2/full",
    "mtmkl/together/full",
    "mtmkl/together/quick",
    "mtsvm/audit/quick",
    "mtsvm/fig1/quick",
    "mtsvm/fig3/quick",
}


@pytest.mark.slow
def test_new_runs_are_computed_from_clean_commits(committed_runs):
    for folder in committed_runs:
        name = folder.relative_to(RESULTS).as_posix()
        if name in FROM_CHANGED_TREES:
            continue
        for record in Store.of_run(folder).packed.records.values():
            assert not (record["made_by"] or {}).get("dirty"), name


@pytest.mark.slow
def test_no_committed_job_is_outdated(runs_together):
    check_each(check_jobs_of, runs_together)


def check_jobs_of(committed_run):
    id, profile = (
        committed_run.parent.relative_to(RESULTS).as_posix(),
        committed_run.name,
    )
    experiment = load_experiment(id, profile=profile)
    reading = "all" if experiment.spec.readings else None
    try:
        run_plan = plan(experiment, interpretation=reading, output=RESULTS)
    except DataError:
        pytest.skip("MTLRUN_DATA does not hold its data")
    # What outdates a job outdates those of the same method in the other splits, too.
    jobs = defaultdict(list)
    for row in run_plan.rows:
        jobs[row.reading, row.dataset, row.method].append(row)
    ends = [row for rows in jobs.values() for row in (rows[0], *rows[1:][-1:])]
    run_plan = replace(run_plan, rows=tuple(ends))
    states = job_states(run_plan)
    # Five settings of one table have targets with a single value in some of the rows,
    # so failure is the right result.
    allowed = {"failed"} if id == "atlas/gain" else set()
    waiting = WAITING_FOR_COMPUTATION.get(id, ())
    judged = {
        state.name
        for row, state in zip(run_plan.rows, states, strict=True)
        if row.method not in waiting
    }
    assert judged <= {"done", "missing"} | allowed
    assert waiting or any(state.name == "done" for state in states)
    outdated = {
        row.method
        for row, state in zip(run_plan.rows, states, strict=True)
        if state.name == "outdated"
    }
    assert outdated == set(waiting), "take the method off the list, or add it"


@pytest.mark.slow
def test_reworded_errors_and_renamed_functions_do_not_outdate_committed_jobs(tmp_path):
    # In a copy of the package, a widely used module has other messages and a renamed
    # function.
    shutil.copytree(
        Path(mtlrun.__file__).parent,
        tmp_path / "mtlrun",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for name in ("configs", "datasets"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (tmp_path / "mtlrun" / "errors.py").write_text(
        (tmp_path / "mtlrun" / "errors.py").read_text()
        + "\n\nREWORDED = 'other words'\n"
    )
    renamed = 0
    for path in (tmp_path / "mtlrun").rglob("*.py"):
        text = path.read_text()
        renamed += "fold_rows" in text
        path.write_text(text.replace("fold_rows", "rows_of_folds"))
    assert renamed > 1
    shutil.copytree(
        RESULTS / "dcrmtl" / "simulated-tasks",
        tmp_path / "results" / "dcrmtl" / "simulated-tasks",
    )
    command = [
        sys.executable,
        "-m",
        "mtlrun",
        "status",
        "dcrmtl/simulated-tasks",
        "--profile",
        "real",
        "-o",
        "results",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("40 results: 40 done\n"), done.stderr


def test_a_record_names_the_code_behind_it(lab):
    lab.run(n_jobs=1)
    recorded_keys = {tuple(sorted(record.made_by)) for record in lab.records().values()}
    assert recorded_keys == {("commit", "dirty", "mtlrun", "package")}
    assert data_load.SOURCE_CHANGES is methods.SOURCE_CHANGES


def test_a_timed_job_is_fitted_once_and_its_numbers_are_compared(lab, monkeypatch):
    # No other test has fitted the methods to such data in the same process.
    data = lab.data.replace("n: 60", "n: 61")
    text = lab.tiny.replace(lab.data, data) + "timing: {repeats: 3}\n"
    lab.run(text, n_jobs=2)
    journal = lab.root / "journal"
    monkeypatch.setenv("LAB_JOURNAL", str(journal))
    trials = [*verify([lab.plan(text).folder])]
    assert trials
    assert all(trial.agrees and "auc" in trial.digits for trial in trials)
    assert len(journal.read_text().splitlines()) == len(trials)
