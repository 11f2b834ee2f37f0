"""Interpretations of a paper: published numbers and claims under each of them.

Where a paper leaves choices open, an experiment has several interpretations. In files
an interpretation is called a reading.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from mtlrun.errors import listed
from mtlrun.lab.experiment.claims import HOLDING, UNTESTED, Verdict, verdict_label
from mtlrun.lab.report.claims import (
    CheckResult,
    ClaimVerdict,
    JudgedRun,
    judge_results,
)
from mtlrun.lab.report.printed import PrintedNumber
from mtlrun.lab.report.references import ReferenceVerdict
from mtlrun.show.report_table import Column, ReportTable, Section

#: Header of the column with the numbers of the paper.
PAPER = "paper"
#: Row header and column header of a number in a printed table.
_Position = tuple[str, str]
_Numbers = Mapping[_Position, PrintedNumber]


def over_readings(main: JudgedRun, others: Sequence[JudgedRun]) -> list[ClaimVerdict]:
    """Return the claims with their verdicts under all interpretations (see
    `judge_readings`).
    """
    if not others:
        return main.claims
    compared_only = []
    by_id: dict[str, dict[str, ClaimVerdict]] = {}
    for judged_run in (main, *others):
        if judged_run.about is not None and not judged_run.about.plausible:
            compared_only.append(judged_run.name)
        for claim in judged_run.claims:
            by_id.setdefault(claim.id, {})[judged_run.name] = claim
    return [judge_readings(by_id[claim.id], compared_only) for claim in main.claims]


def judge_readings(
    by_reading: Mapping[str, ClaimVerdict], compared_only: Collection[str]
) -> ClaimVerdict:
    """Return a claim with its verdict over interpretations.

    A claim that holds under one plausible interpretation and fails under another
    depends on the interpretation. Otherwise the verdict of the main interpretation
    counts, or of the first plausible one that can test the claim.

    Parameters
    ----------
    by_reading : mapping of str to ClaimVerdict
        Claim under each interpretation, the main one first.
    compared_only : collection of str
        Interpretations that are not plausible.
    """
    readings: dict[str, str] = {}
    decisive = set()
    for name, claim in by_reading.items():
        readings[name] = claim.verdict
        if name not in compared_only:
            decisive.add(claim.verdict)
    main = next(iter(by_reading.values()))
    if main.verdict in UNTESTED:
        for name, claim in by_reading.items():
            if name not in compared_only and claim.verdict not in UNTESTED:
                main = claim
                break
    verdict = main.verdict
    if decisive & set(HOLDING) and Verdict.NOT_CONFIRMED in decisive:
        verdict = Verdict.DEPENDS
    return replace(
        main,
        verdict=verdict,
        readings=readings,
        compared_only=tuple(name for name in readings if name in compared_only),
        by_reading=dict(by_reading),
    )


def joined_claim(
    claims: Sequence[ClaimVerdict], fingerprints: Sequence[Mapping[str, str]]
) -> ClaimVerdict:
    """Return a claim judged by the comparisons of several runs of its experiment.

    A comparison that several runs make on the same data counts once, from the first of
    them that could make it. Runs with other rows of a data set make other comparisons.

    Parameters
    ----------
    claims : sequence of ClaimVerdict
        The claim in each run, the largest run first.
    fingerprints : sequence of mapping of str to str
        Data set -> fingerprint of its data, in each run.
    """
    if len(claims) == 1:
        return claims[0]
    names: dict[str, None] = {}
    compared_only: dict[str, None] = {}
    for claim in claims:
        names.update(dict.fromkeys(claim.by_reading))
        compared_only.update(dict.fromkeys(claim.compared_only))
    if not names:
        return _judge_together(claims, fingerprints)
    by_reading = {}
    for name in names:
        tested = []
        data = []
        for claim, fingerprints_of_run in zip(claims, fingerprints, strict=True):
            # A run may have the main interpretation alone.
            by_reading_of_run = claim.by_reading or {next(iter(names)): claim}
            if name in by_reading_of_run:
                tested.append(by_reading_of_run[name])
                data.append(fingerprints_of_run)
        by_reading[name] = _judge_together(tested, data)
    return judge_readings(by_reading, compared_only)


def _judge_together(
    claims: Sequence[ClaimVerdict], fingerprints: Sequence[Mapping[str, str]]
) -> ClaimVerdict:
    """Return a claim judged by the comparisons of several runs under one
    interpretation.
    """
    claim = claims[0].claim
    if claim is None:
        return claims[0]
    # The comparisons of several runs, each once.
    by_title: dict[tuple[str, str, str], CheckResult] = {}
    tested = set()
    for other, data in zip(claims, fingerprints, strict=True):
        for result in other.results:
            # Its text takes longer than all else here.
            check = repr(result.check)
            key = (check, result.title, data.get(result.dataset, ""))
            if key not in by_title or not by_title[key].is_tested:
                by_title[key] = result
            if result.is_tested:
                tested.add((check, result.dataset))
    joined = []
    for (check, *_), result in by_title.items():
        # Another run has the data that this one lacks.
        if result.is_tested or (check, result.dataset) not in tested:
            joined.append(result)
    return judge_results(claim, joined)


def readings_section(
    main: JudgedRun, others: Sequence[JudgedRun], claims: Sequence[ClaimVerdict]
) -> Section:
    """Return the interpretations with their reasons, and the claims under each of them.

    Parameters
    ----------
    main : JudgedRun
    others : sequence of JudgedRun
        Interpretations with at least one finished result.
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
        table = ReportTable.of("claim", "verdict", *map(Column, by_name))
        for claim in claims:
            verdicts: list[str | None] = []
            for name in by_name:
                label = None
                if name in claim.readings:
                    label = verdict_label(claim.readings[name])
                verdicts.append(label)
            table.rows.append([claim.id, verdict_label(claim.verdict), *verdicts])
        section.grids.append(table)
    return section


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


