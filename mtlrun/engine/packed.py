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

from mtlrun.engine.record import Record
from mtlrun.utils.io import (
    DIGEST,
    open_regular,
    plain_json,
    sealed,
    sha256_plain,
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
        Fields of ``run.json`` that were moved to this file, see `without_plan`.
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
    # Similar records follow each other, to compress well.
    compacted.sort(key=_sort_key)
    short = [_without_keys(record.content()) for record in compacted]
    denominators = _use_fractions(short)
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "n_records": len(compacted),
        "denominators": denominators,
        "records": _columns(short),
    }
    if plan:
        content["plan"] = _pack_plan(plan, [record.key for record in compacted])
    tests = sorted(map(dict, paired), key=plain_json)
    if tests:
        content["paired"] = tests
    # Keys are not sorted, because the order of a grid is the order of its search.
    text = json.dumps(
        content, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    ).encode()
    digest = hashlib.sha256(text).hexdigest()
    return _compress(f"{digest}\n".encode() + text)


def _pack_plan(plan: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return a plan whose cells are columns, with positions of records as keys.

    Parameters
    ----------
    plan : mapping
    keys : sequence of str
        Keys of the packed records, in their order.
    """
    positions = {key: position for position, key in enumerate(keys)}
    entries = []
    for entry in plan.get("cells") or ():
        key = entry["key"]
        entries.append({**entry, "key": positions.get(key, key)})
    rest = {name: value for name, value in plan.items() if name != "cells"}
    return {"n_cells": len(entries), "cells": _columns(entries), "rest": rest}


def _compress(content: bytes) -> bytes:
    # Compression needs ten times the memory of its dictionary: 670 MB with the
    # dictionary of the preset. A dictionary of the size of the content compresses
    # equally well.
    dictionary = min(max(len(content), MIN_DICTIONARY_BYTES), MAX_DICTIONARY_BYTES)
    compressor: dict[str, int] = {
        "id": lzma.FILTER_LZMA2,
        "preset": 9 | lzma.PRESET_EXTREME,
        "dict_size": dictionary,
    }
    return lzma.compress(content, filters=[compressor])


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
        return _unpacked(path.name, json.loads(text))
    except (FileNotFoundError, NotADirectoryError):
        return Packed()
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


def _unpacked(name: str, content: Mapping[str, Any]) -> Packed:
    allow(name, content["n_records"], RECORDS, "records", _REMEDY)
    records = {}
    keys = []
    for record in _rows(content["records"], content["n_records"]):
        record["per_task"] = {
            metric: _scores(stored, content["denominators"])
            for metric, stored in record["per_task"].items()
        }
        complete = _with_keys(record)
        records[complete["key"]] = complete
        keys.append(complete["key"])
    plan: dict[str, Any] = {}
    if "plan" in content:
        stored = content["plan"]
        allow(name, stored["n_cells"], RECORDS, "cells", _REMEDY)
        cells = _rows(stored["cells"], stored["n_cells"])
        for entry in cells:
            if isinstance(entry["key"], int):
                entry["key"] = keys[entry["key"]]
        plan = {**stored["rest"], "cells": cells}
    return Packed(records, plan, list(content.get("paired") or ()))


def _sort_key(record: Record) -> tuple[str, str]:
    """Return a key by which similar records follow each other, to compress well."""
    names = ("dataset", "method", "search", "split")
    parts = [record.inputs.get(name) for name in names]
    return plain_json(parts), record.key


# ---------------------------------------------------------------------- run.json

#: Number of characters of the keys of jobs without a record in a compact plan.
SHORT_KEY = 12
#: Fields of ``run.json`` that can move to the file of records: its plan, the changes of
#: each interpretation, and properties of data sets and quantities.
PLAN_FIELDS = ("cells", "config", "datasets", "published", "quantities", "readings")


def without_plan(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of ``run.json`` without the fields that have moved.

    The digest in it remains the digest of all fields.
    """
    rest = {name: value for name, value in info.items() if name not in PLAN_FIELDS}
    return {**rest, "plan": PACKED}


def is_without_plan(info: Mapping[str, Any]) -> bool:
    """Whether the plan of ``run.json`` has moved to the file of records."""
    return info.get("plan") == PACKED


def with_plan(info: Mapping[str, Any], packed: Packed) -> dict[str, Any]:
    """Return the content of ``run.json`` with the fields that have moved, if any."""
    if not is_without_plan(info) or not packed.plan:
        return dict(info)
    rest = {name: value for name, value in info.items() if name != "plan"}
    return {**rest, **packed.plan}


def needed_plan(info: Mapping[str, Any], records: Collection[str]) -> dict[str, Any]:
    """Return the sealed content of ``run.json`` that a finished run still needs.

    The keys of earlier jobs are removed, the keys of jobs without a record are
    shortened, and the jobs of interpretations without any record are removed. They are
    planned again when they are requested.

    Parameters
    ----------
    info : mapping
        All fields of ``run.json``.
    records : collection of str
        Keys of the existing records.
    """
    computed_interpretations = {""}
    for entry in info["cells"]:
        if entry["key"] in records:
            computed_interpretations.add(entry.get("reading") or "")
    cells = []
    for entry in info["cells"]:
        if (entry.get("reading") or "") in computed_interpretations:
            cells.append(without_past(entry, records))
    rest = {name: value for name, value in info.items() if name != DIGEST}
    return sealed({**rest, "cells": cells})


def without_past(entry: Mapping[str, Any], records: Collection[str]) -> dict[str, Any]:
    """Return an entry of a plan without the key of the earlier job.

    That key explains why a job is computed again. It is not needed once the job is
    computed, or if the earlier record does not exist. The key of a job without a record
    is shortened.

    Parameters
    ----------
    entry : mapping
    records : collection of str
        Keys of the existing records.
    """
    is_computed = entry["key"] in records
    if not is_computed and entry.get("was") in records:
        return dict(entry)
    key = entry["key"] if is_computed else entry["key"][:SHORT_KEY]
    rest = {name: value for name, value in entry.items() if name != "was"}
    return {**rest, "key": key}


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


def _use_fractions(records: Sequence[dict[str, Any]]) -> list[list[int]]:
    """Replace scores of tasks that are fractions; return the denominators.

    Parameters
    ----------
    records : sequence of dict
        Changed in place. A list of scores becomes a list of numerators, with the
        position of its denominators in the result.

    Returns
    -------
    list of list of int
        Each list has one denominator per task. All methods on a split share it.
    """
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for record in records:
        inputs = record["inputs"]
        split = plain_json([inputs.get("dataset"), inputs.get("split")])
        record["per_task"] = dict(record["per_task"])
        for metric, values in record["per_task"].items():
            if isinstance(values, list) and _are_fractions(values):
                group = (metric, split, len(values))
                groups.setdefault(group, []).append(record["per_task"])
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
            scores[metric] = {
                "of": len(all_denominators),
                "numerators": _numerators(scores[metric], denominators),
            }
        all_denominators.append(denominators)
    return all_denominators


def _numerators(
    scores: Sequence[float | None], denominators: Sequence[int]
) -> list[int | None]:
    numerators: list[int | None] = []
    for value, denominator in zip(scores, denominators, strict=True):
        if value is None:
            numerators.append(None)
        else:
            numerators.append(round(Fraction(value) * denominator))
    return numerators


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


def fold_keys(inputs: Mapping[str, Any], versions: Mapping[str, Any]) -> list[str]:
    """Return the keys of the folds of the search of a fit, computed from its inputs.

    They are correct if the versions of the search are the versions of the fit, which is
    usual. Compare them with the stored keys. `mtlrun.engine.job.Job.folds` defines
    them.
    """
    search = inputs["search"]
    scoring: dict[str, Any] = {"metrics": [search["metric"]]}
    average = inputs.get("scoring", {}).get("average")
    if average:
        scoring["average"] = average
    inner = {
        name: value for name, value in search.items() if name not in ("keys", "method")
    }
    content = {
        **inputs,
        "family": "fold",
        "method": search["method"],
        "scoring": scoring,
        "search": inner,
    }
    if search["on"] == "halving":
        return [sha256_plain([{**content, "fold": 0}, versions])]
    # A fold does not depend on the number of visited folds, and the first folds do not
    # depend on the survivors.
    n_folds = inner.pop("visited", search["folds"])
    n_first = inner.pop("n_first", n_folds)
    survivors = inner.pop("survivors", None)
    later = dict(inner)
    if survivors is not None:
        later["survivors"] = survivors
    keys = []
    for number in range(n_folds):
        fold_search = inner if number < n_first else later
        fold = {**content, "search": fold_search, "fold": number}
        keys.append(sha256_plain([fold, versions]))
    return keys


def search_key(folds: Iterable[str]) -> str:
    """Return the key of a search, given the keys of its folds."""
    return hashlib.sha256("".join(folds).encode()).hexdigest()


def _without_keys(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without the keys that `_with_keys` computes."""
    short = {name: value for name, value in record.items() if name != "key"}
    inputs = record["inputs"]
    selection = dict(record["selection"])
    search = inputs.get("search") if isinstance(inputs, dict) else None
    if search and search.get("keys") and "method" in search:
        if fold_keys(inputs, record["versions"]) == search["keys"]:
            rest = {name: value for name, value in search.items() if name != "keys"}
            short["inputs"] = {**inputs, "search": rest}
        if selection.get("key") == search_key(search["keys"]):
            del selection["key"]
            if plain_json(selection.get("grid")) == plain_json(search["grid"]):
                del selection["grid"]
    grid = search["grid"] if search else {}
    if selection.get("names") == list(grid):
        del selection["names"]
    short["selection"] = selection
    seconds = dict(record["seconds"])
    if "fit" in seconds and seconds.get("fit_all") == [seconds["fit"]]:
        del seconds["fit_all"]
    short["seconds"] = seconds
    if _with_keys(short) != record:
        return dict(record)
    return short


def _with_keys(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with its key and the keys of its search."""
    complete = dict(record)
    if "key" in record:
        return complete
    inputs = record["inputs"]
    search = inputs.get("search")
    if search and "method" in search:
        if "keys" not in search:
            keys = fold_keys(inputs, record["versions"])
            inputs = {**inputs, "search": {**search, "keys": keys}}
            complete["inputs"] = inputs
        selection = dict(record["selection"])
        if "n_candidates" in selection:
            selection.setdefault("key", search_key(inputs["search"]["keys"]))
            selection.setdefault("grid", search["grid"])
            selection.setdefault("names", list(search["grid"]))
        complete["selection"] = selection
    seconds = record["seconds"]
    if "fit" in seconds and "fit_all" not in seconds:
        complete["seconds"] = {**seconds, "fit_all": [seconds["fit"]]}
    complete["key"] = sha256_plain([inputs, record["versions"]])
    return complete


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
    if not present or not all(type(value) is dict for value in present):
        column["values"] = present
        return column
    fields = {}
    for name in sorted(set().union(*present)):
        fields[name] = _columns([value.get(name, _ABSENT) for value in present])
    column["fields"] = fields
    return column


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
