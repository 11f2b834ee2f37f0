"""Times of new rows are read as in the training rows, or refused."""

import functools
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import mtlrun
from mtlrun.data.clock import Clock
from mtlrun.data.reading.names import Names
from mtlrun.data.reading.read import read_table
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.roles.schema import Schema, new_rows
from mtlrun.data.times import DATE, NUMBER, TimeSchema, holds_dates
from mtlrun.errors import DataError
from mtlrun.model.files import load_model
from mtlrun.utils.io import sealed, unsealed

FAST = {"methods": ["IndependentRidge"], "splits": 2, "repeats": 1, "folds": 2}
ROLES = {"target": "y", "task": "patient"}
ELAPSED = "visit since first row"
#: Formats with one interpretation for the dates of `visits`.
FORMATS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"),
    *("%d.%m.%Y", "%m/%d/%Y", "%d-%m-%Y %H:%M", "%m/%d/%Y %I:%M %p"),
    *("%d.%m.%y", "%m/%d/%y", "%d-%b-%y", "%d %B %Y", "%b %d, %Y", "%a, %d %b %Y"),
    *("%Y%m%d", "%Y"),
)


def days(first="1998-11-05", n_patients=4, n_visits=9):
    """Return times of visits, later ones later, up to three years after the first."""
    rng = np.random.default_rng(0)
    offsets = np.sort(rng.integers(0, 1000, size=(n_patients, n_visits)), axis=1)
    offsets = pd.to_timedelta(offsets.ravel() * 1440 + 615, unit="min")
    return pd.DatetimeIndex(pd.Timestamp(first) + offsets)


