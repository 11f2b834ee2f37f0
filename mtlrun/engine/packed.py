"""Pack the records of a run into one small file next to its report, ``cells.json.xz``.

The file contains what reports and `mtlrun verify` need of a record, and nothing that
follows from its other fields. The key of a record, for example, is the digest of its
inputs and versions. The keys of the folds of its search are such digests, too. They are
stored only if computing them would give another result. The values of a field form a
column over all records, because columns compress several times better than records.

This module needs only the standard library.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from mtlrun.engine.record import Record, ResultKey, Seconds, search_key
from mtlrun.utils.io import (
    DIGEST,
    open_regular,
    plain_json,
    read_fields,
    sealed,
    sha256_plain,
    stored_fields,
)
from mtlrun.utils.sizes import RECORD_BYTES, RECORD_TIMES, RECORDS, allow

#: Name of the file in the folder of a run.
PACKED = "cells.json.xz"
#: Version of its format.
SCHEMA = 1
#: Significant digits to which `compact` may round scores of single tasks. Averages keep
#: all digits, and `mtlrun verify` compares as many digits as are stored.
TASK_DIGITS = (7, 9)
#: Significant digits of seconds. Reports print only sums of these, in two or three
#: digits.
SECONDS_DIGITS = 5
#: Fields in the result of a fit that describe its stored test scores.
SCORE_FIELDS = ("predictions", "predictions_sha256")

#: Limits of the dictionary of a compressed file: the minimum of the format, and the
#: dictionary of the highest preset.
MIN_DICTIONARY_BYTES = 4096
MAX_DICTIONARY_BYTES = 64 << 20
#: Memory that decompression may take: the largest dictionary, with some reserve.
DECODER_BYTES = 2 * MAX_DICTIONARY_BYTES

_REMEDY = "No run has so many: take the file from where it was made."
#: Value of a field that a record does not have, while columns are made.
_ABSENT = object()


@dataclass(frozen=True)
class Packed:
    """Content of a file of records.

    Attributes
    ----------
    records : dict of str to dict
        Fields of the records by key.
    plan : dict
        Fields of ``run.json`` that were moved to this file, see `PLAN_FIELDS`.
    paired : list of dict
        Results of paired tests on test scores, which the claims of the run need. Each
        has the keys of both records, the options of the test and its result.
    damage : str or None
        Error message if the file cannot be read; the other fields are then empty.
    """

    records: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    paired: list[dict[str, Any]] = field(default_factory=list)
    damage: str | None = None


# ---------------------------------------------------------------- file


def pack(
    records: Iterable[Record],
    *,
    plan: Mapping[str, Any] | None = None,
    paired: Iterable[Mapping[str, Any]] = (),
    with_curves: bool = True,
    task_digits: int | None = None,
) -> bytes:
    """Return the content of ``cells.json.xz``, the same bytes for the same records.

    Parameters
    ----------
    records : iterable of Record
        Each key once, in any order.
    plan : mapping, optional
        Fields of ``run.json`` that move to this file. ``cells`` is its plan.
    paired : iterable of mapping
        Results of paired tests, see `Packed`.
    with_curves : bool, default True
        Keep the data of the figures of searches, which reports of sweeps do not have.
    task_digits : int, optional
        Significant digits of the scores of single tasks, see `compact`.
    """
    compacted = []
    for record in records:
        compacted.append(
            compact(record, with_curves=with_curves, task_digits=task_digits)
        )

    def sort_key(record: Record) -> tuple[str, str]:
        # Similar records follow each other, to compress well.
        names = ("dataset", "method", "search", "split")
        parts = [record.inputs.get(name) for name in names]
        return plain_json(parts), record.key

    compacted.sort(key=sort_key)
    all_scores, denominators = _use_fractions(compacted)
    short = []
    for record, scores in zip(compacted, all_scores, strict=True):
        short.append({**_without_keys(record), "per_task": scores})
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "n_records": len(compacted),
        "denominators": denominators,
        "records": _columns(short),
    }
    if plan:
        # Positions of records stand for their keys.
        positions: dict[str, Any] = {}
        for position, record in enumerate(compacted):
            positions[record.key] = position
        entries = []
        for entry in plan.get("cells") or ():
            key = entry["key"]
            entries.append({**entry, "key": positions.get(key, key)})
        rest = {name: value for name, value in plan.items() if name != "cells"}
        columns = _columns(entries)
        content["plan"] = {"n_cells": len(entries), "cells": columns, "rest": rest}
    tests = sorted(map(dict, paired), key=plain_json)
    if tests:
        content["paired"] = tests
    # Keys are not sorted, because the order of a grid is the order of its search.
    text = json.dumps(
        content, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    ).encode()
    sealed_text = f"{hashlib.sha256(text).hexdigest()}\n".encode() + text
    # Compression needs ten times the memory of its dictionary: 670 MB with the
    # dictionary of the preset. A dictionary of the size of the content compresses
    # equally well.
    n_bytes = max(len(sealed_text), MIN_DICTIONARY_BYTES)
    compressor: dict[str, int] = {
        "id": lzma.FILTER_LZMA2,
        "preset": 9 | lzma.PRESET_EXTREME,
        "dict_size": min(n_bytes, MAX_DICTIONARY_BYTES),
    }
    return lzma.compress(sealed_text, filters=[compressor])


def unpack(path: Path) -> Packed:
    """Read ``cells.json.xz``; the content is empty if there is no file.

    Raises
    ------
    ValueError
        If the file is damaged.
    """
    try:
        size = path.stat().st_size
        max_bytes = max(RECORD_BYTES, RECORD_TIMES * size)
        with open_regular(path) as file:
            compressed = file.read()
        # A damaged header may request any amount of memory. The limit raises an error.
        decoder = lzma.LZMADecompressor(memlimit=DECODER_BYTES)
        content = decoder.decompress(compressed, max_bytes + 1)
        if not decoder.eof and len(content) <= max_bytes:
            raise EOFError("the file ends too early")
        allow(path.name, len(content), max_bytes, f"bytes out of {size:,}", _REMEDY)
        digest, _, text = content.partition(b"\n")
        if hashlib.sha256(text).hexdigest().encode() != digest:
            raise ValueError("the content does not match its digest")
        return _unpacked(path.name, read_fields(_Content, json.loads(text)))
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        raise ValueError(f"{path.name} is damaged: {error}") from None
    except (
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise ValueError(f"{path.name} is damaged: no records: {error}") from None


@dataclass(frozen=True)
class _PackedPlan:
    """Plan whose entries are columns."""

    n_cells: int
    cells: dict[str, Any]
    rest: dict[str, Any]


@dataclass(frozen=True)
class _Content:
    """Content of the file."""

    n_records: int
    records: dict[str, Any]
    denominators: list[list[int]]
    plan: _PackedPlan | None = None
    paired: list[dict[str, Any]] = field(default_factory=list)


def _unpacked(name: str, content: _Content) -> Packed:
    """Return the records, the plan and the tests that `pack` has written."""
    allow(name, content.n_records, RECORDS, "records", _REMEDY)
    records = {}
    keys = []
    for record in _rows(content.records, content.n_records):
        scores = {}
        for metric, stored in record["per_task"].items():
            scores[metric] = _scores(stored, content.denominators)
        complete = _with_keys({**record, "per_task": scores})
        key = complete["key"]
        records[key] = complete
        keys.append(key)
    plan: dict[str, Any] = {}
    if content.plan is not None:
        n_cells = content.plan.n_cells
        allow(name, n_cells, RECORDS, "cells", _REMEDY)
        cells = []
        for entry in _rows(content.plan.cells, n_cells):
            key = entry["key"]
            if isinstance(key, int):
                key = keys[key]
            cells.append({**entry, "key": key})
        plan = {**content.plan.rest, "cells": cells}
    return Packed(records, plan, content.paired)


# ---------------------------------------------------------------------- run.json

#: Number of characters of the keys of jobs without a record in a compact plan.
SHORT_KEY = 12
#: Fields of ``run.json`` that can move to the file of records: its plan, the changes of
#: each interpretation, and properties of data sets and quantities.
PLAN_FIELDS = ("cells", "config", "datasets", "published", "quantities", "readings")


def is_without_plan(info: Mapping[str, Any]) -> bool:
    """Whether the plan of ``run.json`` has moved to the file of records."""
    return info.get("plan") == PACKED


def needed_plan(info: Mapping[str, Any], records: Collection[str]) -> dict[str, Any]:
    """Return the sealed content of ``run.json`` that a finished run still needs.

    The key of an earlier job explains why a job is computed again. It is removed if the
    job is computed, or if the earlier record does not exist. The keys of jobs without a
    record are shortened. The jobs of interpretations without any record are removed:
    they are planned again when they are requested.

    Parameters
    ----------
    info : mapping
        All fields of ``run.json``.
    records : collection of str
        Keys of the existing records.
    """
    all_entries = info["cells"]
    planned = [ResultKey.read(entry) for entry in all_entries]
    computed_interpretations = {""}
    for job in planned:
        if job.key in records:
            computed_interpretations.add(job.reading)
    cells = []
    for entry, job in zip(all_entries, planned, strict=True):
        if job.reading not in computed_interpretations:
            continue
        is_computed = job.key in records
        if not is_computed and entry.get("was") in records:
            cells.append(dict(entry))
            continue
        key = job.key if is_computed else job.key[:SHORT_KEY]
        rest = {name: value for name, value in entry.items() if name != "was"}
        cells.append({**rest, "key": key})
    rest = {name: value for name, value in info.items() if name != DIGEST}
    return sealed({**rest, "cells": cells})


# ---------------------------------------------------------------- record


def compact(
    record: Record, *, with_curves: bool = True, task_digits: int | None = None
) -> Record:
    """Return a record without the fields that neither reports nor `mtlrun verify` need.

    The search of a fit keeps the selected parameters, their score, the number of
    candidates and of fits, and (with curves) the best score at each value of a
    parameter. References to test scores are removed, because the file contains the
    results of the tests on them.

    Parameters
    ----------
    record : Record
    with_curves : bool, default True
    task_digits : int, optional
        Number of significant digits to which scores of single tasks are rounded.
        Seconds that no table shows are rounded, too. Default: keep all digits.
    """
    result = record.result.items()
    selection = replace(record.selection)
    seconds = replace(record.seconds)
    per_task = dict(record.per_task)
    if selection.is_search:
        selection = selection.compact(with_curves=with_curves)
    if task_digits is not None:
        if seconds.fit is not None:
            seconds.search = rounded(seconds.search, SECONDS_DIGITS)
            seconds.total = rounded(seconds.total, SECONDS_DIGITS)
        selection.seconds = rounded(selection.seconds, SECONDS_DIGITS)
        for metric, values in per_task.items():
            # Fractions take little space, and are stored exactly.
            if not _are_fractions(values):
                per_task[metric] = rounded(values, task_digits)
    return replace(
        record,
        result={name: value for name, value in result if name not in SCORE_FIELDS},
        selection=selection,
        seconds=seconds,
        per_task=per_task,
    )


def rounded(value: Any, digits: int) -> Any:
    """Round a float, or all floats in lists and dicts, to significant digits."""
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{digits}g}")
    if isinstance(value, list):
        return [rounded(item, digits) for item in value]
    if isinstance(value, dict):
        return {name: rounded(item, digits) for name, item in value.items()}
    return value


def stored_digits(values: Sequence[float | None]) -> int | None:
    """Return the significant digits to which scores were rounded; None for all."""
    for digits in TASK_DIGITS:
        if rounded(list(values), digits) == list(values):
            return digits
    return None


# ---------------------------------------------------------------------- scores of tasks
# The AUC of a task is a number of pairs divided by the number of all pairs, which is
# the same for all methods on a split. An accuracy is a number of rows divided by the
# number of all rows. As integers, such scores take a third of the space without loss.

MAX_DENOMINATOR = 1 << 26
MAX_COMMON_DENOMINATOR = 1 << 40


@lru_cache(maxsize=1 << 18)
def _fraction(value: float) -> Fraction | None:
    """Return the fraction that a number is, None if it is none of a moderate size."""
    nearest = Fraction(value).limit_denominator(MAX_DENOMINATOR)
    is_exact = nearest.numerator / nearest.denominator == value
    return nearest if is_exact and nearest.denominator < MAX_DENOMINATOR else None


def _are_fractions(values: Sequence[float | None]) -> bool:
    return all(
        value is None or (type(value) is float and _fraction(value) is not None)
        for value in values
    )


def _use_fractions(
    records: Sequence[Record],
) -> tuple[list[dict[str, Any]], list[list[int]]]:
    """Represent scores of tasks as fractions, where they are fractions.

    Returns
    -------
    all_scores : list of dict
        Scores of the tasks of each record by metric: a list of scores, or of their
        numerators and the position of their denominators.
    all_denominators : list of list of int
        Each list has one denominator per task. All methods on a split share it.
    """
    all_scores: list[dict[str, Any]] = []
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for record in records:
        inputs = read_fields(_FitInputs, record.inputs)
        split = plain_json([inputs.dataset, inputs.split])
        record_scores: dict[str, Any] = dict(record.per_task)
        all_scores.append(record_scores)
        for metric, values in record.per_task.items():
            if _are_fractions(values):
                group = (metric, split, len(values))
                groups.setdefault(group, []).append(record_scores)
    all_denominators: list[list[int]] = []
    for (metric, _, n_tasks), members in groups.items():
        denominators = [1] * n_tasks
        for scores in members:
            for task, value in enumerate(scores[metric]):
                if value is not None:
                    fraction = _fraction(value)
                    assert fraction is not None
                    denominator = math.lcm(denominators[task], fraction.denominator)
                    denominators[task] = denominator
        if max(denominators, default=1) > MAX_COMMON_DENOMINATOR:
            continue
        for scores in members:
            numerators: list[int | None] = []
            for value, denominator in zip(scores[metric], denominators, strict=True):
                if value is None:
                    numerators.append(None)
                else:
                    numerators.append(round(Fraction(value) * denominator))
            scores[metric] = {"of": len(all_denominators), "numerators": numerators}
        all_denominators.append(denominators)
    return all_scores, all_denominators


def _scores(stored: Any, denominators: Sequence[Sequence[int]]) -> list[float | None]:
    """Return the scores of tasks, the inverse of `_use_fractions`."""
    if not isinstance(stored, dict):
        return list(stored)
    scores: list[float | None] = []
    for numerator, denominator in zip(
        stored["numerators"], denominators[stored["of"]], strict=True
    ):
        if numerator is None:
            scores.append(None)
        else:
            scores.append(numerator / denominator)
    return scores


# ---------------------------------------------------------------- keys


@dataclass(frozen=True)
class _SearchInputs:
    """Search in the inputs of a job, see `mtlrun.engine.job.Search`.

    Attributes
    ----------
    method : dict or None
        None in the inputs of a fold.
    keys : list of str or None
        Keys of the folds; None if they follow from the other inputs.
    """

    metric: str
    on: str
    folds: int
    grid: dict[str, Any]
    method: dict[str, Any] | None = None
    keys: list[str] | None = None
    visited: int | None = None
    n_first: int | None = None
    survivors: list[int] | None = None


@dataclass(frozen=True)
class _FitInputs:
    """Inputs of a job, as far as packing uses them."""

    dataset: Any = None
    split: Any = None
    scoring: dict[str, Any] = field(default_factory=dict)
    search: _SearchInputs | None = None


def fold_keys(inputs: Mapping[str, Any], versions: Mapping[str, Any]) -> list[str]:
    """Return the keys of the folds of the search of a fit, computed from its inputs.

    They are correct if the versions of the search are the versions of the fit, which is
    usual. Compare them with the stored keys. `mtlrun.engine.job.Job.folds` defines
    them.
    """
    fit = read_fields(_FitInputs, inputs)
    search = fit.search
    assert search is not None
    scoring: dict[str, Any] = {"metrics": [search.metric]}
    average = fit.scoring.get("average")
    if average:
        scoring["average"] = average
    fold = {**inputs, "family": "fold", "method": search.method, "scoring": scoring}
    settings = dict(inputs["search"])
    for name in ("keys", "method"):
        settings.pop(name, None)
    if search.on == "halving":
        return [sha256_plain([{**fold, "search": settings, "fold": 0}, versions])]
    # A fold does not depend on the number of visited folds, and the first folds do not
    # depend on the survivors.
    for name in ("visited", "n_first", "survivors"):
        settings.pop(name, None)
    later = settings
    if search.survivors is not None:
        later = {**settings, "survivors": search.survivors}
    n_folds = search.folds if search.visited is None else search.visited
    n_first = n_folds if search.n_first is None else search.n_first
    keys = []
    for number in range(n_folds):
        fold_search = settings if number < n_first else later
        content = {**fold, "search": fold_search, "fold": number}
        keys.append(sha256_plain([content, versions]))
    return keys


def _without_keys(record: Record) -> dict[str, Any]:
    """Return the content of a record without the keys that `_with_keys` computes."""
    content = record.content()
    inputs = record.inputs
    selection = dict(content["selection"])
    seconds = dict(content["seconds"])
    search = read_fields(_FitInputs, inputs).search
    names: list[str] = []
    if search is not None:
        names = sorted(search.grid)
    if search is not None and search.keys and search.method is not None:
        if fold_keys(inputs, record.versions) == search.keys:
            settings = dict(inputs["search"])
            settings.pop("keys")
            inputs = {**inputs, "search": settings}
        if record.selection.key == search_key(search.keys):
            selection.pop("key")
            if plain_json(record.selection.grid) == plain_json(search.grid):
                selection.pop("grid")
    if record.selection.names == names:
        selection.pop("names")
    if record.seconds.fit_all == [record.seconds.fit]:
        seconds.pop("fit_all")
    short = {**content, "inputs": inputs, "selection": selection, "seconds": seconds}
    short.pop("key")
    if _with_keys(short) != content:
        return content
    return short


@dataclass(frozen=True)
class _KeyedParts:
    """Parts of a record that its keys follow from, or that contain keys."""

    inputs: dict[str, Any]
    versions: dict[str, Any]
    selection: dict[str, Any]
    seconds: Seconds


def _with_keys(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with its key and the keys of its search."""
    if "key" in record:
        return dict(record)
    parts = read_fields(_KeyedParts, record)
    inputs = parts.inputs
    selection = parts.selection
    seconds = parts.seconds
    search = read_fields(_FitInputs, inputs).search
    if search is not None and search.method is not None:
        keys = search.keys
        if keys is None:
            keys = fold_keys(inputs, parts.versions)
            inputs = {**inputs, "search": {**inputs["search"], "keys": keys}}
        if "n_candidates" in selection:
            selection.setdefault("key", search_key(keys))
            selection.setdefault("grid", search.grid)
            selection.setdefault("names", list(search.grid))
    if seconds.fit is not None and seconds.fit_all is None:
        seconds.fit_all = [seconds.fit]
    return {
        **record,
        "key": sha256_plain([inputs, parts.versions]),
        "inputs": inputs,
        "selection": selection,
        "seconds": stored_fields(seconds),
    }


