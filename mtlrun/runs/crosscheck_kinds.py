"""What belongs to which kind of experiment, and the checks of measures and of the quantities they return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mtlrun.errors import UserError, suggest
from mtlrun.papers.measure import published_path
from mtlrun.report.checks import as_list
from mtlrun.runs.methods import measure_parameters, measure_path, needs_data, quantities_of
from mtlrun.runs.published import PUBLISHED
from mtlrun.runs.schema import MEASURE_KINDS
from mtlrun.utils.yaml import KeyPath

#: (path, whether the key and not the value is meant, message, hint)
Finding = tuple[KeyPath, bool, str, str]
#: Sections that only fits have, and those that only measurements have.
_FITS_ONLY = ("split", "selection", "grids", "average", "statistics", "keep")
_MEASURES_ONLY = ("repeats",)
_TRAIN = "train"


def measures(data: dict[str, Any]) -> bool:
    """Whether an experiment, as plain data, is one of measurements."""
    return data.get("kind") in MEASURE_KINDS


def kind_findings(data: dict[str, Any]) -> Iterator[Finding]:
    """Yield sections that the kind of the experiment does not have or lacks."""
    kind = data.get("kind", "evaluate")
    if kind == _TRAIN:
        return
    for name in _FITS_ONLY if measures(data) else _MEASURES_ONLY:
        if data.get(name) is not None:
            yield (name,), True, f"kind: {kind} has no {name!r}", ""
    if measures(data):
        yield from _measure_sections(data)
        return
    yield from _fit_sections(data)
    swept = data.get("sweep") is not None
    if swept != (kind == "sweep") and not (swept and kind == "test"):
        yield (), True, "kind: sweep and the section 'sweep' belong together (kind: test may have it)", ""
    claims = [claim for claim in as_list(data.get("claims")) if isinstance(claim, dict)]
    checks = [check for claim in claims for check in as_list(claim.get("checks")) if isinstance(check, dict)]
    paired = any(check.get("kind") == "paired" for check in checks)
    if kind == "test" and not paired and data.get("statistics") is None:
        hint = "or the section 'statistics'"
        yield (), True, "kind: test needs a claim with a check of the kind 'paired'", hint


def _section(data: dict[str, Any], name: str) -> dict[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _fit_sections(data: dict[str, Any]) -> Iterator[Finding]:
    """Check that there are data sets, each with a split, and that validation parts are where they are used."""
    if "datasets" not in data:
        yield (), True, "missing key 'datasets'", ""
    if "datasets" in data and data["datasets"] == []:
        yield ("datasets",), False, "'datasets' must not be empty", ""
    places: list[tuple[KeyPath, Any]] = [(("split",), data.get("split"))]
    for i, entry in enumerate(as_list(data.get("datasets"))):
        own = entry.get("split") if isinstance(entry, dict) else None
        places.append((("datasets", i, "split") if own is not None else ("split",), own or data.get("split")))
    if "split" not in data and any(split is None for _, split in places[1:] or places):
        yield (), True, "missing key 'split'", ""
    selection, sweep = _section(data, "selection"), _section(data, "sweep")
    on_validation = selection.get("on") == "validation"
    if on_validation and selection.get("folds") is not None:
        yield ("selection", "folds"), True, "selection on the validation part has no folds", ""
    swept = sweep.get("split") is not None
    for path, split in dict(places[1:]).items():
        if not isinstance(split, dict):
            continue
        if on_validation and split.get("validation") is None and split.get("kind") != "balanced":
            hint = "for instance split: {kind: random, train: 0.5, validation: 0.2}"
            yield path, True, "selection on: validation needs a split with a part 'validation'", hint
        if swept and split.get("kind", "random") not in ("random", "balanced"):
            yield ("sweep", "split"), True, f"a {split.get('kind')} split has no 'train' that could change", ""


def _measure_sections(data: dict[str, Any]) -> Iterator[Finding]:
    timing = data.get("timing")
    for name in timing if isinstance(timing, dict) else ():
        if name != "threads":
            hint = "measures repeat and warm up themselves; trials are 'repeats'"
            yield ("timing", name), True, f"timing of measurements has 'threads' only, not {name!r}", hint
    sweep = data.get("sweep")
    if isinstance(sweep, dict) and sweep.get("split") is not None:
        yield ("sweep", "split"), True, f"kind: {data['kind']} has no split", "sweep an 'option' or 'params'"
    for i, entry in enumerate(as_list(data.get("datasets"))):
        for name in ("split", "metrics"):
            if isinstance(entry, dict) and entry.get(name) is not None:
                yield ("datasets", i, name), True, f"kind: {data['kind']} has no {name!r} of a data set", ""
    if data.get("datasets"):
        return
    if isinstance(sweep, dict) and sweep.get("option") is not None:
        yield ("sweep", "option"), True, "there is no data set whose option could change", ""
    for i, method in enumerate(as_list(data.get("methods"))):
        name = method.get("measure") if isinstance(method, dict) else None
        if isinstance(name, str) and needs_data(name):
            yield ("methods", i, "measure"), False, f"the measure {name!r} needs a data set", "add 'datasets'"


def measure_findings(method: dict[str, Any], path: KeyPath) -> Iterator[Finding]:
    """Yield what is wrong with a row of a measure: its name, its parameters, sections that it cannot have."""
    for section in ("estimator", "grid", "select_with"):
        if method.get(section):
            yield (*path, section), True, f"a measurement has no {section!r}", ""
    name = method.get("measure")
    if name is None:
        yield path, True, f"missing key 'measure' in methods[{path[-1]}]", ""
    if not isinstance(name, str):
        return
    try:
        measure_path(name)
    except UserError as error:
        yield (*path, "measure"), False, error.message, error.remedy or ""
        return
    params = method.get("params")
    given = params if isinstance(params, dict) else {}
    known = measure_parameters(name)
    for key in given:
        if known is not None and key not in known:
            near = suggest(key, known, 1)
            hint = f"did you mean {near[0]!r}?   " if near else ""
            hint += f"it has: {', '.join(known)}" if known else "it has none"
            yield (*path, "params", key), True, f"the measure {name} has no parameter {key!r}", hint
    if isinstance(given.get(PUBLISHED), str):
        try:
            published_path(given[PUBLISHED])
        except UserError as error:
            yield (*path, "params", PUBLISHED), False, error.message, error.remedy or ""


def measured_quantities(data: dict[str, Any]) -> list[str] | None:
    """Return the quantities that the measures of an experiment return; None when they cannot be known."""
    names = [m.get("measure") for m in as_list(data.get("methods")) if isinstance(m, dict)]
    found = quantities_of(name for name in names if isinstance(name, str))
    return None if found is None else list(found)