def visits(times):
    """Return rows of patients with these times, whose target depends on them."""
    n = len(times)
    rng = np.random.default_rng(1)
    patients = np.repeat([f"p{k}" for k in range(4)], n // 4)
    frame = pd.DataFrame({"patient": patients, "x": rng.normal(size=n)})
    return frame.assign(visit=times, y=frame.x + 0.1 * np.arange(n))


def dataset_of(frame, test=None, **roles):
    test_table = None
    if test is not None:
        test_table = table_of_frame(test, "test rows")
    roles = Roles(targets=("y",), task="patient", **roles)
    return make_dataset(table_of_frame(frame), roles, test_table)


def schema_of(dataset):
    return Schema(
        len(dataset.features),
        tuple(dataset.features),
        task_column="patient",
        table=True,
        categories=dataset.categories,
        tasks=tuple(dataset.tasks),
        clock=dataset.clock,
    )


def read_back(dataset, source):
    """Return the features of new rows, as a model of the data set reads them."""
    schema = schema_of(dataset)
    return new_rows(read_table(source, like=schema), schema).X


def trained_on(times):
    return dataset_of(visits(times), since_first="visit")


@functools.cache
def trained_on_format(form):
    """Return the data set of `days` in this format, which tests do not modify."""
    return trained_on(days().strftime(form))


def reads(dataset, cell):
    """Return the elapsed time of a new row of the first patient."""
    new = pd.DataFrame({"patient": ["p0"], "x": [0.0], "visit": [cell]})
    return float(read_back(dataset, new)[0, -1])


@pytest.mark.slow
@given(
    st.sampled_from(FORMATS),
    st.permutations(range(36)),
    st.integers(1, 36),
    st.sampled_from(["frame", "json", ".csv", ".parquet", ".xlsx"]),
)
def test_rows_have_the_same_times_alone_in_files_in_frames_and_as_json(
    tmp_path_factory, form, order, n_rows, container
):
    frame = visits(days().strftime(form))
    dataset = trained_on_format(form)
    expected = dataset.X[order[:n_rows]]
    new = frame.drop(columns="y").iloc[order[:n_rows]].reset_index(drop=True)
    source = tmp_path_factory.mktemp("times") / f"new{container}"
    match container:
        case "frame":
            source = new
        case "json":
            source = pd.DataFrame(json.loads(new.to_json(orient="records")))
        case ".csv":
            new.to_csv(source, index=False)
        case ".parquet":
            new.to_parquet(source)
        case ".xlsx":
            new.to_excel(source, index=False)
    np.testing.assert_allclose(read_back(dataset, source), expected, atol=1e-8)
    alone = read_back(dataset, new.iloc[[0]])
    np.testing.assert_allclose(alone[0], expected[0], atol=1e-8)


@pytest.mark.every(5)
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
@pytest.mark.parametrize("form", FORMATS)
def test_training_rows_have_the_same_times_in_files_and_frames(tmp_path, form, suffix):
    frame = visits(days().strftime(form))
    path = tmp_path / f"visits{suffix}"
    write = {".csv": frame.to_csv, ".xlsx": frame.to_excel}.get(suffix)
    if write is None:
        frame.to_parquet(path)
    else:
        write(path, index=False)
    roles = Roles(targets=("y",), task="patient", since_first="visit")
    of_file = make_dataset(read_table(path), roles)
    of_frame = make_dataset(table_of_frame(frame), roles)
    np.testing.assert_allclose(of_file.X, of_frame.X, atol=1e-8)
    assert of_file.features == of_frame.features
    assert of_file.clock.times == of_frame.clock.times


@functools.cache
def trained_on_days(first):
    """Return the data set of typed dates, which tests do not modify."""
    return trained_on(days(first).normalize())


@pytest.mark.cover
@pytest.mark.parametrize(
    "form", ["%Y-%m-%d", "%d.%m.%y", "%m/%d/%y", "%d-%b-%y", "%d %B %Y"]
)
@pytest.mark.parametrize("first", ["1931-01-01", "1968-01-20", "1998-05"])
def test_dates_of_any_century_are_as_many_days_apart_as_with_four_digits(first, form):
    times = days(first)
    elapsed = trained_on(times.strftime(form)).source["elapsed"]
    expected = trained_on_days(first).source["elapsed"]
    np.testing.assert_allclose(elapsed, expected)


@pytest.mark.parametrize(
    "years", [["20", "70"], ["10", "40", "70", "95"], ["01", "99", "50"]]
)
def test_years_of_two_digits_that_fit_several_centuries_are_refused(years):
    frame = visits([f"{1 + k // 12:02d}-Jan-{y}" for k, y in enumerate(years * 12)])
    with pytest.raises(DataError, match=r"'visit'(.|\n)*four digits"):
        dataset_of(frame, time="visit")


def test_years_of_two_digits_are_not_in_the_future():
    next_year = pd.Timestamp.now().year + 1
    times = trained_on([f"{k + 1}-Jan-{next_year % 100:02d}" for k in range(24)])
    first_year = times.clock.times.first_year
    assert first_year < next_year - 100 < first_year + 99
    both = [f"15-Jan-{(next_year - k % 3) % 100:02d}" for k in range(24)]
    with pytest.raises(DataError, match="'visit'"):
        trained_on(both)


def test_new_rows_have_the_century_of_the_training_rows():
    dataset = trained_on(days("1968-01-20").strftime("%d.%m.%y"))
    first = dataset.clock.first["p0"]
    for text, date in (("31.12.75", "1975-12-31"), ("01.02.18", "2018-02-01")):
        expected = (pd.Timestamp(date) - pd.Timestamp("1970-01-01")).days - first
        assert reads(dataset, text) == pytest.approx(expected)
        assert reads(dataset, date) == pytest.approx(expected)


#: Format of the training rows, and a cell of a new row that it does not read.
REFUSED = {
    "a serial number of a spreadsheet": ("%Y-%m-%d", 43845),
    "a serial number as text": ("%Y-%m-%d", "43845"),
    "digits where dates have separators": ("%Y-%m-%d", 20200131),
    "a year": ("%Y-%m-%d", 2020),
    "a date where years were": ("%Y", "2020-01-31"),
    "a typed date where years were": ("%Y", pd.Timestamp("2020-01-31")),
    "an order that the rows do not tell": ("%Y-%m-%d", "31/01/2020"),
    "another separator": ("%d.%m.%Y", "31/01/2020"),
    "another order": ("%d.%m.%Y", "01.31.2020"),
    "years of four digits": ("%d.%m.%y", "31.01.2020"),
    "years of two digits": ("%d.%m.%Y", "31.01.20"),
    "no date of the calendar": ("%d.%m.%Y", "31.02.2020"),
    "an impossible number": ("%Y%m%d", 20201301),
    "a time zone": ("%Y-%m-%d", "2020-01-31T10:00:00Z"),
    "a typed time zone": ("%Y-%m-%d", pd.Timestamp("2020-01-31", tz="UTC")),
    "no time zone": ("%Y-%m-%dT%H:%M:%SZ", "2020-01-31T10:00:00"),
    "no typed time zone": ("%Y-%m-%dT%H:%M:%SZ", pd.Timestamp("2020-01-31")),
    "a duration": ("%Y", pd.Timedelta(days=3)),
    "a time of day": ("%Y-%m-%d", "10:30"),
    "an infinite number": ("%Y", np.inf),
    "an empty cell": ("%Y", None),
    "a list": ("%Y-%m-%d", ["2020-01-31"]),
}


def test_cells_unlike_the_training_rows_are_refused_by_column_and_row():
    for case in REFUSED:
        form, cell = REFUSED[case]
        dataset = trained_on_format(form)
        with pytest.raises(DataError, match=r"row 1: .*'visit'(.|\n)*Write"):
            reads(dataset, cell)


@pytest.mark.every(3)
@pytest.mark.parametrize("form", [f for f in FORMATS if f not in ("%Y", FORMATS[3])])
def test_dates_with_the_year_in_front_and_typed_dates_fit_all_dates(form):
    dataset = trained_on_format(form)
    day = pd.Timestamp("2001-03-04")
    expected = reads(dataset, "2001-03-04 00:00")
    for cell in ("2001-03-04", "2001/3/4", "4 March 2001", day, day.date()):
        assert reads(dataset, cell) == expected


def test_dates_beside_texts_are_refused():
    # Spreadsheets turn 05/01/2020 into a date, perhaps in May, and 13/01/2020 into
    # nothing.
    dataset = trained_on(days().strftime("%d/%m/%Y"))
    cells = pd.Series([pd.Timestamp("2020-05-01"), "13/01/2020"], dtype=object)
    new = pd.DataFrame({"patient": "p0", "x": 0.0, "visit": cells})
    with pytest.raises(DataError, match="'visit'"):
        read_back(dataset, new)


UNCLEAR = {
    "days of one month": [f"01/{1 + k % 12:02d}/2020" for k in range(24)],
    "with a time of day": [f"01/{1 + k % 12:02d}/2020 10:30" for k in range(24)],
    "years and months in digits": [202001 + k % 12 for k in range(24)],
    "the same as texts": [str(202001 + k % 12) for k in range(24)],
}


@pytest.mark.parametrize("case", UNCLEAR)
def test_dates_with_several_interpretations_are_ranked_but_not_counted(case):
    frame = visits(UNCLEAR[case])
    ranked = dataset_of(frame, time="visit")
    np.testing.assert_array_equal(ranked.source["order"], 1 + np.arange(24) % 12)
    for use in (
        lambda: dataset_of(frame, since_first="visit"),
        lambda: dataset_of(frame, since_first="visit", time="visit"),
        ranked.with_elapsed,
        lambda: mtlrun.compare(frame, **ROLES, time="visit", **FAST),
    ):
        with pytest.raises(DataError, match=r"'visit'(.|\n)*2023-12-31"):
            use()


def test_columns_without_one_ranking_are_refused():
    for cells in [
        ["01/02/2023", "03/01/2023"] * 12,
        ["01.02.20", "05.03.21", "10.12.19"] * 8,
        ["31122020", "01012021", "15062020"] * 8,
        [311220, 10121, 150620] * 8,
        ["2020-01-31", "31.01.2020"] * 12,
        ["2020-01-31", "2020"] * 12,
        ["2020-01-31", "2020-01-31T10:00:00Z"] * 12,
        [pd.Timestamp("2020-01-31"), pd.Timestamp("2020-01-31", tz="UTC")] * 12,
        [pd.Timestamp("2020-01-31"), "2020-01-31"] * 12,
        ["10:30", "11:45"] * 12,
        [pd.Timedelta(days=3), pd.Timedelta(days=4)] * 12,
    ]:
        frame = visits(pd.Series(cells, dtype=object))
        with pytest.raises(DataError, match=r"'visit'(.|\n)*2023-12-31"):
            dataset_of(frame, time="visit")


@pytest.mark.parametrize("counts", [[1, 2, 3], [101, 102, 131], [43845, 43900, 44000]])
def test_other_whole_numbers_are_numbers(counts):
    dataset = trained_on(np.repeat(counts, 8))
    assert dataset.clock.times == TimeSchema(NUMBER)
    assert "visit" in dataset.features


def error_of(cells):
    """Return the error of a column of times with these cells in the first rows."""
    column = pd.Series([*cells, *[cells[-1]] * (24 - len(cells))], dtype=object)
    with pytest.raises(DataError) as caught:
        dataset_of(visits(column), time="visit")
    return caught.value


def test_the_first_row_that_differs_is_named_with_its_kind(lacking):
    for cells, kind in [
        (["2020-01-31", "31.01.2020", "2020-02-01"], "formats"),
        (["31.01.2020", "2020-01-31", "01.02.2020"], "formats"),
        (["2020-01-31", "2020", "2020-02-01"], "numbers"),
        (["2020", "2020-01-31", "2021"], "numbers"),
        (["2020-01-31", "2020-01-31T10:00:00Z", "2020-02-01"], "time zone"),
        (["2020-01-31T10:00:00Z", "2020-01-31", "2020-02-01T10:00:00Z"], "time zone"),
        (["2020-01-31", "soon", "2020-02-01"], "neither"),
        (["2020", "soon", "2021"], "neither"),
    ]:
        kinds = {"formats", "numbers", "time zone", "neither"}
        error = error_of(cells)
        assert lacking(error, "row 2", kind) == []
        problem = str(error).partition("\n")[0]
        assert not any(other in problem for other in kinds - {kind})


#: Whole numbers that are dates in one format alone, and whether they rank alike.
WHOLE_NUMBERS = {
    "%d%m%Y": ([31121999, 1012000, 15061999], False),
    "%m%d%Y": ([12311999, 1132000, 6151999], False),
    "%d%m%y": ([310199, 10200, 150699], False),
    "%m%d%y": ([123199, 11300, 61599], False),
    "%y%m%d": ([991231, 980115, 10113], False),
    "%Y%m": ([202001, 202102, 202012], True),
    "%Y%m%d%H%M": ([202001311030, 202101311030, 202012311030], True),
    "%Y%m%d%H%M%S": ([20200131103000, 20210131103000, 20201231103000], True),
}


@pytest.mark.parametrize("form", WHOLE_NUMBERS)
def test_whole_numbers_that_may_be_dates_need_the_same_ranks(form, lacking):
    numbers, are_alike = WHOLE_NUMBERS[form]
    if not are_alike:
        assert lacking(error_of(numbers), "numbers", form) == []
        return
    dataset = dataset_of(visits(np.resize(numbers, 24)), time="visit")
    schema = dataset.clock.times
    assert (schema.kind, schema.formats) == (NUMBER, (form,))
    with pytest.raises(DataError, match=form):
        schema.refuse_counting("visit")


def test_dates_without_an_order_name_their_formats(lacking):
    error = error_of(["01.02.20", "05.03.21", "10.12.19"])
    assert lacking(error, "%d.%m.%y", "%m.%d.%y") == []
    assert "numbers" not in str(error)
    schema = TimeSchema(DATE, ("%d/%m/%Y", "%m/%d/%Y"))
    with pytest.raises(DataError) as caught:
        schema.refuse_counting("visit")
    assert lacking(caught.value, *schema.formats) == []


def test_digits_of_early_years_are_dates():
    dates = np.resize([18500615, 19400101, 18001231], 24)
    assert trained_on(dates).clock.times == TimeSchema(DATE, ("%Y%m%d",))


@pytest.mark.parametrize(
    ("last", "first_year"), [(82, 1917), (83, 1917), (84, None), (66, 1909)]
)
def test_years_of_two_digits_lie_in_the_middle_of_a_century(last, first_year):
    cells = [f"{k + 1}-Jan-{50 if k % 2 else last}" for k in range(24)]
    if first_year is None:
        assert "four digits" in error_of(cells).remedy
    else:
        assert trained_on(cells).clock.times.first_year == first_year


def test_years_of_two_digits_may_end_this_year():
    this_year = pd.Timestamp.now().year
    times = trained_on([f"{k + 1}-Jan-{(this_year - k % 2) % 100}" for k in range(24)])
    first_year = times.clock.times.first_year
    assert first_year <= this_year - 1 < this_year <= first_year + 99


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (TimeSchema(NUMBER), None),
        (TimeSchema(NUMBER, ("%Y%m",)), None),
        (TimeSchema(DATE), None),
        (TimeSchema(DATE, ("%d.%m.%Y",)), ["'visit'", "%d.%m.%Y"]),
        (TimeSchema(DATE, ("%d.%m.%y",), 1917), ["%d.%m.%y", "1917", "2016"]),
    ],
)
def test_dates_with_several_interpretations_are_described(schema, words, lacking):
    notes = schema.describe("visit")
    assert len(notes) == (words is not None)
    assert not notes or lacking(notes[0], *words) == []


