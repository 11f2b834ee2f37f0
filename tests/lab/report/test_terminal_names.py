"""Names are never broken at 80 columns: those of every shipped experiment, with numbers
in every cell.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from all_cases import check_each
from rich.console import Console
from run_folders import stored_experiment

from mtlrun.engine.record import JobKind, Record, ResultKey, Seconds
from mtlrun.lab.batch import artefacts
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.plan import scenarios
from mtlrun.lab.report.build import Report
from mtlrun.lab.report.claims import JudgedRun
from mtlrun.lab.report.run import Run
from mtlrun.lab.report.terminal import print_report

EXPERIMENTS = [entry.id for entry in artefacts()]
PAPERS = sorted({name.partition("/")[0] for name in EXPERIMENTS})


def filled(name: str) -> Run:
    """Return a run of an experiment as read from disk, with long numbers everywhere."""
    experiment = load_experiment(name)
    spec = experiment.spec
    family = JobKind.ANALYSIS if spec.is_analysis else JobKind.FIT
    planned, cells, datasets = [], {}, {}
    for scenario in scenarios(spec):
        datasets[scenario.name] = {
            "id": scenario.dataset.id if scenario.dataset else "published",
            "axis": scenario.axis or None,
        }
        for method in scenario.methods:
            for trial in range(2):
                key = str(len(planned))
                planned.append(
                    ResultKey("", scenario.name, None, method.label, trial, key)
                )
                record = Record(key, family, {})
                quantities = spec.sweep.quantities if spec.sweep else ()
                record.metrics = dict.fromkeys(
                    [*experiment.config["metrics"], *quantities], 1234.5678 + 99 * trial
                )
                record.seconds = (
                    Seconds(fit=12345.6, predict=0.1, total=1.0)
                    if spec.timing
                    else Seconds(total=1.0)
                )
                cells[key] = record
    stored = stored_experiment(
        config=experiment.config, profile="quick", datasets=datasets
    )
    return Run(Path("nowhere"), stored, planned, cells)


def spec_of_one(run: Run) -> bool:
    return run.spec.kind == "inspect" and len(run.methods) == 1


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_names_are_complete_at_80_columns(paper):
    names = [name for name in EXPERIMENTS if name.startswith(f"{paper}/")]
    check_each(check_names, {name: {"name": name} for name in names})


def check_names(name: str) -> None:
    run = filled(name)
    main = JudgedRun.of(run)
    report = Report(main, [], main.claims)
    for options in ({}, {"force_terminal": True, "color_system": None}):
        stream = io.StringIO()
        print_report(Console(file=stream, width=80, **options), report)
        text = stream.getvalue()
        assert "…" not in text
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
        tables = [line for line in text.splitlines() if options or ":" not in line]
        assert [line for line in tables if len(line) > 80] == []
        if spec_of_one(run):
            continue  # Such a table does not name its only method.
        assert [
            method
            for method in run.methods
            if not any(method in line for line in text.splitlines())
        ] == []


def test_every_experiment_was_tested():
    assert len(EXPERIMENTS) >= 29
