"""What a paper leaves open: the table under every reading, the rule that chose the main one, and the claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mtlrun.errors import counted
from mtlrun.report.checks import as_list
from mtlrun.report.claims import ClaimVerdict, Evidence, judge_claims
from mtlrun.report.grid import Column, Grid, Section
from mtlrun.report.references import ReferenceVerdict, compare_references
from mtlrun.report.run import Row, Run, build_rows, mean
from mtlrun.report.statistics import rank_groups


@dataclass
class Judged:
    """A run under one reading, with what its numbers say.

    Attributes
    ----------
    run : Run
    evidence : Evidence
    claims : list of ClaimVerdict
        Each under this reading alone.
    references : list of ReferenceVerdict
    """

    run: Run
    evidence: Evidence
    claims: list[ClaimVerdict] = field(default_factory=list)
    references: list[ReferenceVerdict] = field(default_factory=list)

    @property
    def rows(self) -> Sequence[Row]:
        """The table."""
        return self.evidence.rows

    @property
    def name(self) -> str:
        """Name of the reading."""
        return self.run.reading

    @property
    def about(self) -> dict[str, Any]:
        """What the experiment says of the reading; {} without readings."""
        return dict((self.run.info.get("readings") or {}).get(self.run.reading) or {})


def judged(run: Run) -> Judged:
    """Judge a run under its reading."""
    rows = build_rows(run)
    evidence = Evidence(run, rows, rank_groups(run, rows))
    return Judged(run, evidence, judge_claims(evidence), compare_references(evidence))


def readings_section(main: Judged, others: Sequence[Judged], claims: Sequence[ClaimVerdict]) -> Section:
    """Return the readings with their reasons and the level of the methods that choose the main one, and the claims.

    Parameters
    ----------
    main : Judged
    others : sequence of Judged
        Those with at least one finished cell.
    claims : sequence of ClaimVerdict
        With their verdicts under all readings.
    """
    section = Section("Readings")
    about = main.about
    if not about:
        return section
    names = list(main.run.info["readings"])
    rule, of = about["main"]["rule"], as_list(about["main"].get("of"))
    section.lines.append(f"The paper leaves its protocol open in {counted(len(names), 'way')} that were tried.")
    section.lines.append(f"The main reading, {main.name!r}, was chosen by {_RULES[rule]}{', '.join(of)}.")
    if about.get("because"):
        section.lines.append(str(about["because"]))
    shown = {judged.name: judged for judged in (main, *others)}
    waiting = [name for name in names if name not in shown and "config" in main.run.info["readings"][name]]
    if waiting:
        section.lines.append(f"Not computed: {', '.join(waiting)}. Add --reading all to the command of this run.")
    grid = Grid(
        [
            Column("reading"),
            Column("why"),
            Column("part"),
            *[Column("mean distance from print (%)", "seconds")] * bool(of),
        ]
    )
    for name in names:
        facts = main.run.info["readings"][name]
        part = "main" if name == main.name else "decides" if facts.get("plausible", True) else "decides nothing"
        distance = level_distance(shown[name].references, of) if name in shown else None
        grid.rows.append([name, facts["why"], part, *[None if distance is None else 100 * distance] * bool(of)])
    section.grids.append(grid)
    if others and claims:
        verdicts = Grid([Column("claim"), Column("verdict"), *(Column(name) for name in shown)])
        verdicts.rows = [[c.id, c.verdict, *(c.readings.get(name) for name in shown)] for c in claims]
        section.grids.append(verdicts)
    return section


#: Sentences on the rules that choose the main reading.
_RULES = {
    "published level": "the published level of ",
    "authors' code": "the code of the authors",
    "convention": "convention: the paper says nothing, and this is what the field does",
}


def level_distance(references: Sequence[ReferenceVerdict], methods: Sequence[str]) -> float | None:
    """Return the mean distance of some methods from their printed numbers, as a share of these; None without any."""
    found = [abs(r.difference / r.value) for r in references if r.method in methods and r.difference and r.value]
    found += [0.0 for r in references if r.method in methods and r.difference == 0]
    return mean(found) if found else None