@pytest.mark.parametrize(
    ("schema", "has_date"),
    [
        (TimeSchema(NUMBER), False),
        (TimeSchema(DATE), True),
        (TimeSchema(DATE, zone="UTC"), False),
    ],
)
def test_a_wrong_cell_of_a_later_block_is_named_with_its_remedy(schema, has_date):
    frame = visits(["soon"] * 24)
    column = pd.Series([None, None, "soon"], name="visit")[1:]
    with pytest.raises(DataError, match="row 22:") as caught:
        schema.read(column[1:], table_of_frame(frame), 21)
    with pytest.raises(DataError, match="row 22:"):
        schema.read(column, table_of_frame(frame), 21)
    assert ("2023-12-31" in caught.value.remedy) == has_date


AWARE = days().tz_localize("Europe/Berlin")


def frames_with_zones():
    """Return the same times with a zone in several containers."""
    polars = pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    in_new_york = AWARE.tz_convert("America/New_York")
    mixed = [t if k % 2 else AWARE[k] for k, t in enumerate(in_new_york)]
    frame = visits(AWARE)
    yield frame
    yield visits(in_new_york)
    yield visits(pd.Series(mixed, dtype=object))
    yield visits(pd.Categorical(AWARE))
    yield visits([time.isoformat() for time in mixed])
    yield polars.DataFrame(visits(AWARE.tz_convert("UTC")).to_dict("list"))
    yield pyarrow.Table.from_pandas(frame)


