"""How the cells of a column of times are read.

Times are numbers, or dates, which are counted in days since 1970. Texts of dates have
several interpretations: the order of day and month, the century of a year with two
digits, the time zone. One interpretation is inferred from the training rows and stored
with the model. New rows are read by it, or refused.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pandas as pd
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

from mtlrun.errors import DataError, listed, shorten

if TYPE_CHECKING:
    from mtlrun.data.reading.table import Table

Array = np.ndarray

#: Kinds of times.
NUMBER: Final = "number"
DATE: Final = "date"
#: Kind of cells that are numbers or dates only if their text is one.
_TEXT = "text"

_UTC: Final = "UTC"
_DATES = "datetime64[us]"
_MICROSECONDS_PER_SECOND = 1_000_000
_SECONDS_PER_DAY = 86400.0

#: Format of dates that are whole numbers: 20200131.
DIGITS = "%Y%m%d"
#: Other formats in which whole numbers may be dates, and their number of digits. A
#: leading zero gets lost where the year comes last.
_OTHER_DIGITS = {
    "%d%m%Y": 8,
    "%m%d%Y": 8,
    "%Y%m": 6,
    "%y%m%d": 6,
    "%d%m%y": 6,
    "%m%d%y": 6,
    "%Y%m%d%H%M": 12,
    "%Y%m%d%H%M%S": 14,
}
#: Years of dates that are whole numbers. Other numbers are dates by chance.
_MIN_YEAR = 1800
_MAX_YEAR = 2200
#: Years of two digits that are further apart may belong to several centuries.
_MAX_YEARS = 33

#: Formats with one interpretation, once the separators are blanks: the year has four
#: digits, and stands first or next to the month.
_CLEAR_FORMATS = (
    *("%Y %m %d", "%Y %m", "%m %Y"),
    *("%d %b %Y", "%d %B %Y", "%b %d %Y", "%B %d %Y", "%Y %b %d", "%Y %B %d"),
    *("%b %Y", "%B %Y", "%d%b%Y"),
)
#: Formats that only the other rows of the column tell apart.
_ORDERS = (
    *("%d-%m-%Y", "%m-%d-%Y", "%d-%m-%y", "%m-%d-%y", "%y-%m-%d"),
    *("%d-%b-%y", "%d-%B-%y"),
)
_FORMATS = tuple(
    order.replace("-", separator) for separator in "-/. " for order in _ORDERS
)
#: Dates and times of day without a time zone.
_ISO = re.compile(
    r"\d{4}-\d{2}-\d{2}([T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?)?"
)
#: No date has fewer digits: 1-Jan-21.
_MIN_DIGITS = 3
_SEPARATORS = re.compile(r"\s*([-/.])\s*|\s+")
_QUARTER = re.compile(r"(\d{4})[- ]?Q([1-4])", re.IGNORECASE)
#: A date, the time of day and the time zone.
_PARTS = re.compile(
    r"^(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,? +)?"
    r"(?P<date>.+?)"
    r"(?:[T, ]+(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)"
    r"(?::(?P<second>[0-5]\d(?:\.\d+)?))?"
    r"(?: ?(?P<half>[ap])\.?m\.?)?"
    r"(?: ?(?P<zone>z|utc|gmt|(?P<sign>[-+])(?P<hours>\d{2})(?::?(?P<minutes>\d{2}))?))?"
    r")?$",
    re.IGNORECASE,
)

_WRITE_DATES = "Write dates as 2023-12-31, all in one way, or choose another column."
_WRITE_TIMES = "Write numbers, or dates such as 2023-12-31, or choose another column."
_AS_IN_TRAINING = "Write the times as in the training rows."


@dataclass(frozen=True)
class TimeSchema:
    """How the cells of a column of times are read.

    Dates with the year in front, or with the name of the month and a year of four
    digits, have one interpretation. Cells of the type of a date have one, too. The
    attributes say how other cells are read.

    Attributes
    ----------
    kind : {"number", "date"}
    formats : tuple of str
        Formats of dates, as of `strptime`. ``%Y%m%d`` stands for whole numbers such as
        20200131. More than one, or any for numbers: interpretations that all rank the
        training rows alike.
    first_year : int or None
        First of the 100 years to which years of two digits belong.
    zone : {"UTC"} or None
        Whether dates have a time zone. Then they are counted in UTC.
    is_assumed : bool
        Whether the model is of an earlier version, which stored no schema.
    """

    kind: Literal["number", "date"]
    formats: tuple[str, ...] = ()
    first_year: int | None = None
    zone: Literal["UTC"] | None = None
    is_assumed: bool = False

    @classmethod
    def of(cls, column: pd.Series, table: Table) -> TimeSchema:
        """Infer the schema of the training rows.

        Parameters
        ----------
        column : Series
            The first rows of a column of the table.
        table : Table
            For messages.

        Raises
        ------
        DataError
            If a cell is neither a number nor a date; if the column mixes several ways
            to write times; if dates have several interpretations that rank the rows
            differently.
        """
        name = column.name
        cells = _Cells.of(column)
        cells.refuse_mixture(table, name)
        schemas = _interpretations(cells)
        if not schemas:
            raise _unreadable(cells, table, name)
        schema = schemas[0]
        if len(schemas) > 1:
            schema = _only_ranked(schemas, cells, table, name)
        elif any("%y" in form for form in schema.formats):
            (form,) = schema.formats
            parts = _TextParts.of(cells.values)
            first_year = _first_year(_two_digit_years(parts.dates, form))
            if first_year is None:
                raise DataError(
                    f"{table.name}: the years of column {name!r} have two digits, such "
                    f"as {cells.values.iloc[0]!r}, and fit more than one century",
                    "Write dates as 2023-12-31, with years of four digits.",
                )
            schema = replace(schema, first_year=first_year)
        return schema

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain data, as ``model.json`` holds it."""
        # Numbers are counted in their own unit.
        unit = None if self.kind == NUMBER else "day"
        return {
            "kind": self.kind,
            "formats": list(self.formats),
            "first_year": self.first_year,
            "zone": self.zone,
            "unit": unit,
        }

    def refuse_unknown_formats(self) -> None:
        """Refuse formats of dates that this version does not read.

        Raises
        ------
        DataError
        """
        unreadable = set(self.formats) - {DIGITS, *_FORMATS}
        if unreadable:
            raise DataError(
                f"the model reads dates in a format that this version does not have: "
                f"{listed(sorted(unreadable))}",
                "Install the version that saved the model, or train it again.",
            )

    def describe(self, column: str) -> list[str]:
        """Return a sentence about dates that could have been read in another way."""
        if self.is_assumed:
            written = "numbers"
            if self.kind == DATE:
                written = "dates such as 2023-12-31, without a time zone"
            return [
                "the model is of an earlier version, which did not store how times are "
                f"written: the cells of {column!r} are read as {written}"
            ]
        if self.kind == NUMBER or not self.formats:
            return []
        sentence = f"the dates of {column!r} are read as {' or '.join(self.formats)}"
        if self.first_year is not None:
            sentence += f", in the years {self.first_year} to {self.first_year + 99}"
        return [sentence]

    def refuse_counting(self, column: str) -> None:
        """Refuse to count the time between rows if it has several interpretations.

        Raises
        ------
        DataError
        """
        if self.kind == NUMBER and self.formats:
            raise DataError(
                f"the numbers of column {column!r} may be dates ({self.formats[0]}), "
                "so the time between two of them cannot be counted",
                "Write dates as 2023-12-31, and numbers that are no dates from 0 on.",
            )
        if len(self.formats) > 1:
            raise DataError(
                f"the dates of column {column!r} may be read as "
                f"{' or '.join(self.formats)}, so the days between two of them cannot "
                "be counted",
                _WRITE_DATES,
            )

    def read(self, column: pd.Series, table: Table, first_row: int = 0) -> Array:
        """Return times as numbers; dates are days since 1970.

        Parameters
        ----------
        column : Series
            Rows of a column of the table.
        table : Table
            For messages.
        first_row : int, default=0
            Position of the first of these rows in the table.

        Raises
        ------
        DataError
            If a cell is missing, or not written as in the training rows; names the
            column and the row.
        """
        cells = _Cells.of(column)
        cells.refuse_mixture(table, column.name)
        times = cells.spread(self._times(cells))
        is_wrong = np.isnan(times)
        if is_wrong.any():
            row = int(np.argmax(is_wrong))
            where = table.where(first_row + row)
            problem = self._problem(column.iloc[row], column.name)
            remedy = _AS_IN_TRAINING
            if self.kind == DATE and not self._has_zone:
                remedy += " 2023-12-31 fits all dates."
            raise DataError(f"{where}: {problem}", remedy)
        return times

    def _times(self, cells: _Cells) -> Array:
        """Return the different cells as numbers, NaN where one does not fit."""
        times = np.full(len(cells.values), np.nan)
        is_number = cells.kinds == NUMBER
        if is_number.any():
            times[is_number] = self._from_numbers(cells.values[is_number])
        is_text = cells.kinds == _TEXT
        if is_text.any():
            times[is_text] = self._from_texts(cells.values[is_text])
        is_date = cells.kinds == DATE
        if self.kind == DATE and is_date.any():
            dates = cells.values[is_date]
            # NaT where pandas cannot hold a date.
            in_utc = pd.to_datetime(dates, utc=True, errors="coerce")
            days = _days(in_utc.dt.tz_localize(None))
            is_fitting = _have_zones(dates) == self._has_zone
            times[is_date] = np.where(is_fitting, days, np.nan)
        return times

    def _from_numbers(self, numbers: pd.Series) -> Array:
        values = _finite(numbers)
        if self.kind == NUMBER:
            return values
        if DIGITS in self.formats:
            return _days(_dates_of_digits(values, DIGITS))
        return np.full(len(values), np.nan)

    def _from_texts(self, texts: pd.Series) -> Array:
        numbers = pd.to_numeric(texts, errors="coerce")
        times = self._from_numbers(numbers)
        is_other = numbers.isna().to_numpy()
        if self.kind == NUMBER or not is_other.any():
            return times
        parts = _TextParts.of(texts[is_other])
        dates = pd.Series(pd.NaT, index=parts.dates.index, dtype=_DATES)
        for form in self.formats:
            if form != DIGITS:
                dates = dates.fillna(_parse(parts.dates, form, self.first_year))
        if dates.isna().any():
            dates = dates.fillna(_clear_dates(parts.dates))
        days = _days(dates, parts.microseconds)
        times[is_other] = np.where(parts.has_zone == self._has_zone, days, np.nan)
        return times

    @property
    def _has_zone(self) -> bool:
        return self.zone is not None

    def _problem(self, cell: Any, name: Any) -> str:
        """Say why a cell cannot be read."""
        column = f"the time column {name!r}"
        if pd.api.types.is_scalar(cell) and pd.isna(cell):
            return f"{column} contains neither a number nor a date"
        text = shorten(repr(str(cell)), 40)
        number = pd.to_numeric(str(cell).strip(), errors="coerce")
        is_number = _kind_of(cell) == NUMBER or pd.notna(number)
        expected = "numbers"
        if self.kind == DATE:
            expected = "dates"
            if self.formats:
                expected = f"dates ({' or '.join(self.formats)})"
            if is_number:
                return (
                    f"{column} contains the number {text}, and the training rows "
                    f"hold {expected}"
                )
            in_other_zone = replace(self, zone=_UTC)
            if self._has_zone:
                in_other_zone = replace(self, zone=None)
            cells = _Cells.of(pd.Series([cell], dtype=object))
            if not np.isnan(in_other_zone._times(cells)).any():
                # A date but for its time zone.
                without = "without a time zone"
                if self._has_zone:
                    without = "with a time zone, as in 2023-12-31 12:00+00:00"
                return (
                    f"{column} contains {text}, and the training rows hold dates "
                    f"{without}"
                )
        return f"{column} contains {text}, and the training rows hold {expected}"


