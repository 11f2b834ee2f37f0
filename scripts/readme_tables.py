"""Write the tables of results into README.md and results/summary.md, from the runs below results/.

``python scripts/readme_tables.py --write`` after a run was added or rebuilt; ``--check`` ends with 1 when they are not
what the runs say.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from mtlrun.report.checks import Verdict
from mtlrun.report.grid import Grid, Styled, markdown_grid
from mtlrun.report.summary import SYMBOLS, Overview, RunReport, overview_markdown, read_overview

ROOT = Path(__file__).resolve().parents[1]
README, RESULTS, SUMMARY = "README.md", "results", "results/summary.md"
BEGIN, END = "<!-- results: begin (scripts/readme_tables.py) -->", "<!-- results: end -->"


def block(overview: Overview) -> str:
    """Return what stands between the markers: a sentence on all runs, then a table per paper."""
    legend = "  ".join(f"{symbol} {verdict}" for verdict, symbol in SYMBOLS.items())
    parts = [" ".join(overview.summary[:-1]), f"One symbol per claim: {legend}."]
    parts.append(f"Every claim with its reason: [{SUMMARY}]({SUMMARY}).")
    for paper in overview.papers.values():
        cite = min((str(e.report.run.info["paper"]["cite"]) for e in paper), key=len)
        parts += [f"**{cite}**", markdown_grid(table(overview, paper))]
    return "\n\n".join([BEGIN, *parts, END])


def table(overview: Overview, paper: list[RunReport]) -> Grid:
    """Return the table of a paper, a row per artefact: what it is, verdicts on its claims, printed numbers."""
    grid = Grid.of("artefact", "what it is", "claims", "printed numbers")
    for artefact in dict.fromkeys(entry.id for entry in paper):
        entries = [entry for entry in paper if entry.id == artefact]
        claims = [SYMBOLS[claim.verdict] for _, claim in overview.claims(entries)]
        numbers = [number.verdict for _, number in overview.references(entries) if number.verdict != Verdict.NOT_RUN]
        main = main_run(overview, entries)
        grid.rows.append(
            [
                Styled(artefact, address=f"{RESULTS}/{main.place}/report.md"),
                str(main.report.run.info.get("title", "")),
                "".join(claims) or None,
                f"{numbers.count(Verdict.WITHIN)} of {len(numbers)} within tolerance" if numbers else None,
            ]
        )
    return grid


def main_run(overview: Overview, entries: list[RunReport]) -> RunReport:
    """Return the run that judges most of the claims of an artefact; of equal ones the one with most cells."""
    judges = Counter(entry.place for entry, _ in overview.claims(entries))
    return max(entries, key=lambda entry: (judges[entry.place], entry.report.cells["done"]))


def texts(root: Path) -> dict[str, str]:
    """Return what the generated files of a checkout should hold, by their names.

    Raises
    ------
    SystemExit
        If README.md does not have both markers, in their order.
    """
    overview = read_overview(root / RESULTS)
    readme = (root / README).read_text(encoding="utf-8")
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{README}: the lines {BEGIN!r} and {END!r} must be there")
    return {README: before + block(overview) + after, SUMMARY: overview_markdown(overview)}


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Write or check the files; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--write", action="store_true")
    group.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    stale = {
        name: text
        for name, text in texts(root).items()
        if not (root / name).is_file() or (root / name).read_text(encoding="utf-8") != text
    }
    for name, text in stale.items():
        if options.write:
            (root / name).write_text(text, encoding="utf-8")
        told = "written" if options.write else "not what the runs say; run scripts/readme_tables.py --write"
        sys.stdout.write(f"{name}: {told}\n")
    return int(bool(stale) and options.check)


if __name__ == "__main__":
    sys.exit(main())