def test_time_zones_are_kept_in_all_containers(tmp_path):
    dataset = dataset_of(visits(AWARE), since_first="visit")
    assert dataset.clock.times == TimeSchema(DATE, zone="UTC")
    in_utc = AWARE.tz_convert("UTC").tz_localize(None)
    naive = dataset_of(visits(in_utc), since_first="visit")
    np.testing.assert_allclose(dataset.X, naive.X)
    for frame in frames_with_zones():
        np.testing.assert_allclose(read_back(dataset, frame), dataset.X)
        with pytest.raises(DataError, match="time zone"):
            read_back(naive, frame)
    visits(AWARE).to_parquet(tmp_path / "new.parquet")
    np.testing.assert_allclose(read_back(dataset, tmp_path / "new.parquet"), dataset.X)


def test_a_change_of_clocks_is_no_hour():
    texts = ["2020-10-25T02:30:00+02:00", "2020-10-25T02:30:00+01:00"] * 12
    dataset = trained_on(texts)
    elapsed = dataset.source["elapsed"]
    np.testing.assert_allclose(np.ptp(elapsed[:2]), 1 / 24, atol=1e-9)


@pytest.mark.parametrize(
    ("form", "cell"),
    [
        ("%Y-%m-%dT%H:%M:%S", "1999-01-31T10:15:00.000250"),
        ("%m/%d/%Y %H:%M:%S", "01/31/1999 10:15:00.000250"),
        (None, pd.Timestamp("1999-01-31T10:15:00.000250")),
    ],
)
def test_microseconds_count(form, cell):
    times = days()
    dataset = trained_on(times if form is None else times.strftime(form))
    without = cell.floor("s") if form is None else cell.removesuffix(".000250")
    elapsed = reads(dataset, cell) - reads(dataset, without)
    assert elapsed == pytest.approx(250e-6 / 86400, rel=0.01)


