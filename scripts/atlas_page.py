"""Write the tables of the pages of the atlas from its stored runs.

``python scripts/atlas_page.py`` rewrites what stands between ``<!-- table: NAME -->`` and
``<!-- end of table -->``; the text around the tables is kept. Effects, which are log error
ratios, become percentages: ``100 (1 - exp(-effect))`` percent less error.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from mtlrun.comparison.verdict import (
    CANNOT_TELL,
    HELPS,
    NO_DIFFERENCE,
    SAFE,
    WORSE,
)
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.run import Run, read_run, results_of
from mtlrun.papers.atlas.sharing import REGIMES, percent_less, read_tables
from mtlrun.show.report_table import Column, ReportTable, markdown_grid

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "docs" / "atlas.md", ROOT / "configs" / "atlas" / "README.md")
RESULTS = ROOT / "results" / "atlas"
#: The only data set of an experiment that reads a file of lines.
PUBLISHED = "published"
_TABLE = re.compile(
    r"<!-- table: (?P<name>[\w-]+) -->\n.*?<!-- end of table -->", re.DOTALL
)


@lru_cache
def sharing_run() -> Run:
    """Return the run with the analyses."""
    return read_run(RESULTS / "sharing" / "quick")


def values_of(label: str) -> dict[str, float]:
    """Return the quantities of an analysis by its label."""
    (record,) = results_of(sharing_run(), PUBLISHED, label)
    values = {}
    for name, value in record.metrics.items():
        # A quantity without a number is stored as None.
        values[name] = math.nan if value is None else float(value)
    return values


def percent(effect: float) -> str:
    """Return the reduction of the error, in percent, of a log error ratio."""
    value = percent_less(effect)
    # Two digits: 9.96 is 10, not 10.0.
    text = f"{value:.1f}" if abs(value) < 9.95 else f"{value:.0f}"
    # There is no negative zero.
    return text.removeprefix("-") if float(text) == 0 else text


def interval(values: Mapping[str, float], suffix: str = "") -> str:
    """Return an effect with its interval in percent; a dash without one."""
    numbers = [
        values.get(f"{name}{suffix}", math.nan) for name in ("effect", "low", "high")
    ]
    if any(map(math.isnan, numbers)):
        return "-"
    effect, low, high = map(percent, numbers)
    return f"{effect}% ({low} to {high})"


def counts(values: Mapping[str, float]) -> list[str]:
    """Return how many tables gain, stay within 1%, and lose."""
    return [f"{values[name]:.0f}" for name in ("better", "same", "worse")]


def effect_rows(labels: Mapping[str, str]) -> list[list[str]]:
    """Return a row per analysis: effects by regime, and counts of tables.

    Parameters
    ----------
    labels : dict of str to str
        First cell -> label of the analysis.
    """
    rows = []
    for title, label in labels.items():
        values = values_of(label)
        row = [title]
        for regime in REGIMES:
            cell = interval(values, f"_{regime}")
            n_tables = values.get(f"tables_{regime}", math.nan)
            if cell != "-":
                cell += f", {n_tables:.0f}"
            row.append(cell)
        rows.append([*row, *counts(values)])
    return rows


EFFECT_HEADS = [
    "5 to 20 rows",
    "50 to 200 rows",
    "500 to 2,000 rows",
    "gain",
    "same",
    "lose",
]


def markdown(
    heads: Sequence[str], rows: Iterable[Sequence[str]], n_text: int = 1
) -> str:
    """Return a table; columns after the first `n_text` are aligned to the right."""
    columns = []
    for index, head in enumerate(heads):
        columns.append(Column(head, "text" if index < n_text else "number"))
    return markdown_grid(ReportTable(columns, [list(row) for row in rows]))


def groups_table() -> str:
    """Partial sharing against none, on groups."""
    labels = {
        "linear": "linear, groups",
        "smooth": "smooth, groups",
        "boosted trees": "trees, groups",
        "logistic": "logistic, groups",
    }
    return markdown(["learner", *EFFECT_HEADS], effect_rows(labels))


def shared_rows_table() -> str:
    """Partial sharing against none, on several targets and labels."""
    labels = {
        "linear, targets": "linear, targets",
        "smooth, targets": "smooth, targets",
        "boosted trees, targets": "trees, targets",
        "extra trees, targets": "extra trees, targets",
        "logistic, labels": "logistic, labels",
        "boosted trees, labels": "trees, labels",
        "extra trees, labels": "extra trees, labels",
    }
    return markdown(["learner and kind", *EFFECT_HEADS], effect_rows(labels))


def full_table() -> str:
    """Partial against full sharing, on groups."""
    labels = {
        "linear": "linear, over full",
        "smooth": "smooth, over full",
        "boosted trees": "trees, over full",
        "logistic": "logistic, over full",
    }
    return markdown(["learner", *EFFECT_HEADS], effect_rows(labels))


def methods_table() -> str:
    """Three ways of partial sharing for linear models."""
    labels = {
        name: name for name in ("HierarchicalMTL", "TraceNormMTL", "JointFeatureMTL")
    }
    return markdown(["method", *EFFECT_HEADS], effect_rows(labels))


def best_table() -> str:
    """The best method with partial sharing against the best one without it."""
    labels = {
        "groups": "best, groups",
        "several targets": "best, targets",
        "several labels": "best, labels",
        "all tables": "best",
        "tables new in this edition": "best, fresh tables",
    }
    return markdown(["kind", *EFFECT_HEADS], effect_rows(labels))


def new_tasks_table() -> str:
    """The hierarchical model against pooled models on tasks without rows."""
    labels = {"linear": "new tasks", "logistic": "new tasks, logistic"}
    rows = []
    for title, label in labels.items():
        values = values_of(label)
        cells = [interval(values, f"_{regime}") for regime in ("few", "some")]
        rows.append([title, *cells, interval(values), *counts(values)])
    heads = ["learner", "5 to 20 rows", "50 to 200 rows", "all", "gain", "same", "lose"]
    return markdown(heads, rows)


def families_table() -> str:
    """The tables by family."""
    rows = []
    for family, tables in read_tables().groupby("family", sort=False):
        n_sources = tables["source"].nunique()
        n_new = tables["fresh"].sum()
        rows.append([str(family), str(len(tables)), str(n_sources), str(n_new)])
    return markdown(["family", "tables", "sources", "new"], rows)


def cost_table() -> str:
    """Error and processor seconds of the methods of groups and numbers."""
    (record,) = results_of(sharing_run(), PUBLISHED, "cost")
    table = record.result["tables"]["Cost and gain"]
    lines = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    lines.sort(key=lambda line: float(line["seconds over reference"]))
    rows = []
    for line in lines:
        numbers = {name: line[name] for name in ("effect", "low", "high")}
        is_reference = numbers["low"] is None
        gain = "0" if is_reference else interval(numbers)
        rows.append(
            [
                f"`{line['method']}`",
                str(line["learner"]),
                str(line["sharing"]),
                f"{float(line['seconds over reference']):.2g}",
                gain,
                f"{float(line['tables']):.0f}",
                "yes" if line["on the front"] == "yes" else "",
            ]
        )
    heads = [
        "method",
        "learner",
        "sharing",
        "time",
        "less error",
        "tables",
        "on the front",
    ]
    return markdown(heads, rows, n_text=3)


def seeds_table() -> str:
    """Agreement of the two seeds."""
    rows = []
    for label in (
        "linear",
        "smooth",
        "boosted trees",
        "extra trees",
        "logistic",
        "best",
    ):
        values = values_of(label)
        title = "best against best" if label == "best" else label
        if math.isnan(values["seeds"]):
            rows.append([title, "-", "-"])
            continue
        share = f"{100 * values['same_sign']:.0f}%"
        rows.append([title, f"{values['seeds']:.2f}", share])
    return markdown(["learner", "rank correlation", "same sign"], rows)


def predictions_table() -> str:
    """The registered predictions and their verdicts."""
    rows = []
    for claim in build_report(RESULTS / "sharing" / "quick").claims:
        rows.append(
            [claim.text, claim.verdict.label, claim.why.partition(" (claimed")[0]]
        )
    shown = []
    for text, verdict, why in rows:
        numbers = why.rpartition(f" on {PUBLISHED}: ")[2]
        shown.append([text, numbers, verdict])
    return markdown(["prediction", "measured", "verdict"], shown, n_text=3)


def verdicts_table() -> str:
    """Verdicts of compare by kind of table, and how many of them hold."""
    (record,) = results_of(sharing_run(), PUBLISHED, "verdicts")
    table = record.result["tables"]["Verdicts"]
    times: dict[str, Counter[str]] = {}
    for kind, decision, count in table["rows"]:
        times.setdefault(str(kind), Counter())[str(decision)] += int(count)
    decisions = [WORSE, NO_DIFFERENCE, HELPS, SAFE, CANNOT_TELL]
    times["all"] = sum(times.values(), Counter())
    rows = []
    for kind, by_decision in times.items():
        values = values_of("verdicts" if kind == "all" else f"verdicts, {kind}")
        holding = "-"
        if values["verdicts"] > 0:
            n_holding = round(values["verdicts"] * values["hold"])
            holding = f"{n_holding} of {values['verdicts']:.0f}"
        rows.append(
            [
                kind,
                *[str(by_decision[decision]) for decision in decisions],
                holding,
                f"{100 * values['covered']:.0f}%",
            ]
        )
    return markdown(["kind", *decisions, "*helps* holds", "inside"], rows)


TABLES: dict[str, Callable[[], str]] = {
    "groups": groups_table,
    "shared-rows": shared_rows_table,
    "full": full_table,
    "methods": methods_table,
    "best": best_table,
    "new-tasks": new_tasks_table,
    "families": families_table,
    "cost": cost_table,
    "seeds": seeds_table,
    "predictions": predictions_table,
    "verdicts": verdicts_table,
}


def filled(text: str) -> str:
    """Return a page with the tables of today between its marks."""

    def table(match: re.Match[str]) -> str:
        name = match["name"]
        return f"<!-- table: {name} -->\n\n{TABLES[name]()}\n\n<!-- end of table -->"

    return _TABLE.sub(table, text)


def main() -> None:
    """Write the pages."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(filled(text), encoding="utf-8")
        sys.stdout.write(f"{page}\n")


if __name__ == "__main__":
    main()