@dataclass(frozen=True)
class _Cells:
    """The different cells of a column.

    Attributes
    ----------
    values : Series
        Texts are stripped.
    codes : ndarray of int64, shape (n,)
        Position of each cell among `values`, -1 where it is missing.
    kinds : ndarray of str
        Whether each of the values is a number, a date or a text.
    """

    values: pd.Series
    codes: Array
    kinds: Array

    @classmethod
    def of(cls, column: pd.Series) -> _Cells:
        if isinstance(column.dtype, pd.CategoricalDtype):
            column = column.astype(object)
        try:
            codes, unique = pd.factorize(column)
        except TypeError:
            # Lists and mappings are not times.
            column = column.map(str, na_action="ignore")
            codes, unique = pd.factorize(column)
        values = pd.Series(unique)
        if is_numeric_dtype(values):
            return cls(values, codes, np.full(len(values), NUMBER))
        if is_datetime64_any_dtype(values):
            return cls(values, codes, np.full(len(values), DATE))
        values = values.astype(object)
        kinds = np.array([_kind_of(cell) for cell in values], dtype=object)
        is_text = kinds == _TEXT
        values[is_text] = values[is_text].astype(str).str.strip()
        return cls(values, codes, kinds)

    def spread(self, times: Array) -> Array:
        """Return a time per row from the times of the different cells."""
        # Code -1 takes the last entry.
        return np.append(times, np.nan)[self.codes]

    def refuse_mixture(self, table: Table, name: Any) -> None:
        """Refuse a column of dates and texts.

        A spreadsheet that turns some texts into dates may have swapped their day and
        month.
        """
        present = set(self.kinds)
        if DATE in present and len(present) > 1:
            raise DataError(
                f"{table.name}: the column {name!r} mixes dates and texts or numbers",
                _WRITE_DATES,
            )

    def are_numbers(self) -> Array:
        """Return which cells are finite numbers, or texts of them."""
        is_number = self.kinds != DATE
        is_number[is_number] = ~np.isnan(_finite(self.values[is_number]))
        return is_number