@pytest.mark.parametrize(
    ("hour", "expected"), [("12:30 AM", 0.5), ("12:30 PM", 12.5), ("1:30 PM", 13.5)]
)
def test_noon_and_midnight_have_their_hours(hour, expected):
    dataset = trained_on_format("%m/%d/%Y %I:%M %p")
    midnight = reads(dataset, "1999-01-31")
    elapsed = reads(dataset, f"01/31/1999 {hour}") - midnight
    assert elapsed == pytest.approx(expected / 24)


def test_quarters_begin_with_their_first_month():
    quarters = pd.PeriodIndex(days(), freq="Q").strftime("%Y-Q%q")
    dataset = trained_on(quarters)
    for quarter, month in ((1, "01"), (2, "04"), (4, "10")):
        expected = reads(dataset, f"1999-{month}-01")
        assert reads(dataset, f"1999-Q{quarter}") == expected


def test_a_new_task_begins_with_its_first_row_whatever_the_order_of_rows():
    dataset = trained_on(days())
    new = pd.DataFrame({"patient": "new", "x": 0.0, "visit": days()[:9]})
    elapsed = read_back(dataset, new)[:, -1]
    assert elapsed.min() == 0
    np.testing.assert_array_equal(read_back(dataset, new[::-1])[::-1, -1], elapsed)


