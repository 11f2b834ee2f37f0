"""Checks of an experiment that involve more than one field.

They check kinds, estimators with their parameters, grids, names and claims. They run on
plain data, whether or not the schema finds problems, so that all problems are reported
at once. All that they know of an estimator is what its constructor accepts (see
`mtlrun.catalog.interfaces`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from mtlrun.catalog.interfaces import METRIC_INFO, interface
from mtlrun.catalog.methods import (
    PUBLISHED,
    analysis_parameters,
    analysis_path,
    class_path,
    complete,
    has_parameter,
    is_nested,
    needs_data,
    parameter_names,
    parameter_rule,
    quantities_of,
)
from mtlrun.data.sets.cards import card_paths, read_card
from mtlrun.data.sets.files import data_directory
from mtlrun.data.sets.load import check_options, source_path
from mtlrun.errors import ConfigError, UserError, shorten, suggest
from mtlrun.lab.experiment.claims import (
    DATASET,
    QUANTITIES,
    VERDICT_WORDS,
    VERDICTS,
    Context,
    Curves,
    name_hint,
)
from mtlrun.lab.experiment.spec import (
    ANALYSIS_KINDS,
    FULL,
    ONE_OF,
    TRAIN,
    DatasetSpec,
    few_candidates,
)
from mtlrun.lab.experiment.spec import (
    PUBLISHED as PUBLISHED_NUMBERS,
)
from mtlrun.utils.io import as_list, published_path, read_text_file
from mtlrun.utils.yaml import (
    Finding,
    KeyPath,
    inside,
    load_text,
    rendered,
    schema_findings,
)

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Fields = TypeVar("Fields")

#: Step of a path that stands for all entries of a list, or for a single value.
ANY = "*"
#: Name of an estimator that is not there.
ABSENT = object()

_REPEATS_HINT = "measures repeat by 'repeats'"
#: Keys that only fits have, with the remedy, or "" if there is none but removing them.
_FIT_KEYS: dict[KeyPath, str] = {
    ("split",): "",
    ("selection",): "",
    ("grids",): "",
    ("average",): "",
    ("statistics",): "",
    ("keep",): "",
    ("datasets", ANY, "split"): "",
    ("datasets", ANY, "metrics"): "",
    ("methods", ANY, "estimator"): "",
    ("methods", ANY, "grid"): "",
    ("methods", ANY, "select_with"): "",
    ("timing", "repeats"): _REPEATS_HINT,
    ("timing", "warmup"): _REPEATS_HINT,
    ("timing", "baseline"): _REPEATS_HINT,
    ("sweep", "split"): "sweep an 'option' or 'params'",
}
#: Keys that only analyses have.
_ANALYSIS_KEYS: dict[KeyPath, str] = {
    ("repeats",): "",
    (
        "methods",
        ANY,
        "measure",
    ): "kinds of measurements: inspect, trace, scaling, audit",
}
#: Keys that only training files have.
_TRAINING_KEYS: dict[KeyPath, str] = {("refit",): ""}
_SECTION_HINT = "give it on its own"
#: Keys that training files do not have.
_NOT_TRAINING_KEYS: dict[KeyPath, str] = {
    ("datasets", ANY, "split"): _SECTION_HINT,
    ("datasets", ANY, "metrics"): _SECTION_HINT,
    ("datasets", ANY, "features"): _SECTION_HINT,
    ("split", "validation"): "a training file chooses parameters by folds",
}


# ------------------------------------------------------------- sections as written

# Sections that are missing or not mappings are empty; the schema refuses the latter.
# Other values are of any type.


@dataclass(frozen=True)
class Entry:
    """Entry of a list, a nested estimator, or a small section such as `split`."""

    id: Any = None
    label: Any = None
    name: Any = None
    variant: Any = None
    estimator: Any = ABSENT
    measure: Any = None
    params: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, Any] = field(default_factory=dict)
    select_with: dict[str, Any] = field(default_factory=dict)
    halving: Any = None
    scored: Any = None
    kind: Any = "random"
    trials: Any = None
    validation: Any = None
    folds: Any = None
    on: Any = None
    source: Any = "paper"
    checks: Any = None


@dataclass(frozen=True)
class Sections:
    """Sections of an experiment, a training file or a profile."""

    id: Any = ""
    kind: Any = "evaluate"
    extends: Any = None
    dataset: Any = None
    datasets: Any = None
    method: Any = None
    methods: Any = None
    metrics: Any = None
    claims: Any = None
    reference: Any = None
    published: Any = None
    statistics: Any = None
    split: Any = None
    selection: Entry = field(default_factory=Entry)
    sweep: Entry = field(default_factory=Entry)
    grids: dict[str, Any] = field(default_factory=dict)
    refit: dict[str, Any] = field(default_factory=dict)
    profiles: dict[str, Any] = field(default_factory=dict)
    readings: dict[str, Any] = field(default_factory=dict)


def read_sections(cls: Callable[..., Fields], content: object) -> Fields:
    """Return a section, or an empty one unless the content is a mapping."""
    if not isinstance(content, dict):
        return cls()
    values: dict[str, Any] = {}
    for entry in fields(cls):  # type: ignore[arg-type]
        if entry.name not in content:
            continue
        values[entry.name] = content[entry.name]
        factory = entry.default_factory
        if factory is dict and not isinstance(values[entry.name], dict):
            values[entry.name] = {}
        elif factory is Entry:
            values[entry.name] = read_sections(Entry, values[entry.name])
    return cls(**values)


def crosscheck(data: dict[str, Any], data_dir: Path | str | None) -> Iterator[Finding]:
    """Yield all contradictions in an experiment.

    Parameters
    ----------
    data : dict
        Experiment with a profile applied, or training file as an experiment. It may be
        malformed: values of a wrong type are left to the schema.
    data_dir : Path or str or None
        Data directory, whose data sets count, too.
    """
    sections = read_sections(Sections, data)
    yield from _check_keys_of_kind(data)
    if sections.kind in ANALYSIS_KINDS:
        yield from _check_analysis_sections(data)
        check_method = _check_analysis
    else:
        yield from _check_fit_sections(data)
        check_method = _check_fit
    for i, method in enumerate(as_list(sections.methods)):
        if isinstance(method, dict):
            yield from check_method(read_sections(Entry, method), ("methods", i), data)
    cards = card_paths(data_directory(data_dir))
    yield from _check_names(data, cards)
    yield from _check_metrics_of_numbers(data, cards)
    yield from _check_sweep(data)
    if isinstance(sections.published, str):
        yield from _report_error(read_curves, sections.published, ("published",))


def path_in_file(path: KeyPath, data: dict[str, Any]) -> KeyPath:
    """Return the path of a value in the file, given its path in the experiment.

    They differ in training files, which have one data set and one method.
    """
    is_section = bool(path) and path[0] in ONE_OF
    if is_section and read_sections(Sections, data).kind == TRAIN:
        return (ONE_OF[str(path[0])], *path[2:])
    return path


def _items(data: object, *steps: str | int) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the path and value of everything that matches some steps; see `ANY`."""
    if not steps:
        yield (), data
        return
    first, *rest = steps
    entries: dict[str | int, Any] = {}
    if first == ANY:
        entries = dict(enumerate(as_list(data)))
    elif isinstance(data, dict):
        entries = {first: data.get(first)}
    for name, entry in entries.items():
        if entry is not None:
            for path, value in _items(entry, *rest):
                yield (name, *path), value