@dataclass(frozen=True)
class _TextParts:
    """Texts of dates, taken apart.

    Attributes
    ----------
    dates : Series of str
        Without time of day, with single separators.
    microseconds : ndarray of int64
        From midnight of the date in UTC to the time of the text.
    has_zone : ndarray of bool
    """

    dates: pd.Series
    microseconds: Array
    has_zone: Array

    @classmethod
    def of(cls, texts: pd.Series) -> _TextParts:
        texts = texts.astype(str)
        if texts.str.fullmatch(_ISO).all():
            # Much faster for millions of times.
            times = pd.to_datetime(texts, format="ISO8601", errors="coerce")
            microseconds = (times - times.dt.normalize()).dt.total_seconds().fillna(0)
            microseconds = (microseconds * _MICROSECONDS_PER_SECOND).round()
            return cls(
                texts.str[:10],
                microseconds.to_numpy(dtype=np.int64),
                np.full(len(texts), False),
            )
        parts = texts.str.extract(_PARTS)
        hours = _as_numbers(parts["hour"])
        half = parts["half"].str.lower()
        hours = np.where(half.notna(), hours % 12, hours)
        hours = np.where(half == "p", hours + 12, hours)
        minutes = _as_numbers(parts["minute"])
        seconds = _as_numbers(parts["second"])
        offset = _as_numbers(parts["hours"]) * 60 + _as_numbers(parts["minutes"])
        offset = np.where(parts["sign"] == "-", -offset, offset)
        total = (hours * 60 + minutes - offset) * 60 + seconds
        microseconds = np.round(total * _MICROSECONDS_PER_SECOND).astype(np.int64)
        dates = (
            parts["date"]
            .fillna("")
            .str.replace(_SEPARATORS, lambda match: match[1] or " ", regex=True)
        )
        return cls(dates, microseconds, parts["zone"].notna().to_numpy())