# ------------------------------------------------------------ tables side by side


def side_by_side(
    tables: Mapping[str, Sequence[Section]], axes: tuple[str, str]
) -> list[Section]:
    """Return one table per title that occurs under other interpretations.

    Interpretations with the same numbers throughout a table share a column, so that no
    number is shown twice. Where all of them have the same numbers, the table keeps its
    printed form, and a line names the interpretations.

    Parameters
    ----------
    tables : mapping of str to sequence of Section
        Interpretation -> its printed tables; the main interpretation comes first.
    axes : (str, str)
        What the rows and the columns of the printed tables stand for.
    """
    by_title: dict[str, dict[str, ReportTable]] = {}
    for name, sections in tables.items():
        for section in sections:
            by_title.setdefault(section.title, {})[name] = section.grids[0]
    main = next(iter(tables), "")
    joined_sections = []
    for title, grids in by_title.items():
        if set(grids) == {main}:
            continue
        numbers = {name: _numbers_of(grid) for name, grid in grids.items()}
        # Interpretations that have the same texts in all positions share a group. Tables
        # that are equal may list their positions in different orders.
        names_by_texts: dict[frozenset[tuple[_Position, str]], list[str]] = {}
        for name, by_position in numbers.items():
            texts = frozenset((key, str(number)) for key, number in by_position.items())
            names_by_texts.setdefault(texts, []).append(name)
        groups = list(names_by_texts.values())
        if len(groups) > 1:
            table = _joined(numbers, groups, main, axes)
            joined_sections.append(Section(title, grids=[table]))
        elif main not in grids:
            names = groups[0]
            word = "interpretations"
            if len(names) == 1:
                word = "interpretation"
            line = f"Under the {word} {listed(list(map(repr, names)))}."
            joined_sections.append(Section(title, [line], [grids[names[0]]]))
    return joined_sections


def _numbers_of(grid: ReportTable) -> _Numbers:
    """Return the numbers of a printed table by their positions."""
    columns = [column.name for column in grid.columns[1:]]
    numbers = {}
    for header, *row in grid.rows:
        for column, number in zip(columns, row, strict=True):
            if number is not None:
                numbers[str(header), column] = number
    return numbers


def _joined(
    numbers: Mapping[str, _Numbers],
    groups: Sequence[Sequence[str]],
    main: str,
    axes: tuple[str, str],
) -> ReportTable:
    """Return a row per position of the printed table and a column per group."""
    # Some interpretations leave rows out, so the positions of all of them are joined.
    positions: list[_Position] = []
    for by_position in numbers.values():
        positions += by_position
    positions = list(dict.fromkeys(positions))
    headers: tuple[str, ...] = axes
    if len({column for _, column in positions}) <= 1:
        # The only column needs no name.
        headers = axes[:1]
    joined = ReportTable(list(map(Column, headers)))
    for position in positions:
        joined.rows.append(list(position[: len(headers)]))
    published = [_published(numbers.values(), position) for position in positions]
    if any(published):
        joined.add(Column(PAPER, "score"), published)
    for names in groups:
        labels = []
        for name in names:
            label = name
            if name == main:
                label += " (main)"
            labels.append(label)
        of_group = numbers[names[0]]
        values = [_plain(of_group.get(position)) for position in positions]
        joined.add(Column("; ".join(labels), "score"), values)
    return joined


def _published(tables: Iterable[_Numbers], position: _Position) -> str | None:
    """Return the number of the paper at a position; None if there is none."""
    for table in tables:
        number = table.get(position)
        if number is not None and number.printed is not None:
            return number.printed
    return None


def _plain(number: PrintedNumber | None) -> PrintedNumber | None:
    """Return a number without its mark, and without the published one next to it."""
    if number is None:
        return None
    return replace(number, bold=False, printed=None, verdict="", published=None)
