"""Checks of an experiment that need more than one field: estimators and their parameters, grids, labels, claims.

They run on the plain data, before or after the schema found problems, so that everything is reported at once. Nothing
here is known of an estimator but what its constructor can be given (`runs.code.facts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mtlrun.errors import UserError, shorten, suggest
from mtlrun.metricfacts import METRIC_FACTS
from mtlrun.report.checks import AVERAGE_RANK, QUANTITIES, VERDICTS, as_list, check_problems
from mtlrun.runs.cell import is_nested
from mtlrun.runs.crosscheck_kinds import (
    Finding,
    kind_findings,
    measure_findings,
    measured_quantities,
    measures,
)
from mtlrun.runs.methods import class_path, complete, has_parameter, measure_parameters, parameter_names
from mtlrun.runs.published import read_curves
from mtlrun.runs.rules import parameter_rule
from mtlrun.utils.yaml import KeyPath

#: Top-level keys that a profile or an override may not touch: they say what the experiment is.
FIXED = ("schema", "id", "title", "kind", "extends", "default_for", "paper", "profiles")


def crosscheck(data: dict[str, Any], data_dir: Path | None = None) -> Iterator[Finding]:
    """Yield every contradiction in an experiment.

    Parameters
    ----------
    data : dict
        A profile applied; may be malformed, what is not of the expected type is left to the schema.
    data_dir : Path, optional
        Data directory whose own cards count too.
    """
    yield from kind_findings(data)
    labels = [m["label"] for m in _dicts(data.get("methods")) if isinstance(m.get("label"), str)]
    yield from _duplicates(labels, "methods", "method")
    for i, method in enumerate(as_list(data.get("methods"))):
        if isinstance(method, dict) and measures(data):
            yield from measure_findings(method, ("methods", i))
        elif isinstance(method, dict):
            yield from _method(method, ("methods", i), data)
    yield from _datasets(data, data_dir)
    yield from _metrics(data)
    baseline = _dict(data.get("timing")).get("baseline")
    if isinstance(baseline, str):
        yield from _known(baseline, labels, ("timing", "baseline"), "method")
    yield from _sweep(data)
    yield from _statistics(data, labels)
    yield from _published(data)
    yield from _claims(data, labels)
    yield from _references(data, labels)


def _method(method: dict[str, Any], path: KeyPath, data: dict[str, Any]) -> Iterator[Finding]:
    params = _dict(method.get("params"))
    if "estimator" not in method and data.get("kind") != "train":
        yield path, True, f"missing key 'estimator' in methods[{path[-1]}]", ""
    if method.get("measure") is not None:
        hint = "kinds of measurements: inspect, trace, scaling, audit"
        yield (*path, "measure"), True, f"kind: {data.get('kind', 'evaluate')} has no measures", hint
    yield from _estimator(method.get("estimator"), params, path)
    grid, select_with = _dict(method.get("grid")), _dict(method.get("select_with"))
    for section, names in (("grid", grid), ("select_with", select_with)):
        for name in names:
            yield from _parameter(method.get("estimator"), params, name, (*path, section, name))
    grids = _dict(data.get("grids"))
    for name, values in grid.items():
        here: KeyPath = (*path, "grid", name)
        if isinstance(values, str):
            yield from _known(values, grids, here, "grid")
        place, found = (("grids", values), grids.get(values)) if isinstance(values, str) else (here, values)
        for k, value in enumerate(found if isinstance(found, list) else ()):
            yield from _value(method.get("estimator"), params, name, value, (*place, k))
    for name, value in select_with.items():
        yield from _value(method.get("estimator"), params, name, value, (*path, "select_with", name))
    if select_with and not grid:
        yield (*path, "select_with"), True, "'select_with' without a 'grid' has no effect", "remove it or add a grid"
    if grid and not data.get("selection"):
        yield (*path, "grid"), True, "a 'grid' needs the section 'selection'", "for instance selection: {folds: 3}"


def _estimator(name: Any, params: dict[str, Any], path: KeyPath) -> Iterator[Finding]:
    """Check the name of an estimator, its parameters and those of estimators inside them."""
    if not isinstance(name, str):
        return
    try:
        class_path(name)
    except UserError as error:
        yield (*path, "estimator"), False, error.message, error.remedy or ""
        return
    for key, value in params.items():
        here = (*path, "params", key)
        yield from _parameter(name, params, key, here)
        yield from _value(name, params, key, value, here)
        if is_nested(value):
            yield from _estimator(value["estimator"], _dict(value.get("params")), here)


def _parameter(estimator: Any, params: dict[str, Any], name: str, path: KeyPath) -> Iterator[Finding]:
    """Check one parameter name; ``base__alpha`` is `alpha` of the estimator given as `base`."""
    if not isinstance(estimator, str):
        return
    first, _, rest = name.partition("__")
    try:
        known = parameter_names(estimator)
    except UserError:
        return  # the estimator itself is reported once, by _estimator
    if known is not None and first not in known:
        near = suggest(first, known, 1)
        hint = f"did you mean {near[0]!r}?   " if near else ""
        yield path, True, f"{estimator} has no parameter {first!r}", f"{hint}it has: {', '.join(known)}"
    elif rest and is_nested(complete(estimator, params).get(first)):
        inner = complete(estimator, params)[first]
        yield from _parameter(inner["estimator"], _dict(inner.get("params")), rest, path)
    elif rest:
        yield path, True, f"{first!r} of {estimator} is no estimator here", f"give it as {first}: {{estimator: ...}}"


def _value(estimator: Any, params: dict[str, Any], name: str, value: Any, path: KeyPath) -> Iterator[Finding]:
    """Check the value of one parameter by the rule that its class has for it."""
    if not isinstance(estimator, str) or is_nested(value):
        return
    rule = parameter_rule(estimator, params, name)
    if rule is not None and not rule.accepts(value):
        near = suggest(value, rule.names, 1) if isinstance(value, str) else []
        hint = f"did you mean {near[0]!r}?" if near else ""
        yield path, False, f"{name} must be {rule.text}, not {shorten(repr(value), 200)}", hint


def _datasets(data: dict[str, Any], data_dir: Path | None) -> Iterator[Finding]:
    from mtlrun.data.cards import card_paths
    from mtlrun.data.files import data_directory

    known = card_paths(data_directory(data_dir))
    names = []
    for i, entry in enumerate(as_list(data.get("datasets"))):
        name = entry.get("id") if isinstance(entry, dict) else entry
        if not isinstance(name, str):
            continue
        place: KeyPath = ("datasets", i, "id") if isinstance(entry, dict) else ("datasets", i)
        yield from _known(name, known, place, "data set")
        names.append((entry.get("label") or name) if isinstance(entry, dict) else name)
    for i, method in enumerate(_dicts(data.get("methods"))):
        for j, name in enumerate(as_list(method.get("datasets"))):
            if isinstance(name, str):
                yield from _known(name, [*names, *known], ("methods", i, "datasets", j), "data set")
    yield from _duplicates(names, "datasets", "data set", "give one of them another 'label'")


def _metrics(data: dict[str, Any]) -> Iterator[Finding]:
    metrics = [m for m in as_list(data.get("metrics")) if isinstance(m, str)]
    known, what = (measured_quantities(data), "quantity") if measures(data) else ([*METRIC_FACTS], "metric")
    for i, name in enumerate(metrics):
        yield from _known(name, metrics if known is None else known, ("metrics", i), what)
    for i, entry in enumerate(as_list(data.get("datasets"))):
        own = entry.get("metrics") if isinstance(entry, dict) and not measures(data) else None
        for j, name in enumerate(as_list(own)):
            if isinstance(name, str):
                yield from _known(name, METRIC_FACTS, ("datasets", i, "metrics", j), "metric")
    yield from _duplicates(metrics, "metrics", "metric")
    chosen = _dict(data.get("selection")).get("metric")
    if isinstance(chosen, str):
        yield from _known(chosen, METRIC_FACTS, ("selection", "metric"), "metric")


def _sweep(data: dict[str, Any]) -> Iterator[Finding]:
    """Check the parameters of an axis: each must be in a method, and none may be searched as well."""
    sweep = _dict(data.get("sweep"))
    methods = _dicts(data.get("methods"))
    for name in as_list(sweep.get("params")):
        if not isinstance(name, str):
            continue
        if not any(_has(method, name) for method in methods):
            yield ("sweep", "params"), False, f"no method has a parameter {name!r}", ""
        for i, method in enumerate(methods):
            if name in _dict(method.get("grid")):
                hint = "remove it from the grid or from the sweep"
                yield ("methods", i, "grid", name), True, f"{name!r} is the axis of the sweep and in a grid", hint
            params = _dict(method.get("params"))
            for k, value in enumerate(as_list(sweep.get("values")) if _has(method, name) else ()):
                yield from _value(method.get("estimator"), params, name, value, ("sweep", "values", k))
    quantities = [*_all_metrics(data), *QUANTITIES]
    for i, name in enumerate(as_list(sweep.get("quantities"))):
        if isinstance(name, str):
            yield from _known(name, quantities, ("sweep", "quantities", i), "quantity")


def _published(data: dict[str, Any]) -> Iterator[Finding]:
    name = data.get("published")
    if isinstance(name, str):
        try:
            read_curves(name)
        except UserError as error:
            yield ("published",), False, error.message, error.remedy or ""


def _has(method: dict[str, Any], parameter: str) -> bool:
    estimator, measure = method.get("estimator"), method.get("measure")
    if isinstance(measure, str):
        try:
            return parameter in (measure_parameters(measure) or (parameter,))
        except UserError:
            return False
    if not isinstance(estimator, str):
        return False
    try:
        return has_parameter(estimator, complete(estimator, _dict(method.get("params"))), parameter)
    except UserError:
        return False  # an unknown estimator is reported at its own place


def _all_metrics(data: dict[str, Any]) -> list[str]:
    """Return the metrics of the experiment and of its data sets."""
    own = [e.get("metrics") for e in as_list(data.get("datasets")) if isinstance(e, dict)]
    names = [name for some in [data.get("metrics"), *own] for name in as_list(some)]
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def _statistics(data: dict[str, Any], labels: list[str]) -> Iterator[Finding]:
    section = _dict(data.get("statistics"))
    if isinstance(section.get("metric"), str):
        yield from _known(section["metric"], _all_metrics(data), ("statistics", "metric"), "metric of this experiment")
    if isinstance(section.get("control"), str):
        yield from _known(section["control"], labels, ("statistics", "control"), "method")


def _claims(data: dict[str, Any], labels: list[str]) -> Iterator[Finding]:
    metrics = tuple(_all_metrics(data))
    claims = [c if isinstance(c, dict) else {} for c in as_list(data.get("claims"))]
    yield from _duplicates([c.get("id") for c in claims], "claims", "claim")
    for i, claim in enumerate(claims):
        if isinstance(claim.get("expect"), str):
            yield from _known(claim["expect"], VERDICTS, ("claims", i, "expect"), "verdict")
        if not claim.get("checks") and not claim.get("not_testable"):
            yield ("claims", i), True, "a claim needs 'checks' or 'not_testable'", ""
        for j, check in enumerate(_dicts(claim.get("checks"))):
            here: KeyPath = ("claims", i, "checks", j)
            ranks = check.get("kind") == "rejections" or check.get("quantity") == AVERAGE_RANK
            if ranks and not data.get("statistics"):
                yield (*here, "kind"), False, "ranks need the section 'statistics'", ""
            for name, message in check_problems(check, metrics):
                yield (*here, name), name not in check, message, ""
            for field in ("of", "over", "methods", "control"):
                yield from _method_names(check, field, labels, here)


def _method_names(check: dict[str, Any], field: str, labels: list[str], path: KeyPath) -> Iterator[Finding]:
    several = isinstance(check.get(field), list)
    for k, name in enumerate(as_list(check.get(field))):
        if isinstance(name, str):
            yield from _known(name, labels, (*path, field, k) if several else (*path, field), "method")


def _references(data: dict[str, Any], labels: list[str]) -> Iterator[Finding]:
    quantities = [*_all_metrics(data), *QUANTITIES]
    profiles = [*_dict(data.get("profiles")), "full"]
    for i, entry in enumerate(_dicts(data.get("reference"))):
        yield from _method_names({"method": entry.get("method")}, "method", labels, ("reference", i))
        if isinstance(entry.get("quantity"), str):
            yield from _known(entry["quantity"], quantities, ("reference", i, "quantity"), "quantity")
        for name in as_list(entry.get("profile")):
            if isinstance(name, str):
                yield from _known(name, profiles, ("reference", i, "profile"), "profile")


def _known(name: str, known: Iterable[str], path: KeyPath, what: str) -> Iterator[Finding]:
    names = [str(k) for k in known]
    if name not in names:
        near = suggest(name, names)
        known_ones = f"known: {', '.join(sorted(names))}" if names else f"there is no {what}"
        hint = f"did you mean {' or '.join(repr(n) for n in near)}?" if near else known_ones
        yield path, False, f"unknown {what} {name!r}", hint


def _duplicates(names: list[Any], section: str, what: str, remedy: str = "") -> Iterator[Finding]:
    for i, name in enumerate(names):
        if name is not None and name in names[:i]:
            yield (section, i), True, f"two entries for {what} {name!r}", remedy


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [_dict(v) for v in as_list(value)]