def holds_dates(column: pd.Series) -> bool:
    """Whether all cells of a column are dates, in whatever order."""
    schemas = _interpretations(_Cells.of(column))
    return any(schema.kind == DATE for schema in schemas)


def _interpretations(cells: _Cells) -> list[TimeSchema]:
    """Return the ways to read all cells; the centuries of years are open."""
    if not len(cells.values):
        return []
    is_number = cells.are_numbers()
    if is_number.all():
        numbers = _finite(cells.values)
        if _are_dates(numbers, DIGITS, 8):
            return [TimeSchema(DATE, (DIGITS,))]
        schemas = [TimeSchema(NUMBER)]
        for form, n_digits in _OTHER_DIGITS.items():
            if _are_dates(numbers, form, n_digits):
                schemas.append(TimeSchema(DATE, (form,)))
        return schemas
    if is_number.any():
        return []
    if (cells.kinds == DATE).all():
        have_zones = _have_zones(cells.values)
        return _dates_with_zones(have_zones, [()])
    if sum(map(str.isdigit, str(cells.values.iloc[0]))) < _MIN_DIGITS:
        return []
    parts = _TextParts.of(cells.values)
    formats: list[tuple[str, ...]] = []
    if _clear_dates(parts.dates).notna().all():
        formats.append(())
    else:
        first = parts.dates.iloc[0]
        for form in _FORMATS:
            if form[2] in first and _parse(parts.dates, form).notna().all():
                formats.append((form,))
    return _dates_with_zones(parts.has_zone, formats)


