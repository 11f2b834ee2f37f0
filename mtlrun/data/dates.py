"""Dates in tables: one format for a whole column, or none."""

from __future__ import annotations

import datetime as dt
import itertools
import re
import warnings

import pandas as pd
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

from mtlrun.errors import DataError, listed

#: Days, months and years as numbers, and the orders in which they are read; a time may follow.
_PARTS = re.compile(
    r"\d{1,4}([-/. ]+)\d{1,2}\1\d{1,4}(?:(?P<blank>[ T,]+)(?P<time>\d{1,2}:\d{2}(?::\d{2})?(?P<part>\.\d+)?))?"
)
_ORDERS = ("dmy", "mdy", "ymd")
_REMEDY = "Write dates as 2023-12-31, all in one way, or choose another column."


def instants(column: pd.Series, table: str) -> pd.Series:
    """Return a column of numbers or dates as something that can be ranked, NaN or NaT where a cell is neither.

    Texts are dates in ISO order, or in the one order of day, month and year that fits the whole column.

    Raises
    ------
    DataError
        If more than one order fits and they rank the rows differently, or the column mixes dates with texts.
    """
    if is_numeric_dtype(column) or is_datetime64_any_dtype(column):
        return column
    texts = column.astype(object).where(column.notna(), None)
    kinds = {isinstance(cell, dt.date) for cell in texts.dropna().unique()}
    if len(kinds) > 1:
        text = f"{table}: the column {column.name!r} mixes dates and texts"
        raise DataError(text, _REMEDY)
    readings = _readings(texts)
    if not readings:
        return pd.to_datetime(texts, errors="coerce", format="ISO8601", utc=True)
    ranks = [found.rank(method="dense") for found in readings.values()]
    if any(not rank.equals(ranks[0]) for rank in ranks[1:]):
        example = texts.dropna().iloc[0]
        ways = listed(list(readings))
        text = f"{table}: the dates of column {column.name!r}, such as {example!r}, may be read as {ways}"
        raise DataError(text, _REMEDY)
    return next(iter(readings.values()))


def spoken_dates(column: pd.Series) -> bool:
    """Whether all texts of a column are dates, in whatever order."""
    return bool(_readings(column.dropna().astype(object)))


def _readings(texts: pd.Series) -> dict[str, pd.Series]:
    """Return the ways to read all texts as dates, by what they are called."""
    given = texts.dropna()
    unique = pd.Series(given.astype(str).str.strip().unique(), dtype=object)
    if unique.empty:
        return {}
    found = {}
    if (iso := _read(unique, "ISO8601")) is not None:
        found["ISO"] = iso
    elif (match := _PARTS.fullmatch(unique[0])) and all(map(_PARTS.fullmatch, unique)):
        for order, wide in itertools.product(_ORDERS, "yY"):
            if (read := _read(unique, _format(order, wide, match))) is not None:
                found[f"{order} with years of {4 if wide == 'Y' else 2} digits"] = read
    else:
        either = [_read(unique, "mixed", dayfirst=first) for first in (False, True)]
        if either[0] is not None and either[1] is not None and either[0].equals(either[1]):
            found["words"] = either[0]
    place = {name: pd.Series(read.to_numpy(), index=unique) for name, read in found.items()}
    return {name: texts.astype(str).str.strip().where(texts.notna()).map(values) for name, values in place.items()}


def _format(order: str, wide: str, match: re.Match[str]) -> str:
    date = match[1].join(f"%{part if part != 'y' else wide}" for part in order)
    if match["time"] is None:
        return date
    seconds = ":%S" * (match["time"].count(":") - 1)
    return f"{date}{match['blank']}%H:%M{seconds}" + ".%f" * (match["part"] is not None)


def _read(texts: pd.Series, form: str, **options: bool) -> pd.Series | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return pd.to_datetime(texts, format=form, utc=True, **options).dt.tz_localize(None)
        except (ValueError, OverflowError):
            return None
