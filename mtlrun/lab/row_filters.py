"""Select rows of a plan by `--interpretation` and `--only`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from mtlrun.engine.plan import PlannedJob
from mtlrun.errors import ConfigError, UnknownNameError, suggest
from mtlrun.lab.experiment.catalogue import name_of
from mtlrun.lab.experiment.spec import Experiment

#: In place of the name of an interpretation.
ALL_INTERPRETATIONS = "all"


class OnlyError(ConfigError):
    """An `only` that is wrong for every experiment."""


class NoMatchError(ConfigError):
    """A pattern of `only` that matches nothing in the experiment."""


def check_interpretation(experiment: Experiment, interpretation: str | None) -> None:
    """Refuse an interpretation that an experiment does not have.

    Parameters
    ----------
    experiment : Experiment
    interpretation : str or None
        Name of an interpretation, or ``all``; None for the main one.

    Raises
    ------
    ConfigError
        If the experiment has no such interpretation, or none at all.
    """
    if interpretation is None:
        return
    names = experiment.spec.readings
    experiment_name = name_of(experiment.source)
    if not names and interpretation != ALL_INTERPRETATIONS:
        raise ConfigError(
            f"{experiment_name}: has no interpretations",
            "Run it without --interpretation.",
        )
    valid_names = [*names, ALL_INTERPRETATIONS]
    if interpretation not in valid_names:
        raise UnknownNameError(
            f"interpretation of {experiment_name}:", interpretation, valid_names
        )


def in_interpretation(
    experiment: Experiment, rows: Sequence[PlannedJob], interpretation: str | None
) -> list[bool]:
    """Return for each row whether it belongs to an interpretation.

    Parameters
    ----------
    experiment : Experiment
    rows : sequence of PlannedJob
    interpretation : str or None
        As for `check_interpretation`, which raises the errors.
    """
    check_interpretation(experiment, interpretation)
    if interpretation == ALL_INTERPRETATIONS:
        return [True] * len(rows)
    # Rows of the main interpretation do not name it.
    name = interpretation
    if interpretation in (None, experiment.interpretation):
        name = ""
    return [row.reading == name for row in rows]


def matching(rows: Sequence[PlannedJob], only: Iterable[str]) -> list[bool]:
    """Return for each row whether it matches `only`.

    A row matches if, for each key in `only`, it matches one of the patterns.

    Parameters
    ----------
    rows : sequence of PlannedJob
    only : iterable of str
        Texts such as ``method=LADM*,dataset=enron``.

    Raises
    ------
    OnlyError
        For a part that is not ``key=pattern``, or has an unknown key.
    NoMatchError
        For a pattern that matches no row.
    """
    labels = []
    for row in rows:
        labels.append(
            {"dataset": row.dataset, "method": row.method, "trial": str(row.trial)}
        )
    patterns: dict[str, list[str]] = {}
    for text in only:
        for part in _parts(text, labels):
            key, pattern = _parse(part, labels)
            patterns.setdefault(key, []).append(pattern)
    are_matching = []
    for row_labels in labels:
        is_matching = True
        for key, alternatives in patterns.items():
            label = row_labels[key]
            is_matching &= any(_matches(label, pattern) for pattern in alternatives)
        are_matching.append(is_matching)
    return are_matching


def _parts(text: str, labels: Sequence[Mapping[str, str]]) -> list[str]:
    """Split ``method=A,dataset=B`` at commas, but not a label with commas."""
    key, _, label = text.partition("=")
    key = key.strip()
    label = label.strip()
    for row_labels in labels:
        if row_labels.get(key) == label:
            return [text]
    return text.split(",")


def _parse(part: str, labels: Sequence[Mapping[str, str]]) -> tuple[str, str]:
    """Return the key and pattern of ``key=pattern``; raise as `matching`."""
    key, equals, pattern = part.partition("=")
    key = key.strip()
    pattern = pattern.strip()
    if not equals:
        raise OnlyError(
            f"--only {part}: must be key=pattern",
            "for instance --only method=LADM*,dataset=enron",
        )
    if labels and key not in labels[0]:
        raise OnlyError(
            f"--only {key}=...: unknown key {key!r}", f"Known: {', '.join(labels[0])}."
        )
    candidates = list(dict.fromkeys(row_labels[key] for row_labels in labels))
    if not any(_matches(label, pattern) for label in candidates):
        near = suggest(pattern, candidates)
        hint = f"Known: {', '.join(candidates)}."
        if near:
            hint = f"Did you mean {' or '.join(map(repr, near))}?"
        raise NoMatchError(f"--only {key}={pattern}: matches no {key}", hint)
    return key, pattern


def _matches(label: str, pattern: str) -> bool:
    return fnmatchcase(label.lower(), pattern.lower())
