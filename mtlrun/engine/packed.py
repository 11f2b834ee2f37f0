"""The records of a run in one small file beside its report, ``cells.json.xz``.

The file holds what reports and `mtlrun verify` need of a record, and nothing that
follows from the rest of it. The key of a record is the digest of its inputs and
versions, and so are the keys of the folds of its search, so none of them is stored
where computing it gives the same. Equal fields of all records stand together, as
columns, because that compresses several times better than records one after the other.

Standard library only.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import lzma
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from mtlrun.utils.io import (
    DIGEST,
    canonical_json,
    open_regular,
    sealed,
    sha256_json,
)
from mtlrun.utils.sizes import RECORD_BYTES, RECORD_TIMES, RECORDS, allow

#: The file, in the folder of a run.
PACKED = "cells.json.xz"
SCHEMA = 1
#: Significant digits to which `compact` may round scores of single tasks. All averages
#: keep their digits, and `mtlrun verify` compares as many digits as are stored.
TASK_DIGITS = (7, 9)
#: The same for seconds of which reports print a sum in two or three digits.
SECONDS_DIGITS = 5
ROUNDED_SECONDS = ("search", "total")
#: Parts of the result of a fit that are about its kept test scores.
SCORE_FIELDS = ("predictions", "predictions_sha256")

#: Limits of the dictionary of a compressed file: the least that the format allows, and
#: that of the highest preset.
MIN_DICTIONARY_BYTES = 4096
MAX_DICTIONARY_BYTES = 64 << 20
#: Memory that decompression may take: the largest dictionary, and room to spare.
DECODER_BYTES = 2 * MAX_DICTIONARY_BYTES

_REMEDY = "No run has so many: take the file from where it was made."
#: Stands for a field that a record lacks while columns are made.
_ABSENT = object()


@dataclass(frozen=True)
class Packed:
    """Content of a file of records.

    Attributes
    ----------
    records : dict of str to (dict or str)
        Records by key: their fields, or in the form of earlier versions a line.
    plan : dict
        Fields of ``run.json`` that were moved here, see `without_plan`.
    paired : list of dict
        Results of the paired tests on test scores that the claims of the run need. Each
        has the keys of both records, the options of the test and its result.
    """

    records: Mapping[str, dict[str, Any] | str] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    paired: list[dict[str, Any]] = field(default_factory=list)


# ---------------------------------------------------------------------- the file


def pack(
    records: Iterable[Mapping[str, Any]],
    *,
    plan: Mapping[str, Any] | None = None,
    paired: Iterable[Mapping[str, Any]] = (),
    with_curves: bool = True,
    task_digits: int | None = None,
) -> bytes:
    """Return the content of ``cells.json.xz``, the same bytes for the same records.

    Parameters
    ----------
    records : iterable of mapping
        Fields of records as JSON holds them, each key once. They are sorted here.
    plan : mapping, optional
        Fields of ``run.json`` that are kept here. ``cells`` is its plan.
    paired : iterable of mapping
        See `Packed`.
    with_curves : bool, default True
        Keep what figures of searches show; reports of sweeps have no such figures.
    task_digits : int, optional
        See `compact`.
    """
    compacted = [
        compact(record, with_curves=with_curves, task_digits=task_digits)
        for record in records
    ]
    compacted.sort(key=_likeness)
    places = {record["key"]: place for place, record in enumerate(compacted)}
    short = [_without_keys(record) for record in compacted]
    denominators = _use_fractions(short)
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "n_records": len(compacted),
        "denominators": denominators,
        "records": _columns(short),
    }
    if plan:
        entries = [
            {**entry, "key": places.get(entry["key"], entry["key"])}
            for entry in plan.get("cells") or ()
        ]
        rest = {name: value for name, value in plan.items() if name != "cells"}
        content["plan"] = {
            "n_cells": len(entries),
            "cells": _columns(entries),
            "rest": rest,
        }
    tests = sorted((dict(test) for test in paired), key=canonical_json)
    if tests:
        content["paired"] = tests
    # The order of keys is kept: grids are searched in the order of the file.
    text = json.dumps(
        content, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    ).encode()
    digest = hashlib.sha256(text).hexdigest()
    with_digest = f"{digest}\n".encode() + text
    # Compression takes ten times its dictionary, 670 MB by the preset alone. A dictionary
    # of the size of the content compresses as well.
    dictionary = min(max(len(with_digest), MIN_DICTIONARY_BYTES), MAX_DICTIONARY_BYTES)
    compressor: dict[str, int] = {
        "id": lzma.FILTER_LZMA2,
        "preset": 9 | lzma.PRESET_EXTREME,
        "dict_size": dictionary,
    }
    return lzma.compress(with_digest, filters=[compressor])


def unpack(path: Path) -> Packed:
    """Read ``cells.json.xz``; without a file there are no records.

    Raises
    ------
    ValueError
        If it is damaged, or not such a file.
    """
    try:
        size = path.stat().st_size
        max_bytes = max(RECORD_BYTES, RECORD_TIMES * size)
        with open_regular(path) as file:
            compressed = file.read()
        # A damaged header may ask for any amount of memory: the limit makes it an error.
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


def _likeness(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return what records are sorted by: similar ones compress best side by side."""
    inputs = record["inputs"]
    parts = [inputs.get(name) for name in ("dataset", "method", "search", "split")]
    return canonical_json(parts), record["key"]


