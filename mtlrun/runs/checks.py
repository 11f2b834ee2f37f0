"""Checks of an experiment that need more than one field: kinds, estimators and their parameters, grids, names, claims.

They run on plain data, before or after the schema found problems, so that everything is reported at once. Nothing is
known of an estimator here except what its constructor can be given (`runs.code.facts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError, model_validator

from mtlrun.data.cards import card_paths, read_card
from mtlrun.data.files import data_directory
from mtlrun.errors import ConfigError, UserError, shorten, suggest
from mtlrun.metricfacts import METRIC_FACTS
from mtlrun.papers.measure import published_path
from mtlrun.report.checks import AVERAGE_RANK, QUANTITIES, VERDICTS, as_list, check_problems
from mtlrun.runs.cell import is_nested
from mtlrun.runs.methods import (
    PUBLISHED,
    class_path,
    complete,
    has_parameter,
    measure_parameters,
    measure_path,
    needs_data,
    parameter_names,
    parameter_rule,
    quantities_of,
)
from mtlrun.runs.spec import MEASURE_KINDS, ONE_OF, TRAIN, Base
from mtlrun.utils.schema import Finding, inside, schema_findings
from mtlrun.utils.yaml import KeyPath, Problem, load_text, render

#: Sections that only fits have, only measurements, and only training files.
_FITS_ONLY = ("split", "selection", "grids", "average", "statistics", "keep")
_MEASURES_ONLY = ("repeats",)
_TRAIN_ONLY = ("refit",)


def crosscheck(data: dict[str, Any], data_dir: Path | None = None) -> Iterator[Finding]:
    """Yield every contradiction in an experiment.

    Parameters
    ----------
    data : dict
        A profile applied, a training file mapped to an experiment; may be malformed: what is not of the expected type
        is left to the schema.
    data_dir : Path, optional
        Data directory whose own cards count too.
    """
    labels = [m["label"] for m in _dicts(data.get("methods")) if isinstance(m.get("label"), str)]
    yield from _kind(data)
    yield from _duplicates(labels, "methods", "method")
    for i, method in enumerate(as_list(data.get("methods"))):
        if isinstance(method, dict):
            check = _measure if _measures(data) else _method
            yield from check(method, ("methods", i), data)
    yield from _datasets(data, card_paths(data_directory(data_dir)))
    yield from _metrics(data)
    yield from _known(_dict(data.get("timing")).get("baseline"), labels, ("timing", "baseline"), "method")
    yield from _sweep(data)
    section = _dict(data.get("statistics"))
    yield from _known(section.get("metric"), _all_metrics(data), ("statistics", "metric"), "metric of this experiment")
    yield from _known(section.get("control"), labels, ("statistics", "control"), "method")
    if isinstance(data.get("published"), str):
        yield from _refused(read_curves, data["published"], ("published",))
    yield from _claims(data, labels)
    yield from _references(data, labels)
    for name, reading in _dict(data.get("readings")).items():
        of = _dict(_dict(reading).get("main")).get("of")
        yield from _known(of, labels, ("readings", name, "main", "of"), "method")


def shown(path: KeyPath, data: dict[str, Any]) -> KeyPath:
    """Return a path as the file has it: a training file has one data set and one method."""
    if path and data.get("kind") == TRAIN and path[0] in ONE_OF:
        return (ONE_OF[str(path[0])], *path[2:])
    return path


def _measures(data: dict[str, Any]) -> bool:
    return data.get("kind") in MEASURE_KINDS


# --- what belongs to which kind


def _kind(data: dict[str, Any]) -> Iterator[Finding]:
    """Check that there are the sections that the kind of the experiment needs, and none that it does not have."""
    kind = data.get("kind", "evaluate")
    foreign = [*(_FITS_ONLY if _measures(data) else _MEASURES_ONLY), *(() if kind == TRAIN else _TRAIN_ONLY)]
    for name in foreign:
        if data.get(name) is not None:
            yield (name,), True, f"kind: {kind} has no {name!r}", ""
    if _measures(data):
        yield from _measure_sections(data)
        return
    yield from _fit_sections(data)
    if kind == TRAIN:
        yield from _train_sections(data)
        return
    swept = data.get("sweep") is not None
    if swept != (kind == "sweep") and not (swept and kind == "test"):
        yield (), True, "kind: sweep and the section 'sweep' belong together (kind: test may have it)", ""
    checks = [check for claim in _dicts(data.get("claims")) for check in _dicts(claim.get("checks"))]
    if kind == "test" and not any(check.get("kind") == "paired" for check in checks) and not data.get("statistics"):
        yield (), True, "kind: test needs a claim with a check of the kind 'paired'", "or the section 'statistics'"


def _fit_sections(data: dict[str, Any]) -> Iterator[Finding]:
    """Check that there are data sets, each with a split, and that validation parts are where they are used."""
    if "datasets" not in data:
        yield (), True, f"missing key {shown(('datasets',), data)[0]!r}", ""
    elif data["datasets"] == []:
        yield ("datasets",), False, "'datasets' must not be empty", ""
    splits: dict[KeyPath, Any] = {}
    for i, entry in enumerate(as_list(data.get("datasets"))):
        own = _dict(entry).get("split")
        splits[("datasets", i, "split") if own is not None else ("split",)] = own or data.get("split")
    if "split" not in data and (None in splits.values() or not splits):
        yield (), True, "missing key 'split'", ""
    selection, swept = _dict(data.get("selection")), _dict(data.get("sweep")).get("split") is not None
    on_validation = selection.get("on") == "validation"
    if on_validation and selection.get("folds") is not None:
        yield ("selection", "folds"), True, "selection on the validation part has no folds", ""
    for path, split in splits.items():
        kind = split.get("kind", "random") if isinstance(split, dict) else "random"
        if on_validation and isinstance(split, dict) and split.get("validation") is None and kind != "balanced":
            hint = "for instance split: {kind: random, train: 0.5, validation: 0.2}"
            yield path, True, "selection on: validation needs a split with a part 'validation'", hint
        if swept and kind not in ("random", "balanced"):
            yield ("sweep", "split"), True, f"a {kind} split has no 'train' that could change", ""


def _train_sections(data: dict[str, Any]) -> Iterator[Finding]:
    """Check that a training file has one split, chooses parameters by folds, and that its metrics suit the data."""
    split, own = _dict(data.get("split")), _dicts(data.get("datasets"))
    if split.get("trials") not in (None, 1):
        hint = "leave 'trials' out; of a kfold split, the first fold is tested"
        yield ("split",), True, "a training file evaluates one split", hint
    if split.get("validation") is not None or _dict(data.get("selection")).get("on") == "validation":
        text = "a training file chooses parameters by folds: it has no validation part"
        yield ("split",) if split.get("validation") is not None else ("selection", "on"), True, text, ""
    for name in ("split", "metrics", "features"):
        if own and own[0].get(name) is not None:
            yield ("datasets", 0, name), True, f"a training file has {name!r} itself, not inside 'dataset'", ""


def _measure_sections(data: dict[str, Any]) -> Iterator[Finding]:
    kind, sweep = data["kind"], _dict(data.get("sweep"))
    for name in _dict(data.get("timing")):
        if name != "threads":
            hint = "measures repeat and warm up themselves; trials are 'repeats'"
            yield ("timing", name), True, f"timing of measurements has 'threads' only, not {name!r}", hint
    if sweep.get("split") is not None:
        yield ("sweep", "split"), True, f"kind: {kind} has no split", "sweep an 'option' or 'params'"
    for i, entry in enumerate(as_list(data.get("datasets"))):
        for name in ("split", "metrics"):
            if _dict(entry).get(name) is not None:
                yield ("datasets", i, name), True, f"kind: {kind} has no {name!r} of a data set", ""
    if data.get("datasets"):
        return
    if sweep.get("option") is not None:
        yield ("sweep", "option"), True, "there is no data set whose option could change", ""
    for i, method in enumerate(_dicts(data.get("methods"))):
        measure = method.get("measure")
        if isinstance(measure, str) and needs_data(measure):
            yield ("methods", i, "measure"), False, f"the measure {measure!r} needs a data set", "add 'datasets'"


# --- methods


def _method(method: dict[str, Any], path: KeyPath, data: dict[str, Any]) -> Iterator[Finding]:
    """Check a row that fits an estimator: its parameters, and the values that are searched."""
    name, params = method.get("estimator"), _dict(method.get("params"))
    if "estimator" not in method:
        yield path, True, f"missing key 'estimator'{inside(shown(path, data))}", ""
    if method.get("measure") is not None:
        hint = "kinds of measurements: inspect, trace, scaling, audit"
        yield (*path, "measure"), True, f"kind: {data.get('kind', 'evaluate')} has no measures", hint
    yield from _estimator(name, params, path)
    grid, select_with, grids = (_dict(d) for d in (method.get("grid"), method.get("select_with"), data.get("grids")))
    for key, values in grid.items():
        here: KeyPath = (*path, "grid", key)
        yield from _parameter(name, params, key, here)
        searched: Any = values
        if isinstance(values, str):
            yield from _known(values, grids, here, "grid")
            here, searched = ("grids", values), grids.get(values)
        for k, value in enumerate(searched if isinstance(searched, list) else ()):
            yield from _value(name, params, key, value, (*here, k))
    for key, value in select_with.items():
        yield from _parameter(name, params, key, (*path, "select_with", key))
        yield from _value(name, params, key, value, (*path, "select_with", key))
    if select_with and not grid:
        yield (*path, "select_with"), True, "'select_with' without a 'grid' has no effect", "remove it or add a grid"
    if grid and not data.get("selection"):
        yield (*path, "grid"), True, "a 'grid' needs the section 'selection'", "for instance selection: {folds: 3}"


def _estimator(name: Any, params: dict[str, Any], path: KeyPath) -> Iterator[Finding]:
    """Check the name of an estimator, its parameters and those of estimators inside them."""
    if not isinstance(name, str):
        return
    refused = list(_refused(class_path, name, (*path, "estimator")))
    yield from refused
    for key, value in params.items() if not refused else ():
        here = (*path, "params", key)
        yield from _parameter(name, params, key, here)
        yield from _value(name, params, key, value, here)
        if is_nested(value):
            yield from _estimator(value["estimator"], _dict(value.get("params")), here)


def _parameter(estimator: Any, params: dict[str, Any], name: str, path: KeyPath) -> Iterator[Finding]:
    """Check one parameter name; ``base__alpha`` is `alpha` of the estimator given as `base`."""
    known = _asked(parameter_names, estimator)
    first, _, rest = name.partition("__")
    if known is not None and first not in known:
        yield _no_parameter(estimator, first, known, path)
    elif rest and isinstance(estimator, str):
        inner = complete(estimator, params).get(first)
        if is_nested(inner):
            yield from _parameter(inner["estimator"], _dict(inner.get("params")), rest, path)
        else:
            hint = f"give it as {first}: {{estimator: ...}}"
            yield path, True, f"{first!r} of {estimator} is not an estimator here", hint


def _value(estimator: Any, params: dict[str, Any], name: str, value: Any, path: KeyPath) -> Iterator[Finding]:
    """Check the value of one parameter by the rule that its class has for it."""
    rule = None if is_nested(value) else _asked(parameter_rule, estimator, params, name)
    if rule is not None and not rule.accepts(value):
        near = suggest(value, rule.names, 1) if isinstance(value, str) else []
        hint = f"did you mean {near[0]!r}?" if near else ""
        yield path, False, f"{name} must be {rule.text}, not {shorten(repr(value), 200)}", hint


def _measure(method: dict[str, Any], path: KeyPath, data: dict[str, Any]) -> Iterator[Finding]:
    """Check a row of a measure: its name, its parameters, sections that it cannot have."""
    for section in ("estimator", "grid", "select_with"):
        if method.get(section):
            yield (*path, section), True, f"a measurement has no {section!r}", ""
    name, params = method.get("measure"), _dict(method.get("params"))
    if name is None:
        yield path, True, f"missing key 'measure'{inside(shown(path, data))}", ""
    if not isinstance(name, str):
        return
    yield from _refused(measure_path, name, (*path, "measure"))
    known = _asked(measure_parameters, name)
    for key in params:
        if known is not None and key not in known:
            yield _no_parameter(f"the measure {name}", key, known, (*path, "params", key))
    for published in as_list(params.get(PUBLISHED)):
        if isinstance(published, str):
            yield from _refused(published_path, published, (*path, "params", PUBLISHED))


def _no_parameter(what: str, name: str, known: Iterable[str], path: KeyPath) -> Finding:
    near = suggest(name, known, 1)
    hint = f"did you mean {near[0]!r}?   " if near else ""
    hint += f"it has: {', '.join(known)}" if known else "it has none"
    return path, True, f"{what} has no parameter {name!r}", hint


def _asked(question: Any, name: Any, *more: Any) -> Any:
    """Return the answer about an estimator or a measure; None for one that does not exist, which is reported once."""
    try:
        return question(name, *more) if isinstance(name, str) else None
    except UserError:
        return None


def _refused(question: Any, name: str, path: KeyPath) -> Iterator[Finding]:
    """Yield the error that a question about a name ends with."""
    try:
        question(name)
    except UserError as error:
        yield path, False, error.message, error.remedy or ""


# --- names of data sets, metrics and quantities


def _datasets(data: dict[str, Any], cards: dict[str, Path]) -> Iterator[Finding]:
    names = []
    for i, entry in enumerate(as_list(data.get("datasets"))):
        name = entry.get("id") if isinstance(entry, dict) else entry
        yield from _known(name, cards, ("datasets", i, "id"), "data set")
        names.append(_dict(entry).get("label") or name)
        if data.get("kind") == TRAIN and isinstance(name, str) and name in cards:
            yield from _metrics_of_numbers(data, name, cards[name])
    for i, method in enumerate(_dicts(data.get("methods"))):
        yield from _known(method.get("datasets"), [*names, *cards], ("methods", i, "datasets"), "data set")
    yield from _duplicates(names, "datasets", "data set", "give one of them another 'label'")


def _metrics_of_numbers(data: dict[str, Any], name: str, card: Path) -> Iterator[Finding]:
    """Check that a data set with numbers as targets has no metrics for labels."""
    known = [metric for metric, facts in METRIC_FACTS.items() if facts.needs == "value"]
    for i, metric in enumerate(as_list(data.get("metrics"))):
        if metric in METRIC_FACTS and metric not in known and read_card(card).task_type == "regression":
            text = f"{metric!r} is for labels, but the targets of {name} are numbers"
            yield ("metrics", i), False, text, f"use: {', '.join(known)}"


def _metrics(data: dict[str, Any]) -> Iterator[Finding]:
    metrics = data.get("metrics")
    if _measures(data):
        found = quantities_of(m["measure"] for m in _dicts(data.get("methods")) if isinstance(m.get("measure"), str))
        if found is not None:
            yield from _known(metrics, found, ("metrics",), "quantity")
    else:
        yield from _known(metrics, METRIC_FACTS, ("metrics",), "metric")
        for i, entry in enumerate(as_list(data.get("datasets"))):
            yield from _known(_dict(entry).get("metrics"), METRIC_FACTS, ("datasets", i, "metrics"), "metric")
    yield from _duplicates(as_list(metrics), "metrics", "metric")
    yield from _known(_dict(data.get("selection")).get("metric"), METRIC_FACTS, ("selection", "metric"), "metric")


def _sweep(data: dict[str, Any]) -> Iterator[Finding]:
    """Check the parameters of an axis: each must be in a method, and none may be searched as well."""
    sweep = _dict(data.get("sweep"))
    methods = _dicts(data.get("methods"))
    for name in as_list(sweep.get("params")):
        having = [(i, method) for i, method in enumerate(methods) if isinstance(name, str) and _has(method, name)]
        if isinstance(name, str) and not having:
            yield ("sweep", "params"), False, f"no method has a parameter {name!r}", ""
        for i, method in having:
            if name in _dict(method.get("grid")):
                hint = "remove it from the grid or from the sweep"
                yield ("methods", i, "grid", name), True, f"{name!r} is the axis of the sweep and in a grid", hint
            params = _dict(method.get("params"))
            for k, value in enumerate(as_list(sweep.get("values"))):
                yield from _value(method.get("estimator"), params, name, value, ("sweep", "values", k))
    quantities = [*_all_metrics(data), *QUANTITIES]
    yield from _known(sweep.get("quantities"), quantities, ("sweep", "quantities"), "quantity")


def _has(method: dict[str, Any], parameter: str) -> bool:
    if isinstance(measure := method.get("measure"), str):
        known = _asked(lambda name: measure_parameters(name) or (parameter,), measure)
        return known is not None and parameter in known
    params = _dict(method.get("params"))
    found = _asked(lambda name: has_parameter(name, complete(name, params), parameter), method.get("estimator"))
    return bool(found)


def _all_metrics(data: dict[str, Any]) -> list[str]:
    """Return the metrics of the experiment and of its data sets."""
    own = [_dict(entry).get("metrics") for entry in as_list(data.get("datasets"))]
    names = [name for some in [data.get("metrics"), *own] for name in as_list(some)]
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


# --- claims and references


def _claims(data: dict[str, Any], labels: list[str]) -> Iterator[Finding]:
    metrics = tuple(_all_metrics(data))
    claims = _dicts(data.get("claims"))
    yield from _duplicates([c.get("id") for c in claims], "claims", "claim")
    for i, claim in enumerate(claims):
        expected = _dict(claim.get("expect")).get("verdict")
        yield from _known(expected, VERDICTS, ("claims", i, "expect", "verdict"), "verdict")
        if not claim.get("checks") and not claim.get("not_testable"):
            yield ("claims", i), True, "a claim needs 'checks' or 'not_testable'", ""
        for j, check in enumerate(_dicts(claim.get("checks"))):
            here: KeyPath = ("claims", i, "checks", j)
            ranks = check.get("kind") == "rejections" or check.get("quantity") == AVERAGE_RANK
            if ranks and not data.get("statistics"):
                yield (*here, "kind"), False, "ranks need the section 'statistics'", ""
            for name, message in check_problems(check, metrics):
                yield (*here, name), name not in check, message, ""
            for name in ("of", "over", "methods", "control"):
                yield from _known(check.get(name), labels, (*here, name), "method")


def _references(data: dict[str, Any], labels: list[str]) -> Iterator[Finding]:
    quantities = [*_all_metrics(data), *QUANTITIES]
    profiles = [*_dict(data.get("profiles")), "full"]
    for i, entry in enumerate(_dicts(data.get("reference"))):
        yield from _known(entry.get("method"), labels, ("reference", i, "method"), "method")
        yield from _known(entry.get("quantity"), quantities, ("reference", i, "quantity"), "quantity")
        yield from _known(entry.get("profile"), profiles, ("reference", i, "profile"), "profile")


class Curve(Base):
    """A published curve, or the published values of a quantity; `name` is that of the curve or the quantity."""

    dataset: str
    method: str
    name: str
    x: list[float]
    y: list[float]
    source: Any = None

    @model_validator(mode="after")
    def _of_one_length(self) -> Curve:
        if len(self.x) != len(self.y):
            raise ValueError("'x' and 'y' must have the same length")
        return self


class Curves(Base):
    """A file of published curves."""

    curves: list[Curve]


def read_curves(name: str) -> dict[str, Any]:
    """Read published curves.

    Parameters
    ----------
    name : str
        File below the folder of the experiments, ``mtsvm/published/curves.yaml``.

    Returns
    -------
    dict
        ``{"file": name, "curves": [...]}``, the curves as plain data with the fields of `Curve`.

    Raises
    ------
    ConfigError
        If the file is missing or is not a list of curves.
    """
    document = load_text(published_path(name).read_text(encoding="utf-8"), f"configs/{name}")
    try:
        Curves.model_validate(document.data)
    except ValidationError as error:
        problems = [
            Problem(document.key_mark(path) if at_key else document.value_mark(path), message, hint)
            for path, at_key, message, hint in schema_findings(error, document.data, Curves)
        ]
        raise ConfigError(render(problems, document)) from None
    return {"file": name, "curves": document.data["curves"]}


def _known(name: Any, known: Iterable[Any], path: KeyPath, what: str) -> Iterator[Finding]:
    """Check a name, or every name in a list; what is not a text is left to the schema."""
    if isinstance(name, list):
        for k, entry in enumerate(name):
            if not isinstance(entry, list):
                yield from _known(entry, known, (*path, k), what)
        return
    names = [str(k) for k in known]
    if isinstance(name, str) and name not in names:
        near = suggest(name, names)
        known_ones = f"known: {', '.join(sorted(names))}" if names else f"there is no {what}"
        hint = f"did you mean {' or '.join(repr(n) for n in near)}?" if near else known_ones
        yield path, False, f"unknown {what} {name!r}", hint


def _duplicates(names: list[Any], section: str, what: str, remedy: str = "") -> Iterator[Finding]:
    for i, name in enumerate(names):
        if isinstance(name, str) and name in names[:i]:
            yield (section, i), True, f"two entries for {what} {name!r}", remedy


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [_dict(v) for v in as_list(value)]
