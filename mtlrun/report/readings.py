"""A run under one reading of the paper, and its claims over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from mtlrun.errors import counted
from mtlrun.report.cells import method_results
from mtlrun.report.checks import HOLDING, Verdict
from mtlrun.report.claims import ClaimVerdict, Evidence, judge
from mtlrun.report.grid import Column, Grid, Section
from mtlrun.report.references import ReferenceVerdict, compare_references
from mtlrun.report.run import Run
from mtlrun.report.statistics import rank_groups
from mtlrun.utils.io import as_list


@dataclass(frozen=True)
class JudgedRun(Evidence):
    """A run under one reading, with what its numbers say.

    Attributes
    ----------
    claims : list of ClaimVerdict
        Each under this reading alone.
    references : list of ReferenceVerdict
    """

    claims: list[ClaimVerdict] = field(default_factory=list)
    references: list[ReferenceVerdict] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the reading."""
        return self.run.reading

    @property
    def about(self) -> dict[str, Any]:
        """What the experiment says of the reading; {} without readings."""
        return dict((self.run.info.get("readings") or {}).get(self.run.reading) or {})


def judged(run: Run) -> JudgedRun:
    """Judge a run under its reading."""
    rows = method_results(run)
    evidence = Evidence(run, rows, rank_groups(run, rows))
    claims = [judge(claim, evidence) for claim in as_list(run.config.get("claims"))]
    return JudgedRun(run, rows, evidence.groups, claims, compare_references(evidence))


def over_readings(main: JudgedRun, others: Sequence[JudgedRun]) -> list[ClaimVerdict]:
    """Return the claims of the main reading with their verdicts under all readings.

    A claim that holds under one of the plausible readings and is not confirmed under another depends on the reading.
    """
    if not others:
        return main.claims
    decisive = {one.name for one in (main, *others) if one.about.get("plausible", True)}
    found: dict[str, dict[str, str]] = {}
    for one in (main, *others):
        for claim in one.claims:
            found.setdefault(claim.id, {})[one.name] = claim.verdict
    claims = []
    for claim in main.claims:
        under = {verdict for name, verdict in found[claim.id].items() if name in decisive}
        flips = under.intersection(HOLDING) and Verdict.NOT_CONFIRMED in under
        verdict = Verdict.DEPENDS if flips else claim.verdict
        compared_only = tuple(name for name in found[claim.id] if name not in decisive)
        claims.append(replace(claim, verdict=verdict, readings=found[claim.id], compared_only=compared_only))
    return claims


def readings_section(main: JudgedRun, others: Sequence[JudgedRun], claims: Sequence[ClaimVerdict]) -> Section:
    """Return the readings with their reasons and the level of the methods that choose the main one, and the claims.

    Parameters
    ----------
    main : JudgedRun
    others : sequence of JudgedRun
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
    section.lines.append(f"The paper leaves choices open; {counted(len(names), 'reading')} of it were tried.")
    section.lines.append(f"The main reading, {main.name!r}, was chosen by {_RULES[rule]}{', '.join(of)}.")
    if about.get("because"):
        section.lines.append(str(about["because"]))
    shown = {judged.name: judged for judged in (main, *others)}
    waiting = [name for name in names if name not in shown and "config" in main.run.info["readings"][name]]
    if waiting:
        section.lines.append(f"Not computed: {', '.join(waiting)}. Add --reading all to the command of this run.")
    grid, distances = Grid.of("reading", "why", "part"), []
    for name in names:
        facts = main.run.info["readings"][name]
        part = "main" if name == main.name else "decides" if facts.get("plausible", True) else "for comparison only"
        distance = level_distance(shown[name].references, of) if name in shown else None
        distances.append(None if distance is None else 100 * distance)
        grid.rows.append([name, facts["why"], part])
    if of:
        grid.add("mean distance from print (%):seconds", distances)
    section.grids.append(grid)
    if others and claims:
        verdicts = Grid.of("claim", "verdict", *map(Column, shown))
        words = {str(verdict): verdict.said for verdict in Verdict}
        verdicts.rows = [
            [c.id, words[c.verdict], *(words.get(c.readings.get(name, "")) for name in shown)] for c in claims
        ]
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
    of = [(r.difference, r.value) for r in references if r.method in methods and r.difference is not None]
    found = [abs(difference and difference / value) for difference, value in of if value or not difference]
    return fmean(found) if found else None
