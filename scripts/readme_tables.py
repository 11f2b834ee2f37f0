"""Write the tables of results into README.md and results/summary.md, from the runs below results/.

``python scripts/readme_tables.py --write`` after a run was added or rebuilt; ``--check`` ends with 1 when they are not
what the runs say.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from mtlrun.report.checks import VERDICTS, Verdict
from mtlrun.report.claims import ClaimVerdict
from mtlrun.report.grid import Column, Grid, Link, markdown_grid, significant
from mtlrun.report.summary import Overview, RunReport, overview_markdown, read_overview

ROOT = Path(__file__).resolve().parents[1]
README, RESULTS, SUMMARY = "README.md", "results", "results/summary.md"
#: What the checks of a claim compare.
WORDS = {
    "ratio": "ratio of {}",
    "difference": "difference of {}",
    "value": "{}",
    "paired": "p",
    "rejections": "rejected",
}
BEGIN, END = "<!-- results: begin (scripts/readme_tables.py) -->", "<!-- results: end -->"


def block(overview: Overview) -> str:
    """Return what stands between the markers: a sentence on all runs, then a table per paper."""
    parts = [" ".join(overview.summary[:-1]) + f" Every claim with its reason: [{SUMMARY}]({SUMMARY})."]
    for paper in overview.papers.values():
        cite = min((str(e.report.run.info["paper"]["cite"]) for e in paper), key=len)
        parts += [f"**{cite}**", markdown_grid(table(overview, paper))]
    return "\n\n".join([BEGIN, *parts, END])


def table(overview: Overview, paper: list[RunReport]) -> Grid:
    """Return the table of a paper, a row per artefact: its first claim that could be tested, and all verdicts."""
    names = ("artefact", "first claim of the paper", "our result", "all claims", "reference numbers", "command")
    grid = Grid([Column(name) for name in names])
    for artefact in dict.fromkeys(entry.id for entry in paper):
        entries = [entry for entry in paper if entry.id == artefact]
        claims = [claim for _, claim in overview.claims(entries)]
        numbers = [number.verdict for _, number in overview.references(entries) if number.verdict != Verdict.NOT_RUN]
        first = next((c for c in claims if c.verdict != Verdict.NOT_TESTABLE), claims[0] if claims else None)
        counts = Counter(claim.verdict for claim in claims)
        main = main_run(overview, entries)
        judge = next((entry for entry, claim in overview.claims(entries) if claim is first), main)
        grid.rows.append(
            [
                Link(artefact, f"{RESULTS}/{main.place}/report.md"),
                first.text.rstrip(".") if first else None,
                f"**{first.verdict}**: {found(judge, first)}" if first else None,
                ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v]) or None,
                f"{numbers.count(Verdict.WITHIN)} of {len(numbers)} within tolerance" if numbers else None,
                f"`{main.report.run.info['command']}`",
            ]
        )
    return grid


def found(judge: RunReport, claim: ClaimVerdict) -> str:
    """Return how many comparisons hold, and between which bounds lies what was found where it is of one kind."""
    text = claim.why.split("; ")[0]
    checks = next(c.get("checks") or [] for c in judge.report.run.config["claims"] if c["id"] == claim.id)
    kinds = {(check["kind"], check.get("quantity")) for check in checks}
    numbers = [significant(value) for value in sorted(f.found for f in claim.findings if f.found is not None)]
    kind, quantity = next(iter(kinds), ("", ""))
    if len(numbers) < 2 or len(kinds) != 1 or kind not in WORDS:
        return text
    return f"{text}; {WORDS[kind].format(quantity)} {' to '.join(dict.fromkeys((numbers[0], numbers[-1])))}"


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
