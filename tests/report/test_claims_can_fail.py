"""Every check of every shipped claim can hold and can fail: numbers made to satisfy it do, spoiled ones do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mtlrun.report.claims import Evidence, evaluate
from mtlrun.report.run import Row, Run
from mtlrun.runs.artefacts import artefacts
from mtlrun.runs.load import load_experiment

TRIALS = range(8)


def shipped(path: Path) -> Iterator[Any]:
    """Yield every check of every claim of an experiment, under every reading; p-values and ranks have own tests."""
    main = load_experiment(path, profile="full")
    for one in (main, *main.others):
        for claim in one.config.get("claims", ()):
            for check in claim.get("checks") or () if not claim.get("not_testable") else ():
                if check["kind"] not in ("paired", "rejections") and check.get("quantity") != "average_rank":
                    yield one.config, f"[{one.reading}] {claim['id']}: {check}", check


def rows_of(check: dict[str, Any], values: dict[str, float], dataset: str) -> list[Row]:
    """Return a row per method with the same number in all splits and tasks."""
    rows = []
    for method, value in values.items():
        row = Row(dataset, method, "ok", len(TRIALS), len(TRIALS), len(TRIALS))
        quantity = check.get("quantity", "")
        row.samples = {quantity: dict.fromkeys(TRIALS, value)}
        row.tasks = {quantity: {t: [value] * 9 for t in TRIALS}}
        row.task_names = [str(task) for task in as_list(check.get("task"))]
        row.medians = ()
        rows.append(row)
    return rows


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def numbers(check: dict[str, Any], good: bool) -> dict[str, float]:
    """Return a value per method with which the check holds, or does not."""
    kind, low, high = check["kind"], check.get("at_least"), check.get("at_most")
    if kind == "order":
        ranked = as_list(check["methods"])
        up = (check.get("direction") or "increasing") == "increasing"
        return {m: 1.0 + (i if up == good else len(ranked) - i) for i, m in enumerate(ranked)}
    step = max(1.0, abs(low or 0), abs(high or 0), 3 * float(check.get("effect") or 0))
    inside = (low + high) / 2 if None not in (low, high) else low + step if low is not None else high - step
    outside = low - step if low is not None else high + step
    if kind == "ratio":
        inside = low * 2 if low is not None else high / 2
        outside = low / 2 if low is not None else high * 2
    wanted = inside if good else outside
    base = 3.0 if kind == "ratio" else 0.0
    others = dict.fromkeys(as_list(check.get("over")), base)
    return {**others, **dict.fromkeys(as_list(check["of"]), wanted * base if kind == "ratio" else wanted)}


@pytest.mark.parametrize("path", [entry.path for entry in artefacts()], ids=[entry.id for entry in artefacts()])
def test_a_spoiled_record_flips_every_check(path):
    for config, name, check in shipped(path):
        dataset = (as_list(check.get("dataset")) or ["alpha"])[0]
        held = {}
        for good in (True, False):
            info = {"config": config, "datasets": {dataset: {"id": dataset}}, "paper_datasets": [dataset]}
            rows = rows_of(check, numbers(check, good), dataset)
            found = evaluate({**check, "dataset": dataset}, Evidence(Run(Path(), info, []), rows))
            held[good] = {result.holds for result in found}
        if check.get("bound") is None:
            assert held == {True: {True}, False: {False}}, name
        else:  # a bound decides one side only
            assert held[True] != held[False], name