def _dates_with_zones(
    have_zones: Array, formats: Sequence[tuple[str, ...]]
) -> list[TimeSchema]:
    """Return a schema per format, none if only some of the dates have a time zone."""
    if have_zones.all():
        return [TimeSchema(DATE, form, zone=_UTC) for form in formats]
    if have_zones.any():
        return []
    return [TimeSchema(DATE, form) for form in formats]


def _are_dates(values: Array, form: str, n_digits: int) -> bool:
    """Whether whole numbers are dates without separators."""
    shortest = n_digits
    if not form.startswith("%Y"):
        shortest -= 1
    if not 10 ** (n_digits - 1) <= values.max() < 10**n_digits:
        return False
    if values.min() < 10 ** (shortest - 1) or (values != np.round(values)).any():
        return False
    years = _dates_of_digits(values, form).dt.year
    return bool(years.between(_MIN_YEAR, _MAX_YEAR).all())


def _dates_of_digits(values: Array, form: str) -> pd.Series:
    """Return whole numbers as dates, NaT where they are none."""
    n_digits = _OTHER_DIGITS.get(form, 8)
    is_fitting = (values == np.round(values)) & (np.abs(values) < 10**n_digits)
    numbers = np.where(is_fitting, values, 0).astype(np.int64)
    texts = pd.Series(numbers).astype(str).str.zfill(n_digits)
    return pd.to_datetime(texts, format=form, errors="coerce")


def _only_ranked(
    schemas: Sequence[TimeSchema], cells: _Cells, table: Table, name: Any
) -> TimeSchema:
    """Return a schema with several interpretations if they rank the cells alike."""
    formats = [form for schema in schemas for form in schema.formats]
    ranks = []
    for schema in schemas:
        if schema.kind == NUMBER or cells.are_numbers().all():
            values = _finite(pd.to_numeric(cells.values))
            if schema.kind == DATE:
                values = _days(_dates_of_digits(values, schema.formats[0]))
        else:
            values = schema._times(cells)
        ranks.append(pd.Series(values).rank(method="dense"))
    has_short_years = any("%y" in form for form in formats)
    if has_short_years or any(not rank.equals(ranks[0]) for rank in ranks[1:]):
        labels = list(formats)
        if schemas[0].kind == NUMBER:
            labels.insert(0, "numbers")
        raise DataError(
            f"{table.name}: the times of column {name!r}, such as "
            f"{str(cells.values.iloc[0])!r}, may be read as {' or '.join(labels)}",
            _WRITE_DATES,
        )
    return TimeSchema(schemas[0].kind, tuple(formats), zone=schemas[0].zone)


def _unreadable(cells: _Cells, table: Table, name: Any) -> DataError:
    """Return the error of a column without an interpretation."""
    is_number = cells.are_numbers()
    parts = _TextParts.of(cells.values)
    is_clear = _clear_dates(parts.dates).notna().to_numpy()
    is_date = is_clear | (cells.kinds == DATE)
    for form in _FORMATS:
        is_date |= _parse(parts.dates, form).notna().to_numpy()
    is_date &= ~is_number
    has_zone = parts.has_zone | ((cells.kinds == DATE) & _have_zones(cells.values))
    problem = "contains neither a number nor a date"
    remedy = _WRITE_TIMES
    differs = ~(is_date | is_number)
    if not differs.any():
        remedy = _WRITE_DATES
        problem = "mixes dates of several formats"
        differs = is_clear != is_clear[0]
        if is_number.any():
            problem = "mixes numbers and dates"
            differs = is_number != is_number[0]
        elif has_zone.any() and not has_zone.all():
            problem = "mixes dates with and without a time zone"
            differs = has_zone != has_zone[0]
    # Code -1 of a missing cell takes the last entry.
    rows = np.flatnonzero(np.append(differs, True)[cells.codes])
    where = table.name
    if rows.size:
        where = table.where(int(rows[0]))
    return DataError(f"{where}: the time column {name!r} {problem}", remedy)


# ------------------------------------------------------------------------- cells


def _kind_of(cell: Any) -> str:
    if isinstance(cell, dt.date | np.datetime64):
        return DATE
    if isinstance(cell, int | float | np.number | np.bool_):
        return NUMBER
    return _TEXT