@pytest.mark.parametrize("is_feature", [True, False])
def test_rows_are_marked_by_their_time_only_where_it_is_a_feature(is_feature):
    clock = Clock("t", "t since first row", None, span=(0.0, 10.0), longest=5.0)
    times = np.array([-1.0, 11.0, 3.0, 3.0, 3.0])
    elapsed = np.array([0.0, 0.0, 5.0, 5.1, -0.1])
    marked = clock.is_beyond(times, elapsed, ["t"] if is_feature else [])
    assert marked.tolist() == [is_feature, is_feature, False, True, True]


def test_the_longest_time_of_a_task_begins_with_its_own_first_row():
    dataset = trained_on(days())
    assert dataset.clock.longest == dataset.X[:, -1].max()
    spans = [np.ptp(days()[k : k + 9].to_julian_date()) for k in range(0, 36, 9)]
    assert dataset.clock.longest == pytest.approx(max(spans))


def test_rows_before_the_first_training_row_of_their_task_are_marked():
    dataset = trained_on(days())
    first = days()[0]
    new = pd.DataFrame({"patient": "p0", "x": 0.0, "visit": [first, first]})
    new.loc[1, "visit"] -= pd.Timedelta(1, "h")
    schema = schema_of(dataset)
    rows = new_rows(read_table(new, like=schema), schema)
    assert rows.is_beyond.tolist() == [False, True]


def test_ids_that_are_times_with_a_zone_are_named_in_utc():
    column = table_of_frame(pd.DataFrame({"id": AWARE})).column("id")
    in_utc = pd.Series(AWARE.tz_convert(None), name="id")
    assert Names.of(column).names == Names.of(in_utc).names


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y", "%Y%m%d"])
def test_dates_of_planned_visits_are_no_categories(form):
    planned = pd.date_range("2020-01-01", periods=9, freq="15D")
    frame = visits(np.tile(planned.strftime(form), 4))
    for keep in ((), "visit", "*"):
        dataset = dataset_of(frame, since_first="visit", keep=keep)
        assert dataset.features == ["x", ELAPSED]
        assert not dataset.categories
    for role in ("since_first", "time"):
        with pytest.raises(DataError, match="--categorical"):
            dataset_of(frame, categorical="visit", **{role: "visit"})