# ---------------------------------------------------------------------- run.json

#: Characters of a key that a compact plan keeps of a job that was never computed.
SHORT_KEY = 12
#: Fields of ``run.json`` that the file of records can keep in its place: its plan, what
#: each interpretation changes, and facts about data and quantities.
PLAN_FIELDS = ("cells", "config", "datasets", "published", "quantities", "readings")


def without_plan(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``run.json`` without the fields that the file of records keeps.

    Its digest stays that of all fields.
    """
    rest = {name: value for name, value in info.items() if name not in PLAN_FIELDS}
    return {**rest, "plan": PACKED}


def is_without_plan(info: Mapping[str, Any]) -> bool:
    """Whether ``run.json`` says that its plan lies with the records."""
    return info.get("plan") == PACKED


def with_plan(info: Mapping[str, Any], packed: Packed) -> dict[str, Any]:
    """Return ``run.json`` with the fields that the file of records keeps, if it does."""
    if not is_without_plan(info) or not packed.plan:
        return dict(info)
    rest = {name: value for name, value in info.items() if name != "plan"}
    return {**rest, **packed.plan}


def needed_plan(info: Mapping[str, Any], records: Collection[str]) -> dict[str, Any]:
    """Return the content of ``run.json`` that a finished run still needs, sealed.

    The keys of earlier jobs go, the keys of jobs that were never computed become short,
    and interpretations of which no job was computed lose their jobs: all of them are
    planned anew when somebody asks for them.

    Parameters
    ----------
    info : mapping
        All fields of ``run.json``.
    records : collection of str
        Keys of the records that there are.
    """
    has_records: dict[str, bool] = {}
    for entry in info["cells"]:
        name = entry.get("reading") or ""
        has_records[name] = has_records.get(name, False) or entry["key"] in records
    cells = [
        without_past(entry, records)
        for entry in info["cells"]
        if not entry.get("reading") or has_records[entry["reading"]]
    ]
    rest = {name: value for name, value in info.items() if name != DIGEST}
    return sealed({**rest, "cells": cells})


def without_past(entry: Mapping[str, Any], records: Collection[str]) -> dict[str, Any]:
    """Return an entry of a plan without the key that stood in its place before.

    That key says why a job is computed again, which nobody asks once it is computed or
    the earlier record is gone. The key of a job without a record becomes short.

    Parameters
    ----------
    entry : mapping
    records : collection of str
        Keys of the records that there are.
    """
    is_computed = entry["key"] in records
    if not is_computed and entry.get("was") in records:
        return dict(entry)
    key = entry["key"] if is_computed else entry["key"][:SHORT_KEY]
    rest = {name: value for name, value in entry.items() if name != "was"}
    return {**rest, "key": key}


# ---------------------------------------------------------------------- one record


def compact(
    record: Mapping[str, Any],
    *,
    with_curves: bool = True,
    task_digits: int | None = None,
) -> dict[str, Any]:
    """Return a record without what neither reports nor `mtlrun verify` need.

    Of the search of a finished fit there remain the chosen parameters, their score, the
    number of candidates and of fits, and with curves the best score at every value of a
    parameter. Kept test scores are left out: the file has the tests on them.

    Parameters
    ----------
    record : mapping
        Fields of a record.
    with_curves : bool, default True
    task_digits : int, optional
        Round the scores of single tasks to as many significant digits, and seconds that
        no table shows. Default: keep all digits.
    """
    result = dict(record)
    result["result"] = {
        name: value
        for name, value in record["result"].items()
        if name not in SCORE_FIELDS
    }
    if is_search(record["selection"]):
        selection = _compact_search(record["selection"])
        if not with_curves:
            selection.pop("best", None)
        result["selection"] = selection
    return result if task_digits is None else _shortened(result, task_digits)


def _shortened(record: dict[str, Any], task_digits: int) -> dict[str, Any]:
    """Return a record with rounded scores of single tasks, and seconds that no table shows."""
    seconds = dict(record["seconds"])
    for name in ROUNDED_SECONDS if "fit" in seconds else ():
        if name in seconds:
            seconds[name] = rounded(seconds[name], SECONDS_DIGITS)
    selection = dict(record["selection"])
    if "seconds" in selection:
        selection["seconds"] = rounded(selection["seconds"], SECONDS_DIGITS)
    per_task = {
        metric: values if _are_fractions(values) else rounded(values, task_digits)
        for metric, values in record["per_task"].items()
    }
    return {**record, "seconds": seconds, "selection": selection, "per_task": per_task}


def is_search(selection: Mapping[str, Any]) -> bool:
    """Whether the selection of a record is that of a fit which chose parameters."""
    has_scores = bool(selection.get("means")) or "n_candidates" in selection
    return bool(selection.get("key")) and has_scores


def n_candidates(selection: Mapping[str, Any]) -> int:
    """Return the number of candidates of a search."""
    stored = selection.get("n_candidates")
    return len(selection["means"]) if stored is None else int(stored)


def n_fits(selection: Mapping[str, Any]) -> int:
    """Return the number of fits of a search."""
    stored = selection.get("n_fits")
    if stored is not None:
        return int(stored)
    return sum(max(1, len(scores)) for scores in selection.get("scores") or ())


def _compact_search(selection: Mapping[str, Any]) -> dict[str, Any]:
    if "means" not in selection:
        return dict(selection)
    fields = ("key", "chosen", "score", "metric", "edges", "grid", "names", "seconds")
    kept = {name: selection[name] for name in fields if name in selection}
    return {
        **kept,
        "n_candidates": n_candidates(selection),
        "n_fits": n_fits(selection),
        "best": {name: best_by_value(selection, name) for name in selection["grid"]},
    }


def best_by_value(selection: Mapping[str, Any], name: str) -> list[float | None]:
    """Return the best score of a search at every value of one of its parameters.

    Parameters
    ----------
    selection : mapping
        Of a fit.
    name : str
        Parameter of its grid.

    Returns
    -------
    list
        In the order of the values; None where no candidate has a score.
    """
    grid = selection["grid"]
    if "means" not in selection:
        stored = selection.get("best") or {}
        return list(stored.get(name) or [None] * len(grid[name]))
    means = selection["means"]
    names = list(selection.get("names") or grid)
    values = [range(len(grid[one])) for one in names]
    position = names.index(name)
    defined = [mean for mean in means if mean is not None]
    is_lower_better = bool(defined) and selection.get("score") == min(defined)
    better = min if is_lower_better else max
    scores: list[list[float]] = [[] for _ in grid[name]]
    for places, mean in zip(itertools.product(*values), means, strict=True):
        if mean is not None:
            scores[places[position]].append(mean)
    return [better(some) if some else None for some in scores]


def name_candidates(selections: Iterable[dict[str, Any]]) -> None:
    """Note the order of parameters in which the candidates of searches are listed.

    The names of a stored grid are sorted, but candidates stand in the order of the
    experiment. Records made before 0.3 do not say which it was. It is found as the
    order in which the best candidate of every search is the chosen one.

    Parameters
    ----------
    selections : iterable of dict
        Searches of the fits of one run. Those without ``names`` get them.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for selection in selections:
        if "means" in selection and "names" not in selection:
            groups.setdefault(canonical_json(selection["grid"]), []).append(selection)
    for group in groups.values():
        names = list(group[0]["grid"])
        for order in itertools.permutations(names):
            if all(_is_order(order, selection) for selection in group):
                names = list(order)
                break
        for selection in group:
            selection["names"] = names


def _is_order(names: Sequence[str], selection: Mapping[str, Any]) -> bool:
    """Whether the first candidate with the best score is the chosen one in an order."""
    score = selection.get("score")
    if score is None or selection.get("chosen") is None:
        return True
    place = selection["means"].index(score)
    for name in reversed(names):
        values = selection["grid"][name]
        place, position = divmod(place, len(values))
        if selection["chosen"].get(name) != values[position]:
            return False
    return True


def rounded(value: Any, digits: int) -> Any:
    """Return a value with its floats rounded to significant digits, nested ones included."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else value
    if isinstance(value, list):
        return [rounded(one, digits) for one in value]
    if isinstance(value, dict):
        return {name: rounded(one, digits) for name, one in value.items()}
    return value


def stored_digits(values: Sequence[float | None]) -> int | None:
    """Return the digits to which scores of single tasks were rounded, None for all."""
    for digits in TASK_DIGITS:
        if rounded(list(values), digits) == list(values):
            return digits
    return None


# ---------------------------------------------------------------------- scores of tasks
# The AUC of a task is a number of pairs divided by the number of all pairs, which is the
# same for all methods on one split, and an accuracy is a number of rows divided by all.
# Such numbers take a third of the space as integers, and lose nothing.

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
    """Write the scores of tasks as fractions where they are; return the denominators.

    Parameters
    ----------
    records : sequence of dict
        Changed in place: a list of scores becomes the place of its denominators, one
        per task, and the numerators. All methods on a split share the denominators.
    """
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for record in records:
        inputs = record["inputs"]
        split = canonical_json([inputs.get("dataset"), inputs.get("split")])
        record["per_task"] = dict(record["per_task"])
        for metric, values in record["per_task"].items():
            if isinstance(values, list) and _are_fractions(values):
                group = (metric, split, len(values))
                groups.setdefault(group, []).append(record["per_task"])
    found: list[list[int]] = []
    for (metric, _, n_tasks), members in groups.items():
        common = [1] * n_tasks
        for scores in members:
            for task, value in enumerate(scores[metric]):
                if value is not None:
                    fraction = _fraction(value)
                    assert fraction is not None
                    common[task] = math.lcm(common[task], fraction.denominator)
        if max(common, default=1) > MAX_COMMON_DENOMINATOR:
            continue
        for scores in members:
            scores[metric] = {
                "of": len(found),
                "numerators": [
                    None if value is None else round(Fraction(value) * total)
                    for value, total in zip(scores[metric], common, strict=True)
                ],
            }
        found.append(common)
    return found


def _scores(stored: Any, denominators: Sequence[Sequence[int]]) -> list[float | None]:
    """Return the scores of tasks that `_use_fractions` was given."""
    if not isinstance(stored, dict):
        return list(stored)
    common = denominators[stored["of"]]
    return [
        None if numerator is None else numerator / total
        for numerator, total in zip(stored["numerators"], common, strict=True)
    ]


# ---------------------------------------------------------------------- keys


def fold_keys(inputs: Mapping[str, Any], versions: Mapping[str, Any]) -> list[str]:
    """Return the keys of the folds of the search of a fit, computed from its inputs.

    They are right where what the search fits has the versions of the fit, which is the
    rule; compare them with the stored ones. `mtlrun.engine.job.Job.folds` makes them.
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
        return [sha256_json([{**content, "fold": 0}, versions])]
    # A fold does not depend on how many others are visited, nor a first one on the
    # candidates that are scored later.
    n_folds = inner.pop("visited", search["folds"])
    n_first = inner.pop("n_first", n_folds)
    survivors = inner.pop("survivors", None)
    later = inner if survivors is None else {**inner, "survivors": survivors}
    contents = [
        {**content, "search": inner if k < n_first else later, "fold": k}
        for k in range(n_folds)
    ]
    return [sha256_json([fold, versions]) for fold in contents]


def search_key(folds: Iterable[str]) -> str:
    """Return the key of a search from those of its folds."""
    return hashlib.sha256("".join(folds).encode()).hexdigest()


def _without_keys(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without the keys that `_with_keys` computes again."""
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
            if canonical_json(selection.get("grid")) == canonical_json(search["grid"]):
                del selection["grid"]
    if selection.get("names") == list(search["grid"] if search else ()):
        del selection["names"]
    short["selection"] = selection
    seconds = dict(record["seconds"])
    if _is_single_fit(seconds):
        del seconds["fit_all"]
    short["seconds"] = seconds
    if _with_keys(short) != record:
        return dict(record)
    return short


def _is_single_fit(seconds: Mapping[str, Any]) -> bool:
    return "fit" in seconds and seconds.get("fit_all") == [seconds["fit"]]


def _with_keys(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with its key and those of its search."""
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
    complete["key"] = sha256_json([inputs, record["versions"]])
    return complete


# ---------------------------------------------------------------------- columns


def _columns(values: Sequence[Any]) -> dict[str, Any]:
    """Return values as columns, from which `_rows` makes them again.

    A column has the ``values`` that are there, or if all of them are objects their
    ``fields`` as columns; ``at`` are their positions where some are absent.
    """
    places = [place for place, value in enumerate(values) if value is not _ABSENT]
    present = [values[place] for place in places]
    column: dict[str, Any] = {}
    if len(present) < len(values):
        column["at"] = places
    if present and all(type(value) is dict for value in present):
        names = sorted({name for value in present for name in value})
        column["fields"] = {
            name: _columns([value.get(name, _ABSENT) for value in present])
            for name in names
        }
    else:
        column["values"] = present
    return column


def _rows(column: Mapping[str, Any], length: int) -> list[Any]:
    """Return the values that `_columns` was given."""
    places = column.get("at", range(length))
    present: list[Any]
    if "fields" in column:
        present = [{} for _ in places]
        for name, part in column["fields"].items():
            for value, cell in zip(present, _rows(part, len(present)), strict=True):
                if cell is not _ABSENT:
                    value[name] = cell
    else:
        present = column["values"]
    if len(present) != len(places):
        raise ValueError("a column is too short")
    rows = [_ABSENT] * length
    for place, value in zip(places, present, strict=True):
        rows[place] = value
    return rows
