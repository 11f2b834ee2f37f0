"""Checks of an experiment that need more than one field: kinds, estimators and their parameters, grids, names, claims.

They run on plain data, before or after the schema found problems, so that everything is reported at once. Nothing is
known of an estimator here except what its constructor can be given (`mtlrun.engine.interfaces`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from mtlrun.data.cards import card_paths, read_card
from mtlrun.data.files import data_directory
from mtlrun.data.load import check_options, source_path
from mtlrun.engine.analysis import published_path
from mtlrun.engine.interfaces import METRIC_INFO, interface
from mtlrun.engine.job import is_nested
from mtlrun.engine.methods import (
    PUBLISHED,
    analysis_parameters,
    analysis_path,
    class_path,
    complete,
    has_parameter,
    needs_data,
    parameter_names,
    parameter_rule,
    quantities_of,
)
from mtlrun.errors import ConfigError, UserError, shorten, suggest
from mtlrun.lab.report.checks import (
    AVERAGE_RANK,
    QUANTITIES,
    VERDICT_WORDS,
    VERDICTS,
    Curves,
)
from mtlrun.lab.spec import (
    ANALYSIS_KINDS,
    FULL,
    ONE_OF,
    TRAIN,
    DatasetSpec,
    few_candidates,
)
from mtlrun.utils.io import as_list, read_text_file
from mtlrun.utils.yaml import (
    Finding,
    KeyPath,
    inside,
    load_text,
    rendered,
    schema_findings,
)

#: What a question about a name, or an option, gets and returns.
Question = TypeVar("Question")
Answer = TypeVar("Answer")

#: In the place of a step: every entry of a list, or the one that stands in its place.
ANY = "*"
#: What only fits may have, or only measurements, or only training files: sections and fields of sections, each with the
#: reason, or "".
_OF_FITS: dict[KeyPath, str] = {
    **dict.fromkeys(
        (
            ("split",),
            ("selection",),
            ("grids",),
            ("average",),
            ("statistics",),
            ("keep",),
        ),
        "",
    ),
    **dict.fromkeys(
        (
            ("datasets", ANY, "split"),
            ("datasets", ANY, "metrics"),
            ("methods", ANY, "estimator"),
        ),
        "",
    ),
    **dict.fromkeys((("methods", ANY, "grid"), ("methods", ANY, "select_with")), ""),
    **dict.fromkeys(
        (("timing", name) for name in ("repeats", "warmup", "baseline")),
        "measures repeat by 'repeats'",
    ),
    ("sweep", "split"): "sweep an 'option' or 'params'",
}
_OF_MEASURES: dict[KeyPath, str] = {
    ("repeats",): "",
    (
        "methods",
        ANY,
        "measure",
    ): "kinds of measurements: inspect, trace, scaling, audit",
}
_OF_TRAINING: dict[KeyPath, str] = {("refit",): ""}
#: What training files have none of.
_NOT_OF_TRAINING: dict[KeyPath, str] = {
    **dict.fromkeys(
        (("datasets", ANY, name) for name in ("split", "metrics", "features")),
        "give it on its own",
    ),
    ("split", "validation"): "a training file chooses parameters by folds",
}


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
    yield from _sections(data)
    yield from (_measure_sections if _measures(data) else _fit_sections)(data)
    for i, method in enumerate(as_list(data.get("methods"))):
        if isinstance(method, dict):
            check = _measure if _measures(data) else _method
            yield from check(method, ("methods", i), data)
    cards = card_paths(data_directory(data_dir))
    yield from _names(data, cards)
    yield from _numbers_have_no_labels(data, cards)
    yield from _sweep(data)
    yield from _claims(data)
    if isinstance(data.get("published"), str):
        yield from _refused(read_curves, data["published"], ("published",))


def shown(path: KeyPath, data: dict[str, Any]) -> KeyPath:
    """Return a path as the file has it: a training file has one data set and one method."""
    if path and data.get("kind") == TRAIN and path[0] in ONE_OF:
        return (ONE_OF[str(path[0])], *path[2:])
    return path


def _measures(data: dict[str, Any]) -> bool:
    return data.get("kind") in ANALYSIS_KINDS


def _at(data: object, *steps: str | int) -> Iterator[tuple[KeyPath, Any]]:
    """Yield (path, value) of what stands at some steps of the data, `ANY` being all entries of a list."""
    if not steps:
        yield (), data
        return
    first, *rest = steps
    entries = (
        dict(enumerate(as_list(data)))
        if first == ANY
        else {first: _dict(data).get(str(first))}
    )
    for name, entry in entries.items():
        if entry is not None:
            yield from (((name, *path), value) for path, value in _at(entry, *rest))


def _values(data: object, *steps: str | int) -> list[Any]:
    """Return what stands at some steps of the data."""
    return [value for _, value in _at(data, *steps)]


# --- what belongs to which kind


def _sections(data: dict[str, Any]) -> Iterator[Finding]:
    """Check that there is nothing that the kind of the experiment does not have."""
    kind = data.get("kind", "evaluate")
    foreign = _OF_FITS if _measures(data) else _OF_MEASURES
    foreign = {**foreign, **(_NOT_OF_TRAINING if kind == TRAIN else _OF_TRAINING)}
    for steps, hint in foreign.items():
        for path, _ in _at(data, *steps):
            place = inside(shown(path[:-1], data))
            yield path, True, f"kind: {kind} has no {path[-1]!r}{place}", hint


def _fit_sections(data: dict[str, Any]) -> Iterator[Finding]:
    """Check that there are data sets, each with a split, and that sections that need each other are there."""
    kind, selection, given = (
        data.get("kind", "evaluate"),
        _dict(data.get("selection")),
        data.get("split"),
    )
    if "datasets" not in data:
        yield (), True, f"missing key {shown(('datasets',), data)[0]!r}", ""
    elif data["datasets"] == []:
        yield ("datasets",), False, "'datasets' must not be empty", ""
    splits = dict(_at(data, "datasets", ANY, "split"))
    if len(splits) < len(as_list(data.get("datasets"))) or not splits:
        splits[("split",)] = given
        if given is None:
            yield (), True, "missing key 'split'", ""
    for path, split in splits.items():
        how = split.get("kind", "random") if isinstance(split, dict) else "random"
        parts = (
            how == "balanced"
            or not isinstance(split, dict)
            or split.get("validation") is not None
        )
        if selection.get("on") == "validation" and not parts:
            hint = "for instance split: {kind: random, train: 0.5, validation: 0.2}"
            yield (
                path,
                True,
                "selection on: validation needs a split with a part 'validation'",
                hint,
            )
        if _values(data, "sweep", "split") and how not in ("random", "balanced"):
            yield (
                ("sweep", "split"),
                True,
                f"a {how} split has no 'train' that could change",
                "",
            )
    if selection.get("on") == "validation" and (
        kind == TRAIN or selection.get("folds") is not None
    ):
        yield (
            ("selection", "on"),
            True,
            "a selection has either 'folds' or, outside training files, on: validation",
            "",
        )
    if kind == TRAIN and _dict(given).get("trials") not in (None, 1):
        hint = "leave 'trials' out; of a kfold split, the first fold is tested"
        yield ("split",), True, "a training file evaluates one split", hint
    swept = data.get("sweep") is not None
    if swept != (kind == "sweep") and not (swept and kind == "test"):
        yield (
            (),
            True,
            "kind: sweep and the section 'sweep' belong together (kind: test may have it)",
            "",
        )
    tests = "paired" in _values(data, "claims", ANY, "checks", ANY, "kind") or data.get(
        "statistics"
    )
    if kind == "test" and not tests:
        yield (
            (),
            True,
            "kind: test needs a claim with a check of the kind 'paired'",
            "or the section 'statistics'",
        )


def _measure_sections(data: dict[str, Any]) -> Iterator[Finding]:
    """Check that there are data sets where they are needed."""
    if data.get("datasets"):
        return
    for path, _ in _at(data, "sweep", "option"):
        yield path, True, "there is no data set whose option could change", ""
    for path, measure in _at(data, "methods", ANY, "measure"):
        if isinstance(measure, str) and needs_data(measure):
            yield (
                path,
                False,
                f"the measure {measure!r} needs a data set",
                "add 'datasets'",
            )


# --- methods


def _method(
    method: dict[str, Any], path: KeyPath, data: dict[str, Any]
) -> Iterator[Finding]:
    """Check a row that fits an estimator: its parameters, and the values that are searched."""
    name, params = method.get("estimator"), _dict(method.get("params"))
    if "estimator" not in method:
        yield path, True, f"missing key 'estimator'{inside(shown(path, data))}", ""
    yield from _estimator(name, params, path)
    grid, select_with, grids = (
        _dict(d)
        for d in (method.get("grid"), method.get("select_with"), data.get("grids"))
    )
    for key, values in grid.items():
        here: KeyPath = (*path, "grid", key)
        yield from _parameter(name, params, key, here)
        searched: Any = values
        if isinstance(values, str):
            yield from _known(values, grids, here, "grid")
            here, searched = ("grids", values), grids.get(values)
        for k, value in enumerate(searched if isinstance(searched, list) else ()):
            yield from _value(name, params, key, value, (*here, k))
    try:
        few_candidates(
            {
                key: grids.get(values) if isinstance(values, str) else values
                for key, values in grid.items()
            }
        )
    except ValueError as error:
        yield (*path, "grid"), True, str(error), ""
    for key, value in select_with.items():
        yield from _parameter(name, params, key, (*path, "select_with", key))
        yield from _value(name, params, key, value, (*path, "select_with", key))
    for key, value in _dict(data.get("refit")).items():
        yield from _parameter(name, params, key, ("refit", key))
        yield from _value(name, params, key, value, ("refit", key))
    if select_with and not grid and not method.get("scored"):
        yield (
            (*path, "select_with"),
            True,
            "'select_with' without a 'grid' has no effect",
            "remove it or add a grid",
        )
    if method.get("halving") and (
        not grid or _dict(data.get("selection")).get("on") == "validation"
    ):
        yield (
            (*path, "halving"),
            True,
            "'halving' needs a 'grid' and folds to score it on",
            "remove it, or add these",
        )
    if grid and not data.get("selection"):
        yield (
            (*path, "grid"),
            True,
            "a 'grid' needs the section 'selection'",
            "for instance selection: {folds: 3}",
        )


def _estimator(
    name: object, params: dict[str, Any], path: KeyPath
) -> Iterator[Finding]:
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


def _parameter(
    estimator: object, params: dict[str, Any], name: str, path: KeyPath
) -> Iterator[Finding]:
    """Check one parameter name; ``base__alpha`` is `alpha` of the estimator given as `base`."""
    known = _asked(parameter_names, estimator)
    first, _, rest = name.partition("__")
    if not isinstance(estimator, str):
        # The schema refuses other names.
        return
    if known is not None and first not in known:
        yield _no_parameter(estimator, first, known, path)
    elif rest:
        inner = complete(estimator, params).get(first)
        if is_nested(inner):
            yield from _parameter(
                inner["estimator"], _dict(inner.get("params")), rest, path
            )
        else:
            hint = f"give it as {first}: {{estimator: ...}}"
            yield path, True, f"{first!r} of {estimator} is not an estimator here", hint


def _value(
    estimator: object, params: dict[str, Any], name: str, value: object, path: KeyPath
) -> Iterator[Finding]:
    """Check the value of one parameter by the rule that its class has for it."""
    rule = None if is_nested(value) else _asked(parameter_rule, estimator, params, name)
    if rule is not None and not rule.accepts(value):
        near = suggest(value, rule.names, 1) if isinstance(value, str) else []
        hint = f"did you mean {near[0]!r}?" if near else ""
        yield (
            path,
            False,
            f"{name} must be {rule.text}, not {shorten(repr(value), 200)}",
            hint,
        )


def _measure(
    method: dict[str, Any], path: KeyPath, data: dict[str, Any]
) -> Iterator[Finding]:
    """Check a row of a measure: its name and its parameters."""
    name, params = method.get("measure"), _dict(method.get("params"))
    if name is None:
        yield path, True, f"missing key 'measure'{inside(shown(path, data))}", ""
    if not isinstance(name, str):
        return
    yield from _refused(analysis_path, name, (*path, "measure"))
    known = _asked(analysis_parameters, name)
    for key in params:
        if known is not None and key not in known:
            yield _no_parameter(
                f"the measure {name}", key, known, (*path, "params", key)
            )
    for published in as_list(params.get(PUBLISHED)):
        if isinstance(published, str):
            yield from _refused(published_path, published, (*path, "params", PUBLISHED))


def _no_parameter(what: str, name: str, known: Iterable[str], path: KeyPath) -> Finding:
    near = suggest(name, known, 1)
    hint = f"did you mean {near[0]!r}?   " if near else ""
    hint += f"it has: {', '.join(known)}" if known else "it has none"
    return path, True, f"{what} has no parameter {name!r}", hint


def _asked(
    question: Callable[..., Answer], name: object, *more: object
) -> Answer | None:
    """Return the answer about an estimator or a measure; None for one that does not exist, which is reported once."""
    try:
        return question(name, *more) if isinstance(name, str) else None
    except UserError:
        return None


def _refused(
    question: Callable[[Question], object], name: Question, path: KeyPath
) -> Iterator[Finding]:
    """Yield the error that a question about a name, or an option, ends with."""
    try:
        question(name)
    except UserError as error:
        yield path, False, error.message, error.remedy or ""


# --- names of data sets, metrics, methods and quantities


def _names(data: dict[str, Any], cards: dict[str, Path]) -> Iterator[Finding]:
    """Check that everything that is named exists, and that labels and ids are there once."""
    labels = _values(data, "methods", ANY, "label")
    entries = [
        e if isinstance(e, dict) else {"id": e} for e in as_list(data.get("datasets"))
    ]
    names = [entry.get("label") or entry.get("id") for entry in entries]
    metrics = _all_metrics(data)
    quantities = [*metrics, *QUANTITIES]
    own: Iterable[str] | None = METRIC_INFO
    if _measures(data):
        own = quantities_of(
            name
            for name in _values(data, "methods", ANY, "measure")
            if isinstance(name, str)
        )
    for i, entry in enumerate(entries):
        yield from _known(entry.get("id"), cards, ("datasets", i, "id"), "data set")
        if isinstance(entry.get("id"), str) and entry["id"] in cards:
            yield from _options(entry, cards[entry["id"]], ("datasets", i))
    known: list[tuple[tuple[str | int, ...], Iterable[Any] | None, str]] = [
        (("metrics",), own, "quantity" if _measures(data) else "metric"),
        (("datasets", ANY, "metrics"), METRIC_INFO, "metric"),
        (("selection", "metric"), METRIC_INFO, "metric"),
        (("methods", ANY, "datasets"), [*names, *cards], "data set"),
        (("timing", "baseline"), labels, "method"),
        (("sweep", "quantities"), quantities, "quantity"),
        (("statistics", "metric"), metrics, "metric of this experiment"),
        (("statistics", "control"), labels, "method"),
        *(
            (("readings", name, "main", "of"), labels, "method")
            for name in _dict(data.get("readings"))
        ),
        (
            ("claims", ANY, "expect", "verdict"),
            [*VERDICT_WORDS, *VERDICTS],
            "verdict",
        ),
        *(
            (("claims", ANY, "checks", ANY, n), labels, "method")
            for n in ("of", "over", "methods", "control")
        ),
        (("claims", ANY, "checks", ANY, "stopped", "below"), labels, "method"),
        (("claims", ANY, "checks", ANY, "stopped", "quantity"), metrics, "quantity"),
        (("claims", ANY, "checks", ANY, "quantity"), quantities, "quantity"),
        (("reference", ANY, "method"), labels, "method"),
        (("reference", ANY, "quantity"), quantities, "quantity"),
        (
            ("reference", ANY, "profile"),
            [*_dict(data.get("profiles")), FULL],
            "profile",
        ),
    ]
    for steps, allowed, kind in known:
        for path, name in _at(data, *steps):
            yield from _known(name, allowed, path, kind) if allowed is not None else ()
    yield from _duplicates(as_list(data.get("metrics")), "metrics", "metric")
    yield from _duplicates(labels, "methods", "method")
    yield from _duplicates(_values(data, "claims", ANY, "id"), "claims", "claim")
    yield from _duplicates(
        names, "datasets", "data set", "give one of them another 'label'"
    )


def _options(entry: dict[str, Any], card: Path, path: KeyPath) -> Iterator[Finding]:
    """Check the options of a data set: its reader or generator has them, and seeds, samples and variants are such."""
    found = read_card(card)
    known = interface(source_path(found)).keyword_only
    for name, value in entry.items():
        if name not in DatasetSpec.model_fields:
            yield from _refused(
                lambda option: check_options(found.id, option, known),
                {name: value},
                (*path, name),
            )
    if isinstance(entry.get("variant"), str):
        yield from _refused(found.variant, entry["variant"], (*path, "variant"))


def _numbers_have_no_labels(
    data: dict[str, Any], cards: dict[str, Path]
) -> Iterator[Finding]:
    """Check that a training file whose data set has numbers as targets has no metrics for labels."""
    name = next(iter(_values(data, "datasets", ANY, "id")), None)
    if (
        data.get("kind") != TRAIN
        or name not in cards
        or read_card(cards[name]).task_type != "regression"
    ):
        return
    fitting = [
        metric for metric, facts in METRIC_INFO.items() if facts.needs == "value"
    ]
    for path, metric in _at(data, "metrics", ANY):
        if metric in METRIC_INFO and metric not in fitting:
            text = f"{metric!r} is for labels, but the targets of {name} are numbers"
            yield path, False, text, f"use: {', '.join(fitting)}"


def _sweep(data: dict[str, Any]) -> Iterator[Finding]:
    """Check the parameters of an axis: each must be in a method, and none may be searched as well."""
    sweep = _dict(data.get("sweep"))
    methods = [_dict(method) for method in as_list(data.get("methods"))]
    for name in as_list(sweep.get("params")):
        having = [
            (i, method)
            for i, method in enumerate(methods)
            if isinstance(name, str) and _has(method, name)
        ]
        if isinstance(name, str) and not having:
            yield ("sweep", "params"), False, f"no method has a parameter {name!r}", ""
        for i, method in having:
            if name in _dict(method.get("grid")):
                hint = "remove it from the grid or from the sweep"
                yield (
                    ("methods", i, "grid", name),
                    True,
                    f"{name!r} is the axis of the sweep and in a grid",
                    hint,
                )
            for path, value in _at(data, "sweep", "values", ANY):
                yield from _value(
                    method.get("estimator"),
                    _dict(method.get("params")),
                    name,
                    value,
                    path,
                )


def _has(method: dict[str, Any], parameter: str) -> bool:
    if isinstance(measure := method.get("measure"), str):
        known = _asked(lambda name: analysis_parameters(name) or (parameter,), measure)
        return known is not None and parameter in known
    params = _dict(method.get("params"))
    found = _asked(
        lambda name: has_parameter(name, complete(name, params), parameter),
        method.get("estimator"),
    )
    return bool(found)


def _all_metrics(data: dict[str, Any]) -> list[str]:
    """Return the metrics of the experiment and of its data sets."""
    names = [
        *_values(data, "metrics", ANY),
        *_values(data, "datasets", ANY, "metrics", ANY),
    ]
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def _claims(data: dict[str, Any]) -> Iterator[Finding]:
    for path, claim in _at(data, "claims", ANY):
        if (
            isinstance(claim, dict)
            and not claim.get("checks")
            and not claim.get("not_testable")
        ):
            yield path, True, "a claim needs 'checks' or 'not_testable'", ""
    for path, check in _at(data, "claims", ANY, "checks", ANY):
        ranks = (
            _dict(check).get("kind") == "rejections"
            or _dict(check).get("quantity") == AVERAGE_RANK
        )
        if ranks and not data.get("statistics"):
            yield (*path, "kind"), False, "ranks need the section 'statistics'", ""
        limit = _dict(_dict(check).get("stopped")).get("at_least")
        for label in (
            (*as_list(check.get("of")), *as_list(check.get("over"))) if limit else ()
        ):
            given = (
                m
                for m in as_list(data.get("methods"))
                if _dict(m).get("label") == label
            )
            if not any(limit in _dict(m.get("params")) for m in given):
                yield (
                    (*path, "stopped"),
                    False,
                    f"method {label!r} does not set the parameter {limit!r}",
                    "",
                )


def read_curves(name: str) -> dict[str, Any]:
    """Read published curves.

    Parameters
    ----------
    name : str
        File below the folder of the experiments, ``mtsvm/published/curves.yaml``.

    Returns
    -------
    dict
        ``{"file": name, "curves": [...]}``, the curves as plain data with the fields of `PublishedCurve`.

    Raises
    ------
    ConfigError
        If the file is missing or is not a list of curves.
    """
    document = load_text(read_text_file(published_path(name)), f"configs/{name}")
    try:
        Curves.model_validate(document.data)
    except ValidationError as error:
        raise ConfigError(
            rendered(schema_findings(error, document.data, Curves), document)
        ) from None
    return {"file": name, "curves": document.data["curves"]}


def _known(
    name: object, known: Iterable[Any], path: KeyPath, what: str
) -> Iterator[Finding]:
    """Check a name, or every name in a list; what is not a string is left to the schema."""
    if isinstance(name, list):
        for k, entry in enumerate(name):
            if not isinstance(entry, list):
                yield from _known(entry, known, (*path, k), what)
        return
    names = [str(k) for k in known]
    if isinstance(name, str) and name not in names:
        near = suggest(name, names)
        known_ones = (
            f"known: {', '.join(sorted(names))}" if names else f"there is no {what}"
        )
        hint = (
            f"did you mean {' or '.join(repr(n) for n in near)}?"
            if near
            else known_ones
        )
        yield path, False, f"unknown {what} {name!r}", hint


def _duplicates(
    names: list[Any], section: str, what: str, remedy: str = ""
) -> Iterator[Finding]:
    for i, name in enumerate(names):
        if isinstance(name, str) and name in names[:i]:
            yield (section, i), True, f"two entries for {what} {name!r}", remedy


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
