"""What follows from the printed table of relationship learning."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from scipy.stats import ttest_ind_from_stats

from mtlrun.core.yamlmarks import load_text
from mtlrun.data.dataset import Dataset
from mtlrun.experiments.measures.measurement import Measurement
from mtlrun.experiments.measures.published import published_path


def audit_table(dataset: Dataset | None, *, seed: int, published: str = "fetr/published/table1.yaml") -> Measurement:
    """Compare the printed errors cell by cell: does "consistently lower" follow from them?

    Parameters
    ----------
    dataset : None
    seed : int
        Without effect.
    published : str
        File of the table below the folder of the experiments.
    """
    path = published_path(published)
    table: Mapping[str, Any] = load_text(path.read_text(encoding="utf-8"), f"configs/{published}").data
    ours, rivals = table["method"], table["linear"]
    verdicts = [(rival, cell, _verdict(a, b), a, b) for rival, cell, a, b in _pairs(table, ours, rivals)]
    counts = {v: sum(1 for _, _, verdict, _, _ in verdicts if verdict == v) for v in ("lower", "equal", "higher")}
    simpler = [(a, b) for r in (*rivals, ours, "STN") for a, b in zip(*_rows(table, "MTN", r), strict=True)]
    related = list(zip(*_rows(table, "MTN-FETR", "MTN"), strict=True))
    values = {
        "comparisons": float(len(verdicts)),
        "lower": float(counts["lower"]),
        "equal": float(counts["equal"]),
        "higher": float(counts["higher"]),
        "mtn_not_lower": float(sum(a >= b for a, b in simpler)),
        "mtn_fetr_not_lower": float(sum(a >= b for a, b in related)),
        "mtn_smallest_gain": min(1 - a / b for a, b in simpler),
        "school_largest_p": max(p for _, p in _school(table, ours, rivals)),
    }
    rows = [[rival, cell, a, b, verdict] for rival, cell, verdict, a, b in verdicts]
    columns = ["rival", "cell", ours, "the rival", f"{ours} is"]
    return Measurement(
        values,
        lines=_sentences(table, ours, rivals, verdicts, counts),
        tables={f"{ours} against the linear methods, as printed": {"columns": columns, "rows": rows}},
    )


def _pairs(table: Mapping[str, Any], ours: str, rivals: list[str]) -> Iterator[tuple[str, str, float, float]]:
    """Yield (rival, cell, our error, the rival's error)."""
    for rival in rivals:
        for joint, (a, b) in enumerate(zip(*_rows(table, ours, rival), strict=True), 1):
            yield rival, f"SARCOS, joint {joint}", a, b
        school = table["school_nmse"]
        yield rival, "School", float(school[ours]["mean"]), float(school[rival]["mean"])


def _rows(table: Mapping[str, Any], *names: str) -> tuple[list[float], ...]:
    return tuple([float(v) for v in table["sarcos_mse"][name]] for name in names)


def _verdict(a: float, b: float) -> str:
    return "lower" if a < b else "equal" if a == b else "higher"


def _school(table: Mapping[str, Any], ours: str, rivals: list[str]) -> Iterator[tuple[str, float]]:
    """Yield (rival, p-value of Welch's test from the printed means and deviations)."""
    for rival in rivals:
        numbers = [
            (float(cell["mean"]), float(cell["std"]), int(table["folds"]))
            for cell in (table["school_nmse"][name] for name in (ours, rival))
        ]
        yield rival, float(ttest_ind_from_stats(*itertools.chain(*numbers), equal_var=False).pvalue)


def _sentences(
    table: Mapping[str, Any],
    ours: str,
    rivals: list[str],
    verdicts: list[tuple[str, str, str, float, float]],
    counts: Mapping[str, int],
) -> list[str]:
    against = [
        f"{cell}: {a:g} against {b:g} of {rival}" for rival, cell, verdict, a, b in verdicts if verdict == "higher"
    ]
    ties = [
        f"{cell.removeprefix('SARCOS, ')} with {rival}" for rival, cell, verdict, _, _ in verdicts if verdict == "equal"
    ]
    tests = ", ".join(f"{rival} {p:.2g}" for rival, p in _school(table, ours, rivals))
    follows = counts["lower"] == len(verdicts)
    return [
        f"{ours} is lower in {counts['lower']} of {len(verdicts)} printed comparisons, equal in {counts['equal']}, "
        f'higher in {counts["higher"]}: "consistently lower" {"follows" if follows else "does not follow"}.',
        *([f"Higher: {'; '.join(against)}."] if against else []),
        *([f"Equal to the printed digits: {'; '.join(ties)}."] if ties else []),
        f"School, Welch's test on the printed means and deviations of {table['folds']} folds, p-values: {tests}. (The "
        "folds are the same for all methods; a paired test would need their numbers, which are not printed.)",
        "SARCOS has one test set: the table says nothing about the variation of its numbers.",
    ]