def _values(data: object, *steps: str | int) -> list[Any]:
    """Return everything that matches some steps; see `ANY`."""
    return [value for _, value in _items(data, *steps)]


# ------------------------------------------------------------- sections of each kind


def _check_keys_of_kind(data: dict[str, Any]) -> Iterator[Finding]:
    """Check that there are no keys that the kind of the experiment does not have."""
    sections = read_sections(Sections, data)
    kind = sections.kind
    foreign_keys = {**_ANALYSIS_KEYS}
    if sections.kind in ANALYSIS_KINDS:
        foreign_keys = {**_FIT_KEYS}
    if kind == TRAIN:
        foreign_keys |= _NOT_TRAINING_KEYS
    else:
        foreign_keys |= _TRAINING_KEYS
    for steps, hint in foreign_keys.items():
        for path, _ in _items(data, *steps):
            section = inside(path_in_file(path[:-1], data))
            message = f"kind: {kind} has no {path[-1]!r}{section}"
            yield Finding(path, message, hint, at_key=True)


def _check_fit_sections(data: dict[str, Any]) -> Iterator[Finding]:
    """Check that there are data sets with splits, and the sections of the kind."""
    sections = read_sections(Sections, data)
    kind = sections.kind
    if "datasets" not in data:
        section = path_in_file(("datasets",), data)[0]
        yield Finding((), f"missing key {section!r}", at_key=True)
    elif sections.datasets == []:
        yield Finding(("datasets",), "'datasets' must not be empty")
    yield from _check_splits(data)
    is_training = kind == TRAIN
    has_folds = is_training or sections.selection.folds is not None
    if has_folds and sections.selection.on == "validation":
        message = (
            "a selection has either 'folds' or, outside training files, on: validation"
        )
        yield Finding(("selection", "on"), message, at_key=True)
    if is_training and read_sections(Entry, sections.split).trials not in (None, 1):
        message = "a training file evaluates one split"
        hint = "leave 'trials' out; of a kfold split, the first fold is tested"
        yield Finding(("split",), message, hint, at_key=True)
    has_sweep = bool(_values(data, "sweep"))
    may_have_sweep = kind in ("sweep", "test")
    if (has_sweep and not may_have_sweep) or (kind == "sweep" and not has_sweep):
        message = (
            "kind: sweep and the section 'sweep' belong together "
            "(kind: test may have it)"
        )
        yield Finding((), message, at_key=True)
    check_kinds = _values(data, "claims", ANY, "checks", ANY, "kind")
    has_test = "paired" in check_kinds or sections.statistics
    if kind == "test" and not has_test:
        message = "kind: test needs a claim with a check of the kind 'paired'"
        yield Finding((), message, "or the section 'statistics'", at_key=True)