def _finite(numbers: pd.Series) -> Array:
    """Return numbers as floats, NaN where they are infinite."""
    values = pd.to_numeric(numbers, errors="coerce")
    values = values.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def _as_numbers(digits: pd.Series) -> Array:
    """Return texts of digits as numbers, 0 where there are none."""
    return pd.to_numeric(digits).fillna(0).to_numpy(dtype=np.float64)


def _have_zones(dates: pd.Series) -> Array:
    """Return which cells are dates with a time zone."""
    if is_datetime64_any_dtype(dates):
        has_zones = isinstance(dates.dtype, pd.DatetimeTZDtype)
        return np.full(len(dates), has_zones)
    have_zones = [getattr(cell, "tzinfo", None) is not None for cell in dates]
    return np.array(have_zones, dtype=bool)


def _days(dates: pd.Series, microseconds: Array | int = 0) -> Array:
    """Return the days from 1970 to times after these dates, NaN where one is NaT."""
    integers = dates.to_numpy(dtype=_DATES).astype(np.int64) + microseconds
    days = integers / _MICROSECONDS_PER_SECOND / _SECONDS_PER_DAY
    return np.where(dates.isna(), np.nan, days)


# ------------------------------------------------------------------ texts of dates


def _clear_dates(dates: pd.Series) -> pd.Series:
    """Return the dates that have one interpretation, NaT for others."""
    codes, different = pd.factorize(dates)
    texts = pd.Series(different, dtype=str).str.replace(
        _QUARTER, lambda match: f"{match[1]}-{3 * int(match[2]) - 2:02d}", regex=True
    )
    # A comma and a point may stand before a blank: Jan 15, 2020 and 15. Jan. 2020.
    texts = texts.str.replace(r"[-/., ]+", " ", regex=True)
    parsed = pd.Series(pd.NaT, index=texts.index, dtype=_DATES)
    for form in _CLEAR_FORMATS:
        is_open = parsed.isna()
        if not is_open.any():
            break
        some = pd.to_datetime(texts[is_open], format=form, errors="coerce")
        parsed[is_open] = some.astype(_DATES)
    return parsed.take(codes).set_axis(dates.index)


def _parse(dates: pd.Series, form: str, first_year: int | None = None) -> pd.Series:
    """Return texts in a format as dates, NaT for others.

    Parameters
    ----------
    dates : Series of str
    form : str
        One of `_FORMATS`.
    first_year : int, optional
        First of the years of two digits. Default: the centuries of `strptime`.
    """
    codes, different = pd.factorize(dates)
    texts = pd.Series(different, dtype=str)
    parsed = pd.to_datetime(texts, format=form, errors="coerce")
    if "%y" in form and first_year is not None:
        years = _two_digit_years(texts, form)
        years = first_year + (years - first_year) % 100
        digits = pd.Series(years).astype(str)
        if form.startswith("%y"):
            texts = digits + texts.str[2:]
        else:
            texts = texts.str[:-2] + digits
        # A text of another format must not become one of this format.
        texts = texts.where(parsed.notna(), "")
        with_century = form.replace("%y", "%Y")
        parsed = pd.to_datetime(texts, format=with_century, errors="coerce")
    return parsed.astype(_DATES).take(codes).set_axis(dates.index)


def _two_digit_years(dates: pd.Series, form: str) -> Array:
    """Return the years of dates in a format, 0 where a text has another format."""
    if form.startswith("%y"):
        digits = dates.str[:2]
    else:
        digits = dates.str[-2:]
    years = pd.to_numeric(digits, errors="coerce").fillna(0)
    return years.to_numpy(dtype=np.int64)


def _first_year(years: Array) -> int | None:
    """Return the first of the 100 years to which years of two digits belong.

    The years of the rows lie in the middle of these 100 years, and not in the future.
    Return None if they are more than `_MAX_YEARS` apart, or if they would reach from
    the past into the future.
    """
    different = np.unique(years)
    # The years are a circle of 100, cut where the most years in a row do not occur.
    gaps = np.diff(np.append(different, different[0] + 100))
    widest = int(np.argmax(gaps))
    start = int(different[(widest + 1) % len(different)])
    n_years = 100 - int(gaps[widest])
    if n_years > _MAX_YEARS:
        return None
    this_year = dt.datetime.now(dt.UTC).year
    earliest = start + 100 * ((this_year - start) // 100)
    if earliest + n_years > this_year:
        return None
    return earliest - (99 - n_years) // 2
