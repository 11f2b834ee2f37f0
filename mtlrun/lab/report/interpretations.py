"""Interpretations of a paper: published numbers and claims under each of them.

Where a paper leaves choices open, an experiment has several interpretations. In files
an interpretation is called a reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from mtlrun.lab.experiment.claims import HOLDING, Verdict, verdict_label
from mtlrun.lab.report.claims import ClaimVerdict, JudgedRun
from mtlrun.lab.report.references import ReferenceVerdict
from mtlrun.show.report_table import Column, ReportTable, Section


def over_readings(main: JudgedRun, others: Sequence[JudgedRun]) -> list[ClaimVerdict]:
    """Return the claims with their verdicts under all interpretations.

    A claim that holds under one plausible interpretation and fails under another
    depends on the interpretation. Otherwise the verdict of the main interpretation
    counts.
    """
    if not others:
        return main.claims
    plausible = set()
    verdicts: dict[str, dict[str, str]] = {}
    for judged_run in (main, *others):
        if judged_run.about is None or judged_run.about.plausible:
            plausible.add(judged_run.name)
        for claim in judged_run.claims:
            verdicts.setdefault(claim.id, {})[judged_run.name] = claim.verdict
    claims = []
    for claim in main.claims:
        by_name = verdicts[claim.id]
        decisive = {by_name[name] for name in by_name if name in plausible}
        verdict = claim.verdict
        if decisive & set(HOLDING) and Verdict.NOT_CONFIRMED in decisive:
            verdict = Verdict.DEPENDS
        claims.append(
            replace(
                claim,
                verdict=verdict,
                readings=by_name,
                compared_only=tuple(name for name in by_name if name not in plausible),
            )
        )
    return claims


def readings_section(
    main: JudgedRun, others: Sequence[JudgedRun], claims: Sequence[ClaimVerdict]
) -> Section:
    """Return the interpretations with their reasons, and the claims under each of them.

    Parameters
    ----------
    main : JudgedRun
    others : sequence of JudgedRun
        Interpretations with at least one finished cell.
    claims : sequence of ClaimVerdict
        Claims with their verdicts under all interpretations.
    """
    section = Section("Interpretations")
    main_entry = main.about
    if main_entry is None or main_entry.main is None:
        return section
    entries = main.run.experiment.readings
    by_name = {judged_run.name: judged_run for judged_run in (main, *others)}
    level_methods = main_entry.main.of
    rule = f"{_RULES[main_entry.main.rule]}{', '.join(level_methods)}"
    section.lines = [
        "The paper leaves choices open. An interpretation (on the command line: "
        f"--interpretation) is a way to fill them in; {len(entries)} were tried.",
        f"The main one, {main.name!r}, was chosen by {rule}.",
    ]
    if main_entry.because:
        section.lines.append(main_entry.because)
    missing = []
    for name, entry in entries.items():
        if name not in by_name and entry.config is not None:
            missing.append(name)
    if missing:
        section.lines.append(
            f"Not computed: {', '.join(missing)}. "
            "Add --interpretation all to the command of this run."
        )
    table = ReportTable.of("interpretation", "why", "part")
    for name, entry in entries.items():
        if name == main.name:
            part = "main"
        elif entry.plausible:
            part = "decides"
        else:
            part = "for comparison only"
        table.rows.append([name, entry.why, part])
    if level_methods:
        distances: list[float | None] = []
        for name in entries:
            percent = None
            if name in by_name:
                distance = level_distance(by_name[name].references, level_methods)
                if distance is not None:
                    percent = 100 * distance
            distances.append(percent)
        table.add("mean distance from print (%):seconds", distances)
    section.grids.append(table)
    if others and claims:
        section.grids.append(_verdict_table(claims, list(by_name)))
    return section


def _verdict_table(claims: Sequence[ClaimVerdict], names: Sequence[str]) -> ReportTable:
    """Return the verdict on each claim under each interpretation."""
    table = ReportTable.of("claim", "verdict", *map(Column, names))
    for claim in claims:
        verdicts: list[str | None] = []
        for name in names:
            label = None
            if name in claim.readings:
                label = verdict_label(claim.readings[name])
            verdicts.append(label)
        table.rows.append([claim.id, verdict_label(claim.verdict), *verdicts])
    return table


#: Texts of the rules that select the main interpretation.
_RULES = {
    "published level": "the published level of ",
    "authors' code": "the code of the authors",
    "convention": "convention: the paper says nothing, and this is what the field does",
}


def level_distance(
    references: Sequence[ReferenceVerdict], methods: Sequence[str]
) -> float | None:
    """Return the mean relative distance of some methods from their published numbers.

    Returns
    -------
    float or None
        None without any number.
    """
    distances = []
    for reference in references:
        difference = reference.difference
        if reference.method not in methods or difference is None:
            continue
        if not difference:
            distances.append(0.0)
        elif reference.value:
            distances.append(abs(difference / reference.value))
        # A distance from a published zero has no relative size.
    if not distances:
        return None
    return fmean(distances)