def _check_splits(data: dict[str, Any]) -> Iterator[Finding]:
    """Check that each data set has a split with the parts that other sections need."""
    sections = read_sections(Sections, data)
    splits = dict(_items(data, "datasets", ANY, "split"))
    if not splits or len(splits) < len(as_list(sections.datasets)):
        # Data sets without a split of their own use the split of the experiment.
        splits[("split",)] = sections.split
        if sections.split is None:
            yield Finding((), "missing key 'split'", at_key=True)
    selects_on_validation = sections.selection.on == "validation"
    is_swept = bool(_values(data, "sweep", "split"))
    for path, content in splits.items():
        split = read_sections(Entry, content)
        kind = split.kind
        # The schema reports what is wrong with a malformed split.
        has_validation = (
            kind == "balanced"
            or not isinstance(content, dict)
            or split.validation is not None
        )
        if selects_on_validation and not has_validation:
            message = "selection on: validation needs a split with a part 'validation'"
            hint = "for instance split: {kind: random, train: 0.5, validation: 0.2}"
            yield Finding(path, message, hint, at_key=True)
        if is_swept and kind not in ("random", "balanced"):
            message = f"a {kind} split has no 'train' that could change"
            yield Finding(("sweep", "split"), message, at_key=True)


def _check_analysis_sections(data: dict[str, Any]) -> Iterator[Finding]:
    """Check that there are data sets if analyses need them."""
    if any(_values(data, "datasets")):
        return
    for path, _ in _items(data, "sweep", "option"):
        message = "there is no data set whose option could change"
        yield Finding(path, message, at_key=True)
    for path, name in _items(data, "methods", ANY, "measure"):
        if isinstance(name, str) and needs_data(name):
            yield Finding(
                path, f"the measure {name!r} needs a data set", "add 'datasets'"
            )


# ------------------------------------------------------------- methods


def _check_fit(method: Entry, path: KeyPath, data: dict[str, Any]) -> Iterator[Finding]:
    """Check a row that fits an estimator.

    Parameters
    ----------
    method : Entry
    path : tuple
        Path of the entry.
    data : dict
        Experiment.
    """
    sections = read_sections(Sections, data)
    name = method.estimator
    params = method.params
    if name is ABSENT:
        message = f"missing key 'estimator'{inside(path_in_file(path, data))}"
        yield Finding(path, message, at_key=True)
    yield from _check_estimator(name, params, path)
    yield from _check_grid(method, path, sections.grids)
    for key, value in method.select_with.items():
        yield from _check_setting(name, params, key, value, (*path, "select_with", key))
    for key, value in sections.refit.items():
        yield from _check_setting(name, params, key, value, ("refit", key))
    # There are options of a search only if there is a search.
    has_grid = bool(method.grid)
    if method.select_with and not (has_grid or method.scored):
        message = "'select_with' without a 'grid' has no effect"
        hint = "remove it or add a grid"
        yield Finding((*path, "select_with"), message, hint, at_key=True)
    has_folds = sections.selection.on != "validation"
    if method.halving and not (has_grid and has_folds):
        message = "'halving' needs a 'grid' and folds to score it on"
        hint = "remove it, or add these"
        yield Finding((*path, "halving"), message, hint, at_key=True)
    if has_grid and not any(_values(data, "selection")):
        message = "a 'grid' needs the section 'selection'"
        hint = "for instance selection: {folds: 3}"
        yield Finding((*path, "grid"), message, hint, at_key=True)