# ---------------------------------------------------------------- columns


def _columns(values: Sequence[Any]) -> dict[str, Any]:
    """Return a column of values, the inverse of `_rows`.

    Returns
    -------
    dict
        ``values``, without absent ones; or ``fields``, a column for each key, if all
        values are objects. ``at`` has the positions of the values if some are absent.
    """
    positions = []
    present = []
    for position, value in enumerate(values):
        if value is not _ABSENT:
            positions.append(position)
            present.append(value)
    column: dict[str, Any] = {}
    if len(present) < len(values):
        column["at"] = positions
    if not present or set(map(type, present)) != {dict}:
        return {**column, "values": present}
    fields = {}
    for name in sorted(set().union(*present)):
        fields[name] = _columns([value.get(name, _ABSENT) for value in present])
    return {**column, "fields": fields}


def _rows(column: Mapping[str, Any], length: int) -> list[Any]:
    """Return the values of a column, the inverse of `_columns`."""
    positions = column.get("at", range(length))
    present: list[Any]
    if "fields" in column:
        present = [{} for _ in positions]
        for name, field_column in column["fields"].items():
            field_values = _rows(field_column, len(present))
            for value, field_value in zip(present, field_values, strict=True):
                if field_value is not _ABSENT:
                    value[name] = field_value
    else:
        present = column["values"]
    if len(present) != len(positions):
        raise ValueError("a column is too short")
    rows = [_ABSENT] * length
    for position, value in zip(positions, present, strict=True):
        rows[position] = value
    return rows