@pytest.mark.parametrize("form", ["%m/%d/%Y", "%Y", "%Y%m%d"])
def test_test_rows_are_read_as_new_rows(form):
    frame = visits(days().strftime(form))
    # The dates of these rows alone could be read day first.
    is_test = days().day <= 12
    test = frame[is_test]
    dataset = dataset_of(frame[~is_test], test, since_first="visit")
    of_training = dataset_of(frame[~is_test], since_first="visit")
    assert dataset.clock.first == of_training.clock.first
    X = read_back(dataset, test.drop(columns="y"))
    np.testing.assert_allclose(dataset.X[-len(test) :], X, atol=1e-8)
    typed = test.assign(visit=days()[is_test].strftime("%Y-%m-%d"))
    if form == "%Y":
        typed = test.assign(visit=typed.visit.str[:4].astype(int))
    again = dataset_of(frame[~is_test], typed, since_first="visit")
    np.testing.assert_allclose(again.X, dataset.X, atol=1e-8)


def test_texts_that_are_dates_are_recognized():
    for form in FORMATS:
        is_date = form != "%Y"
        assert holds_dates(pd.Series(days().strftime(form))) == is_date, form
    assert not holds_dates(pd.Series(["soon", "2020-01-31"]))


# ------------------------------------------------------------------- saved models


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return the folder of a model of dates, and its training rows."""
    frame = visits(days().strftime("%d.%m.%y"))
    result = mtlrun.compare(frame, **ROLES, since_first="visit", **FAST)
    return result.save(tmp_path_factory.mktemp("saved")), frame


def as_earlier_version(folder, path, **clock):
    """Copy a model as versions without a schema saved it."""
    shutil.copytree(folder, path)
    file = path / "model" / "model.json"
    content = unsealed(json.loads(file.read_text()))
    del content["input"]["clock"]["times"]
    content["input"]["clock"] |= clock
    file.write_text(json.dumps(sealed(content)))
    return load_model(path)


def test_a_saved_model_reads_single_rows_as_before(saved):
    folder, frame = saved
    model = load_model(folder)
    new = frame.drop(columns="y")
    together = model.predict(new)
    # First and later rows of each patient.
    some = range(0, len(new), 6)
    alone = [model.predict(new.iloc[[row]]).iloc[0] for row in some]
    np.testing.assert_allclose(alone, together.iloc[some])
    with pytest.raises(DataError, match="'visit'"):
        model.predict(new.assign(visit=43845))


def test_a_model_that_is_fitted_again_reads_times_as_before(saved):
    folder, frame = saved
    # Alone, these rows could be read with the year in front.
    few = frame.assign(visit="10.11.12")
    few.loc[::2, "visit"] = "11.11.12"
    model = clone(load_model(folder)).fit(few)
    assert model.fitted_.schema.clock.times.formats == ("%d.%m.%y",)


def test_a_model_of_an_earlier_version_says_how_it_reads_dates(saved, tmp_path):
    folder, frame = saved
    model = as_earlier_version(folder, tmp_path / "old")
    new = frame.drop(columns="y")
    iso = new.assign(visit=days().strftime("%Y-%m-%d"))
    with pytest.warns(UserWarning, match="earlier version"):
        predicted = model.predict(iso)
    np.testing.assert_allclose(predicted, load_model(folder).predict(new))
    for cells in (new.visit, 43845):
        with pytest.raises(DataError, match="'visit'"):
            model.predict(new.assign(visit=cells))


@pytest.mark.slow
def test_a_model_of_an_earlier_version_reads_numbers_that_are_features(tmp_path):
    frame = visits(np.tile(np.arange(9), 4))
    result = mtlrun.compare(frame, **ROLES, since_first="visit", **FAST)
    folder = result.save(tmp_path / "new")
    model = as_earlier_version(folder, tmp_path / "old")
    with pytest.warns(UserWarning, match="numbers"):
        predicted = model.predict(frame)
    np.testing.assert_allclose(predicted, result.predict(frame))
    with pytest.raises(DataError, match="'visit'"):
        model.predict(frame.assign(visit="2020-01-31"))


def test_a_model_that_may_have_had_numbers_or_dates_is_refused(saved, tmp_path):
    folder, frame = saved
    model = as_earlier_version(folder, tmp_path / "old", is_feature=False)
    with pytest.raises(DataError, match=r"'visit'(.|\n)*again"):
        model.predict(frame)