def _check_grid(
    method: Entry, path: KeyPath, grids: dict[str, Any]
) -> Iterator[Finding]:
    """Check the parameters that a method searches, and their values.

    Parameters
    ----------
    method : Entry
    path : tuple
        Path of the method.
    grids : dict
        Named values, which the grid of a method may refer to.
    """
    name = method.estimator
    params = method.params
    grid = {}
    for key, values in method.grid.items():
        values_path: KeyPath = (*path, "grid", key)
        yield from _check_parameter(name, params, key, values_path)
        if isinstance(values, str):
            yield from _check_name(values, grids, values_path, "grid")
            values_path = ("grids", values)
            values = grids.get(values)
        grid[key] = values
        if isinstance(values, list):
            for k, value in enumerate(values):
                yield from _check_value(name, params, key, value, (*values_path, k))
    try:
        few_candidates(grid)
    except ValueError as error:
        yield Finding((*path, "grid"), str(error), at_key=True)


def _check_estimator(
    name: object, params: dict[str, Any], path: KeyPath
) -> Iterator[Finding]:
    """Check the name of an estimator, its parameters and nested estimators."""
    if not isinstance(name, str):
        return
    findings = list(_report_error(class_path, name, (*path, "estimator")))
    yield from findings
    if findings:
        return
    for key, value in params.items():
        value_path = (*path, "params", key)
        yield from _check_setting(name, params, key, value, value_path)
        if is_nested(value):
            nested = read_sections(Entry, value)
            yield from _check_estimator(nested.estimator, nested.params, value_path)


def _check_setting(
    estimator: object, params: dict[str, Any], key: str, value: object, path: KeyPath
) -> Iterator[Finding]:
    """Check that an estimator has a parameter, and that it accepts a value."""
    yield from _check_parameter(estimator, params, key, path)
    yield from _check_value(estimator, params, key, value, path)


def _check_parameter(
    estimator: object, params: dict[str, Any], name: str, path: KeyPath
) -> Iterator[Finding]:
    """Check that an estimator has a parameter.

    ``base__alpha`` is the parameter `alpha` of the estimator that is the value of
    `base`.
    """
    if not isinstance(estimator, str):
        # The schema refuses it.
        return
    valid_names = _result_or_none(parameter_names, estimator)
    first, _, rest = name.partition("__")
    if valid_names is not None and first not in valid_names:
        yield _no_parameter(estimator, first, valid_names, path)
        return
    if not rest:
        return
    value = complete(estimator, params).get(first)
    if is_nested(value):
        nested = read_sections(Entry, value)
        yield from _check_parameter(nested.estimator, nested.params, rest, path)
    else:
        message = f"{first!r} of {estimator} is not an estimator here"
        hint = f"give it as {first}: {{estimator: ...}}"
        yield Finding(path, message, hint, at_key=True)


def _check_value(
    estimator: object, params: dict[str, Any], name: str, value: object, path: KeyPath
) -> Iterator[Finding]:
    """Check a value of a parameter by the rule of its class, if there is one."""
    if is_nested(value):
        return
    rule = _result_or_none(parameter_rule, estimator, params, name)
    if rule is None or rule.accepts(value):
        return
    message = f"{name} must be {rule.text}, not {shorten(repr(value), 200)}"
    yield Finding(path, message, rule.hint(value))


def _check_analysis(
    method: Entry, path: KeyPath, data: dict[str, Any]
) -> Iterator[Finding]:
    """Check a row that calls an analysis: its name and parameters.

    Parameters
    ----------
    method : Entry
    path : tuple
        Path of the entry.
    data : dict
        Experiment.
    """
    name = method.measure
    if name is None:
        message = f"missing key 'measure'{inside(path_in_file(path, data))}"
        yield Finding(path, message, at_key=True)
    if not isinstance(name, str):
        return
    yield from _report_error(analysis_path, name, (*path, "measure"))
    valid_names = _result_or_none(analysis_parameters, name)
    params = method.params
    if valid_names is not None:
        for key in params:
            if key not in valid_names:
                key_path = (*path, "params", key)
                yield _no_parameter(f"the measure {name}", key, valid_names, key_path)
    for file in as_list(params.get(PUBLISHED)):
        if isinstance(file, str):
            yield from _report_error(published_path, file, (*path, "params", PUBLISHED))


def _no_parameter(
    owner: str, name: str, valid_names: Iterable[str], path: KeyPath
) -> Finding:
    hint = "it has none"
    if valid_names:
        hint = f"it has: {', '.join(valid_names)}"
    near = suggest(name, valid_names, 1)
    if near:
        hint = f"did you mean {near[0]!r}?   {hint}"
    return Finding(path, f"{owner} has no parameter {name!r}", hint, at_key=True)


def _result_or_none(
    function: Callable[..., Result], name: object, *arguments: object
) -> Result | None:
    """Call a function of the name of an estimator or analysis.

    Returns
    -------
    result or None
        None for a name that does not exist, which is reported elsewhere.
    """
    if not isinstance(name, str):
        return None
    try:
        return function(name, *arguments)
    except UserError:
        return None


def _report_error(
    function: Callable[[Argument], object], argument: Argument, path: KeyPath
) -> Iterator[Finding]:
    """Call a function, and yield its `UserError` if it raises one."""
    try:
        function(argument)
    except UserError as error:
        yield Finding(path, error.message, error.remedy or "")


# ------------------------------------------------------------- names


def _check_names(data: dict[str, Any], cards: dict[str, Path]) -> Iterator[Finding]:
    """Check that names exist, and that labels and ids are unique.

    Parameters
    ----------
    data : dict
    cards : dict of str to Path
        Card of each data set.
    """
    sections = read_sections(Sections, data)
    dataset_names = []
    for i, entry in enumerate(as_list(sections.datasets)):
        if not isinstance(entry, dict):
            # The short form is the id alone.
            entry = {"id": entry}
        dataset = read_sections(Entry, entry)
        dataset_names.append(dataset.label or dataset.id)
        if isinstance(dataset.id, str) and dataset.id in cards:
            yield from _check_options(entry, cards[dataset.id], ("datasets", i))
    metrics = sections.metrics
    if sections.kind not in ANALYSIS_KINDS:
        yield from _check_name(metrics, METRIC_INFO, ("metrics",), "metric")
    else:
        names = _values(data, "methods", ANY, "measure")
        quantities = quantities_of(name for name in names if isinstance(name, str))
        # An analysis that does not declare its quantities may return any.
        if quantities is not None:
            yield from _check_name(metrics, quantities, ("metrics",), "quantity")
    labels = _values(data, "methods", ANY, "label")
    yield from _check_unique(as_list(metrics), "metrics", "metric")
    yield from _check_unique(labels, "methods", "method")
    yield from _check_unique(_values(data, "claims", ANY, "id"), "claims", "claim")
    hint = "give one of them another 'label'"
    yield from _check_unique(dataset_names, "datasets", "data set", hint)


def context_of(
    data: dict[str, Any], data_dir: Path | str | None, dataset_names: Iterable[str]
) -> Context:
    """Return the names that the fields of an experiment may have.

    Parameters
    ----------
    data : dict
        As for `crosscheck`.
    data_dir : Path or str or None
    dataset_names : iterable of str
        Ids and labels of the data sets of all profiles.
    """
    sections = read_sections(Sections, data)
    # Metrics of the experiment and of its data sets; the schema refuses other values.
    metrics = [
        *_values(data, "metrics", ANY),
        *_values(data, "datasets", ANY, "metrics", ANY),
    ]
    metrics = list(dict.fromkeys(name for name in metrics if isinstance(name, str)))
    names = {
        "method": _values(data, "methods", ANY, "label"),
        "metric": METRIC_INFO,
        "metric of this experiment": metrics,
        "quantity": [*metrics, *QUANTITIES],
        "data set": card_paths(data_directory(data_dir)),
        # Analyses of published numbers have no data set.
        DATASET: [*dataset_names] or [PUBLISHED_NUMBERS],
        "verdict": [*VERDICT_WORDS, *VERDICTS],
        "profile": [*sections.profiles, FULL],
    }
    texts = {
        kind: [name for name in valid_names if isinstance(name, str)]
        for kind, valid_names in names.items()
    }
    params: dict[str, set[str]] = {}
    for entry in _values(data, "methods", ANY):
        method = read_sections(Entry, entry)
        params.setdefault(str(method.label), set()).update(method.params)
    return Context(
        texts,
        params,
        has_ranks=bool(sections.statistics),
        axis=sections.sweep.name,
    )


def _check_options(
    entry: dict[str, Any], card_file: Path, path: KeyPath
) -> Iterator[Finding]:
    """Check that the reader or generator of a data set accepts its options."""
    card = read_card(card_file)
    valid_names = interface(source_path(card)).keyword_only
    check = partial(check_options, f"data set {card.id}", available=valid_names)
    for name, value in entry.items():
        if name not in DatasetSpec.model_fields:
            yield from _report_error(check, {name: value}, (*path, name))
    variant = read_sections(Entry, entry).variant
    if isinstance(variant, str):
        yield from _report_error(card.variant, variant, (*path, "variant"))


def _check_metrics_of_numbers(
    data: dict[str, Any], cards: dict[str, Path]
) -> Iterator[Finding]:
    """Check that there is no metric of labels if the targets are numbers."""
    ids = _values(data, "datasets", ANY, "id")
    if read_sections(Sections, data).kind != TRAIN or not ids:
        return
    name = ids[0]
    if not isinstance(name, str) or name not in cards:
        return
    if read_card(cards[name]).task_type != "regression":
        return
    valid_metrics = [
        metric for metric, info in METRIC_INFO.items() if info.needs == "value"
    ]
    for path, metric in _items(data, "metrics", ANY):
        if not isinstance(metric, str):
            continue
        if metric in METRIC_INFO and metric not in valid_metrics:
            message = f"{metric!r} is for labels, but the targets of {name} are numbers"
            yield Finding(path, message, f"use: {', '.join(valid_metrics)}")


def _check_sweep(data: dict[str, Any]) -> Iterator[Finding]:
    """Check that each parameter of an axis is in a method, and is not searched, too."""
    sections = read_sections(Sections, data)
    methods = [read_sections(Entry, entry) for entry in as_list(sections.methods)]
    for name in _values(data, "sweep", "params", ANY):
        if not isinstance(name, str):
            continue
        indices = [i for i, method in enumerate(methods) if _has(method, name)]
        if not indices:
            message = f"no method has a parameter {name!r}"
            yield Finding(("sweep", "params"), message)
        for i in indices:
            method = methods[i]
            if name in method.grid:
                message = f"{name!r} is the axis of the sweep and in a grid"
                hint = "remove it from the grid or from the sweep"
                yield Finding(("methods", i, "grid", name), message, hint, at_key=True)
            for path, value in _items(data, "sweep", "values", ANY):
                yield from _check_value(
                    method.estimator, method.params, name, value, path
                )


def _has(method: Entry, parameter: str) -> bool:
    """Whether a method has a parameter; False if the method does not exist."""
    try:
        if isinstance(method.measure, str):
            names = analysis_parameters(method.measure)
            # None means that the analysis accepts any parameter.
            return names is None or parameter in names
        if not isinstance(method.estimator, str):
            return False
        params = complete(method.estimator, method.params)
        return has_parameter(method.estimator, params, parameter)
    except UserError:
        return False


def read_curves(name: str) -> dict[str, Any]:
    """Read published curves.

    Parameters
    ----------
    name : str
        File below the folder of the experiments, ``mtsvm/published/curves.yaml``.

    Returns
    -------
    dict
        ``{"file": name, "curves": [...]}``: the curves as plain data, with the fields
        of `PublishedCurve`.

    Raises
    ------
    ConfigError
        If the file is missing or is not a list of curves.
    """
    document = load_text(read_text_file(published_path(name)), f"configs/{name}")
    try:
        Curves.model_validate(document.data)
    except ValidationError as error:
        findings = schema_findings(error, document.data, Curves)
        raise ConfigError(rendered(findings, document)) from None
    return {"file": name, "curves": document.data["curves"]}


def _check_name(
    name: object, valid_names: Iterable[Any], path: KeyPath, kind: str
) -> Iterator[Finding]:
    """Check that a name exists, or each name in a list.

    Values that are not strings are left to the schema.
    """
    if isinstance(name, list):
        for k, entry in enumerate(name):
            if not isinstance(entry, list):
                yield from _check_name(entry, valid_names, (*path, k), kind)
        return
    names = [str(valid_name) for valid_name in valid_names]
    if not isinstance(name, str) or name in names:
        return
    yield Finding(path, f"unknown {kind} {name!r}", name_hint(name, names, kind))


def _check_unique(
    names: list[Any], section: str, kind: str, hint: str = ""
) -> Iterator[Finding]:
    """Check that no name is there twice."""
    for i, name in enumerate(names):
        if isinstance(name, str) and name in names[:i]:
            message = f"two entries for {kind} {name!r}"
            yield Finding((section, i), message, hint, at_key=True)
