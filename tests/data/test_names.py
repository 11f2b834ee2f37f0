"""Names are stored as written, from reading to predicting; for each kind of table."""

from __future__ import annotations

import io
import unicodedata
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import BaggingRegressor, StackingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mtlrun.chunks.table import ChunkedTable, chunk_files
from mtlrun.data import TaskStratifiedKFold
from mtlrun.data.reading.frames import dump_frame, load_frame, typed
from mtlrun.data.reading.named_columns import target_columns
from mtlrun.data.reading.names import Known, Names, name_order, similar_names
from mtlrun.data.reading.read import read_table
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.roles.schema import Schema, new_rows, read_rows
from mtlrun.data.splits import GROUP, WEIGHT
from mtlrun.errors import DataError, UnknownNameError
from mtlrun.estimators import (
    FusedMTL,
    IndependentLogistic,
    IndependentRidge,
    TemporalGroupLasso,
    TraceNormMTL,
    TraceNormMTLClassifier,
)
from mtlrun.metrics import task_scorer

RNG = np.random.default_rng(0)
BASE = pd.DataFrame({"x": RNG.normal(size=24), "y": RNG.normal(size=24)})


def dataset(tmp_path, frame, *, name="t.csv", **roles):
    frame.to_csv(tmp_path / name, index=False)
    return make_dataset(
        read_table(tmp_path / name),
        Roles(**({"targets": ("y",), "task": "task"} | roles)),
    )


@pytest.mark.parametrize(
    "names",
    [["07", "7", "8"], ["1.1", "1.10", "2"], ["1E1", "10", "x"], ["0x1", "1", "+1"]],
)
def test_tasks_groups_categories_and_labels_that_are_equal_as_numbers_stay_apart(
    tmp_path, names
):
    data = dataset(
        tmp_path, BASE.assign(task=names * 8, group=names * 8), group="group"
    )
    assert sorted(data.tasks) == sorted(names)
    assert len(np.unique(data.source[GROUP])) == 3
    shared = dataset(
        tmp_path,
        BASE.assign(a=BASE.x, c=names * 8),
        targets=("a", "y"),
        task=None,
        categorical=("c",),
    )
    assert shared.categories["c"] == sorted(names)


def test_a_decimal_comma_in_names_is_kept(tmp_path):
    """Plain numbers have the same names in every container; 1,10 beside 1,1 is text,
    also in new rows.
    """
    frame = BASE.assign(task=[0.25, -100.0, 3.0] * 8)
    (tmp_path / "c.csv").write_text(frame.to_csv(index=False, sep=";", decimal=","))
    data = make_dataset(
        read_table(tmp_path / "c.csv"), Roles(targets=("y",), task="task")
    )
    assert (
        data.tasks
        == make_dataset(read_table(frame), Roles(targets=("y",), task="task")).tasks
        == ["-100", "0.25", "3"]
    )
    schema = Schema(
        1, ("x",), task_column="task", table=True, tasks=("0.25", "-100", "1,10")
    )
    (tmp_path / "n.csv").write_text(
        "x;task\n1,5;0,25\n1,5;-100,0\n1,5;1,10\n1,5;1,20\n"
    )
    assert read_rows(tmp_path / "n.csv", schema).tasks == [
        "0.25",
        "-100",
        "1,10",
        "1,20",
    ]
    (tmp_path / "t.csv").write_text(
        frame.assign(task=["1,1", "1,10"] * 12).to_csv(
            index=False, sep=";", decimal=","
        )
    )
    assert make_dataset(
        read_table(tmp_path / "t.csv"), Roles(targets=("y",), task="task")
    ).tasks == ["1,1", "1,10"]


def test_labels_with_leading_zeros_are_text_and_plain_numbers_are_numbers(tmp_path):
    for labels, kind in (
        (["01", "02"], "text"),
        (["1", "2"], "number"),
        (["0.0", "1.0"], "number"),
    ):
        data = dataset(
            tmp_path, BASE.assign(y=labels * 12, task=["a", "a", "b", "b"] * 6)
        )
        assert data.label_types == {"y": kind}
        assert data.labels["a"] == (
            labels if kind == "text" else [str(int(float(label))) for label in labels]
        )


def test_new_rows_are_read_by_the_known_names_whatever_else_the_file_contains(tmp_path):
    words = {"r": ["01", "1", "NA"]}
    schema = Schema(
        2,
        ("x", "r"),
        task_column="task",
        table=True,
        categories=words,
        tasks=("01", "7"),
    )
    (tmp_path / "n.csv").write_text("x,r,task\n1,01,01\n2,NA,7\n3,1,7\n4,,01\n")
    rows = read_rows(tmp_path / "n.csv", schema)
    np.testing.assert_array_equal(rows.X[:, 1], [0, 2, 1, np.nan])
    assert rows.tasks == ["01", "7", "7", "01"]
    assert rows.new_words == {}


def test_a_new_category_gets_a_new_code_and_is_counted():
    codes, new = Known(["a", "b"], "c").codes(pd.Series(["b", "z", "z", None, " "]))
    np.testing.assert_array_equal(codes, [1, 2, 2, np.nan, np.nan])
    assert new == {"z": 2}


def test_typed_numbers_match_the_name_of_the_same_number_or_are_rejected():
    assert Known(["01", "A"], "t").find(1) == "01"
    assert Known(["1", "2"], "t").find("1.0") == "1"
    assert Known(["1.0", "1.10"], "t").find("1.0") == "1.0"
    assert Known(["2024-01-02"], "t").find(pd.Timestamp("2024-01-02")) == "2024-01-02"
    assert Known(["TRUE", "FALSE"], "t").find(True) == "TRUE"
    with pytest.raises(DataError, match="'t'"):
        Known(["07", "7"], "t").find(7.0)


def test_blanks_and_types_are_removed_before_names_are_compared():
    data = make_dataset(
        table_of_frame(BASE.assign(task=["A", "A ", " A", "B"] * 6)),
        Roles(targets=("y",), task="task"),
    )
    assert data.tasks == ["A", "B"]
    assert "'A'" in data.notes
    assert Names.of(pd.Series([1, "1", 1.0, "2"], dtype=object)).names == ["1", "2"]


def test_letters_are_equal_in_every_normal_form():
    composed, other = (unicodedata.normalize(form, "Évora") for form in ("NFC", "NFD"))
    frame = BASE.assign(
        task=[composed, other, "b"] * 8, word=[other, "c", composed] * 8
    )
    data = make_dataset(table_of_frame(frame), Roles(targets=("y",), task="task"))
    assert data.tasks == ["b", composed]
    assert data.categories == {"word": ["c", composed]}
    assert composed in data.notes
    assert Known(data.tasks, "task").find(other) == composed


def test_tasks_are_sorted_unless_an_order_is_given():
    assert name_order(["10", "9", "2.5"]) == ["2.5", "9", "10"]
    assert name_order(["w10", "w9", "a"]) == ["a", "w9", "w10"]
    table = table_of_frame(BASE.assign(task=["c", "a", "b"] * 8))
    assert make_dataset(table, Roles(targets=("y",), task="task")).tasks == [
        "a",
        "b",
        "c",
    ]
    ordered = make_dataset(
        table, Roles(targets=("y",), task="task", task_order=("b", "c"))
    )
    assert ordered.tasks == ["b", "c", "a"]
    assert [ordered.tasks[t] for t in ordered.task_id[:3]] == ["c", "a", "b"]
    with pytest.raises(UnknownNameError, match="'d'"):
        make_dataset(table, Roles(targets=("y",), task="task", task_order=("d",)))


def test_a_frame_is_stored_with_its_types():
    frame = pd.DataFrame(
        {
            "text": ["NA", "?", None, "01\0"],
            "flag": pd.array([True, None, False, True], dtype="boolean"),
            "count": pd.array([1, None, 2**60, 4], dtype="Int64"),
            "level": pd.Categorical([3, None, 1, 3]),
            "day": pd.to_datetime(["2024-01-01", None, "2024-02-01", "2024-03-01"]),
        }
    ).apply(typed)
    content = dump_frame(frame)
    assert content == dump_frame(frame)
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        again = load_frame(archive)
    assert again.level.cat.categories.dtype.kind == "i"
    for name in frame:
        assert Names.of(again[name]).names == Names.of(frame[name]).names
        np.testing.assert_array_equal(again[name].isna(), frame[name].isna())


@pytest.mark.parametrize(
    "texts",
    [
        "0:30 1:30 12:05",
        "1 days 00:00:00,1 days 12:00:00,2 days 00:00:00",
        "-1:30:00.5 0:00:01 2:00:00",
    ],
)
def test_times_and_durations_are_rejected(texts):
    cells = np.array(texts.split("," if "days" in texts else " "), dtype=object)
    frame = pd.DataFrame(
        {
            "took": cells[np.arange(60) % 3],
            "y": RNG.normal(size=60),
            "task": ["a", "b"] * 30,
        }
    )
    with pytest.raises(DataError, match="'took'"):
        make_dataset(table_of_frame(frame), Roles(targets=("y",), task="task"))


@pytest.mark.cover
@pytest.mark.parametrize("separator", [";", "\t"])
@pytest.mark.parametrize(
    ("cells", "first"),
    [
        ("1,234 987", None),
        ("12,345 1,000", None),
        ("1,234 0,5", 1.234),
        ("1,234 1,25", 1.234),
        ("0,125 3,500", 0.125),
    ],
)
def test_an_ambiguous_thousands_separator_is_rejected(
    tmp_path, separator, cells, first
):
    rows = [f"{cell}{separator}a" for cell in cells.split()]
    (tmp_path / "t.csv").write_text("\n".join([f"x{separator}task", *rows, ""]))
    if first is not None:
        assert read_table(tmp_path / "t.csv").column("x")[0] == first
        return
    with pytest.raises(DataError, match=r"t\.csv:2: .*thousands"):
        read_table(tmp_path / "t.csv")


@pytest.mark.cover
@pytest.mark.parametrize(
    "form", ["{:,.1f} €", "{:_.1f}", "${:,.2f}", "CHF {:.2f}", "{:.1f} kg", "{:.1f}%"]
)
@pytest.mark.parametrize("blank", [",", "\u00a0", "\u202f", "'"])
def test_numbers_written_as_text_are_rejected(form, blank):
    amounts = [
        form.format(1000 * v).replace(",", blank).replace("_", blank)
        for v in RNG.normal(size=60).round(3)
    ]
    frame = pd.DataFrame(
        {"amount": amounts, "y": RNG.normal(size=60), "task": ["a", "b"] * 30}
    )
    with pytest.raises(DataError, match="'amount'"):
        make_dataset(table_of_frame(frame), Roles(targets=("y",), task="task"))


def test_weights_follow_their_rows_if_tasks_are_sorted_and_rows_left_out():
    frame = BASE.assign(
        task=["b", "a", "few"] + ["a", "b"] * 10 + ["a"], w=np.arange(24.0)
    )
    frame.loc[5, "y"] = np.nan
    data = make_dataset(
        table_of_frame(frame),
        Roles(targets=("y",), task="task", weight="w", group=None, min_rows=4),
    )
    kept = frame[(frame.task != "few") & frame.y.notna() & (frame.w > 0)]
    np.testing.assert_allclose(data.source[WEIGHT], kept.w / kept.w.mean())
    np.testing.assert_array_equal(data.X[:, 0], kept.x)
    assert [data.tasks[t] for t in data.task_id] == kept.task.tolist()


def test_constant_targets_are_dropped_and_a_dropped_label_is_not_a_target(
    tmp_path,
):
    frame = BASE.assign(a=BASE.x > 0, b=BASE.y > 0, c=False)
    table = table_of_frame(frame.drop(columns="y"))
    data = make_dataset(table, Roles(targets=("a", "b", "c")))
    assert (data.tasks, data.targets, data.features) == (["a", "b"], ["a", "b"], ["x"])
    assert "c has a single" in data.notes
    assert target_columns(table, targets="?", drop=("c", "x")) == ("a", "b")


def test_texts_and_dates_of_arff_are_columns_and_sparse_text_is_categorical(tmp_path):
    path = tmp_path / "t.arff"
    texts = "@attribute id string\n@attribute day date 'yyyy-MM-dd'\n"
    head = "@attribute c {red,blue}\n@attribute x numeric\n@data\n"
    path.write_text(
        f"@relation r\n{texts}{head}'a b',2024-01-01,blue,0\n?,2024-01-02,red,1\n"
    )
    assert read_table(path).frame["id"].tolist()[0] == "a b"
    path.write_text(f"@relation r\n{head}{{0 blue}}\n{{1 1}}\n")
    table = read_table(path)
    assert (table.columns, table.frame["c"].tolist()) == (["c", "x"], ["blue", "red"])


def test_folders_name_columns(tmp_path):
    for store in ("01", "1"):
        (tmp_path / f"store={store}").mkdir()
        BASE.to_csv(tmp_path / f"store={store}" / "part.csv", index=False)
    files = chunk_files(tmp_path)
    table = ChunkedTable.of(files, target="y", task="store", n_folds=3)
    assert sorted(
        {name for file in files for chunk in table.chunks(file) for name in chunk.names}
    ) == ["01", "1"]


def test_a_column_in_both_the_file_and_its_folder_name_is_rejected(tmp_path):
    folder = tmp_path / "store=a"
    folder.mkdir()
    BASE.assign(store="b").to_csv(folder / "part.csv", index=False)
    with pytest.raises(DataError, match="'store'"):
        ChunkedTable.of(chunk_files(tmp_path), target="y", task="store")


def test_columns_that_pandas_stores_as_an_index_are_columns_of_a_parquet_file(tmp_path):
    pytest.importorskip("pyarrow")
    frame = BASE.assign(store=np.array(["a", "b"])[np.arange(len(BASE)) % 2])
    for levels in (["store"], ["x", "store"]):
        frame.set_index(levels).to_parquet(tmp_path / "t.parquet")
        table = read_table(tmp_path / "t.parquet")
        assert sorted(table.columns) == sorted(frame.columns)
        assert table.column("store").tolist() == frame.store.tolist()
        assert ChunkedTable.of(
            [tmp_path / "t.parquet"], target="y", task="store"
        ).features == ("x",)
    frame[::2].rename_axis("row").reset_index().set_index("row").rename_axis(
        None
    ).to_parquet(tmp_path / "u.parquet")
    assert read_table(tmp_path / "u.parquet").columns == [*frame.columns]
    frame.rename_axis("row").to_parquet(tmp_path / "v.parquet")
    assert read_table(tmp_path / "v.parquet").columns == ["row", *frame.columns]


def test_lists_in_cells_are_rejected_if_a_number_or_a_name_is_needed(tmp_path):
    pytest.importorskip("pyarrow")
    BASE.assign(x=[[1.0, 2.0]] * len(BASE), task="a").to_parquet(tmp_path / "t.parquet")
    for schema in (
        Schema(1, ("x",), table=True),
        Schema(1, ("x",), table=True, categories={"x": ["a"]}),
    ):
        with pytest.raises(DataError, match="'x'"):
            read_rows(tmp_path / "t.parquet", schema)
    with pytest.raises(DataError, match="'x'"):
        make_dataset(
            read_table(tmp_path / "t.parquet"),
            Roles(targets=("y",), task="task", task_type="regression"),
        )


@pytest.mark.parametrize("dtype", [np.float32, "Float32", "category", "float[pyarrow]"])
def test_float32_names_have_their_own_digits(dtype):
    if dtype == "float[pyarrow]":
        pytest.importorskip("pyarrow")
    column = pd.Series(np.array([0.1, 0.2, 0.1], dtype=np.float32), name="k").astype(
        dtype
    )
    assert Names.of(read_table(column.to_frame()).column("k")).names == ["0.1", "0.2"]


# --- estimators ---


def test_named_targets_are_used_by_name_everywhere():
    X, Y = BASE[["x"]], pd.DataFrame({"b": 2 * BASE.x, "a": 5 - BASE.x})
    model = IndependentRidge(alpha=1e-6).fit(X, Y)
    assert model.score(X, Y[["a", "b"]]) == pytest.approx(1.0)
    again = (
        IndependentRidge(alpha=1e-6)
        .partial_fit(X[:12], Y[:12])
        .partial_fit(X[12:], Y[12:][["a", "b"]])
    )
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-5)
    with pytest.raises(ValueError, match="columns of y"):
        model.score(X, Y.rename(columns={"a": "c"}))


def test_class_weights_of_absent_labels_are_rejected():
    y = np.where(BASE.x > 0, "yes", "no")
    with pytest.raises(ValueError, match="Yes"):
        TraceNormMTLClassifier(class_weight={"Yes": 3}).fit(BASE[["x"]], y)
    TraceNormMTLClassifier(class_weight={"yes": 3, "no": 1, "other": 1}).fit(
        BASE[["x"]], y
    )


def test_ids_are_compared_as_dates_and_not_across_types():
    X, days = (
        BASE[["x"]].to_numpy(),
        pd.Series(pd.date_range("2024-01-01", periods=3).repeat(8)),
    )
    model = IndependentRidge(unseen="mean").fit(
        X, BASE.y, task_id=days.astype("datetime64[ns]")
    )
    expected = model.predict(X, task_id=days.astype("datetime64[ns]"))
    for same in (
        days.astype("datetime64[s]"),
        days.dt.date,
        days.dt.tz_localize("UTC"),
        days.astype(object),
    ):
        np.testing.assert_array_equal(model.predict(X, task_id=same), expected)
    with pytest.raises(ValueError, match="texts"):
        model.predict(X, task_id=days.astype(str))


@pytest.mark.parametrize(
    ("fitted", "new_ids"),
    [
        ([0, 1, 2], [False, True, False]),
        ([False, True, True], [0, 1, 1]),
        (
            pd.period_range("2024-01", periods=3, freq="M"),
            pd.date_range("2024-01-01", periods=3, freq="MS"),
        ),
        (
            pd.date_range("2024-01-01", periods=3, freq="MS"),
            pd.period_range("2024-01", periods=3, freq="M"),
        ),
        (["0", "1", "2"], [0, 1, 2]),
    ],
)
def test_ids_of_another_type_are_rejected(fitted, new_ids):
    X = BASE[["x"]].to_numpy()
    model = IndependentRidge().fit(X, BASE.y, task_id=np.repeat(np.asarray(fitted), 8))
    with pytest.raises(ValueError, match="of that type"):
        model.predict(X[:3], task_id=new_ids)


@pytest.mark.slow
@pytest.mark.parametrize("chain", [TemporalGroupLasso, FusedMTL])
def test_a_chain_of_texts_that_contain_numbers_causes_a_warning(chain):
    """Texts are ordered alphabetically, so w10 precedes w2; with leading zeros the
    order matches that of numbers and columns.
    """
    X = BASE[["x"]].to_numpy()
    with pytest.warns(UserWarning, match="w1, w10, w2"):
        chain().fit(X, BASE.y, task_id=["w1", "w2", "w10"] * 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for ids in (
            ["w01", "w02", "w10"],
            [1, 2, 10],
            pd.date_range("2024-01-01", periods=3),
        ):
            chain().fit(X, BASE.y, task_id=np.tile(np.asarray(ids), 8))
        chain().fit(X, pd.DataFrame({"w2": BASE.y, "w10": BASE.y, "w1": -BASE.y}))


def test_a_scorer_finds_the_tasks_inside_a_search_or_raises_an_error():
    t = np.repeat([0, 1, 2], 8)
    X, y = np.column_stack([BASE.x, t]), BASE.y + 10 * t
    cv, model = (
        TaskStratifiedKFold(2, task_column=1, random_state=0),
        TraceNormMTL(task_column=1),
    )
    search = GridSearchCV(model, {"alpha": [1.0]}, cv=cv, scoring=task_scorer("rmse"))
    alone, inside = (
        cross_validate(e, X, y, cv=cv, scoring=task_scorer("rmse"))["test_score"]
        for e in (model, search)
    )
    np.testing.assert_allclose(inside, alone)
    plain = TraceNormMTL().fit(BASE[["x"]], y, task_id=t)
    with pytest.raises(ValueError, match="task_id"):
        task_scorer("rmse")(plain, BASE[["x"]], y)


@pytest.mark.parametrize(
    "wrapper", ["target", "stack", "bag", "moved", "scaled", "frozen"]
)
def test_a_scorer_finds_the_tasks_behind_wrappers_and_steps_that_move_columns(wrapper):
    t = np.arange(150) % 3
    X = np.column_stack([RNG.normal(size=(150, 2)), t])
    y = X[:, 0] * 10.0**t + RNG.normal(size=150) * 10.0**t
    plain = IndependentRidge(task_column=2)
    model = {
        "target": TransformedTargetRegressor(plain, transformer=StandardScaler()),
        "stack": StackingRegressor([("a", plain)]),
        "bag": BaggingRegressor(plain, n_estimators=2, random_state=0),
        "moved": make_pipeline(
            make_column_transformer(("passthrough", [2, 0, 1])),
            IndependentRidge(task_column=0),
        ),
        "scaled": make_pipeline(StandardScaler(), plain),
        "frozen": FrozenEstimator(clone(plain).fit(X[:100], y[:100])),
    }[wrapper].fit(X[:100], y[:100])
    wrong = y[100:] - model.predict(X[100:])
    expected = np.mean([np.sqrt(np.mean(wrong[t[100:] == k] ** 2)) for k in range(3)])
    assert task_scorer("rmse")(model, X[100:], y[100:]) == pytest.approx(
        -expected, rel=1e-9
    )


def test_a_scorer_rejects_a_model_without_tasks():
    X, y = (
        np.column_stack([RNG.normal(size=40), np.arange(40) % 2]),
        RNG.normal(size=40),
    )
    model = Ridge().fit(X, y)
    with pytest.raises(ValueError, match="task_column"):
        task_scorer("rmse")(model, X, y)
    assert task_scorer("rmse", task_column=1)(model, X, y) < 0


def test_probabilities_of_several_targets_work_in_cross_val_predict():
    Y = np.column_stack([BASE.x > 0, BASE.y > 0, BASE.x > BASE.y]).astype(int)
    for method in ("predict", "decision_function", "predict_proba"):
        assert cross_val_predict(
            IndependentLogistic(), BASE, Y, cv=2, method=method
        ).shape == (24, 3)


def test_known_categories_cause_no_message():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Known(["a"], "c").codes(pd.Series(["a ", None]))[1] == {}


def test_names_that_differ_only_in_spelling_resemble_each_other():
    for unknown, name in [
        ("00095", "95"),
        ("95.0", "95"),
        ("95", "0095"),
        ("p07", "P7"),
        ("North East", "northeast"),
        ("\uff19\uff15", "95"),
        ("A 01", "a1"),
        ("2020-1-5", "2020-01-05"),
    ]:
        assert similar_names([unknown], ["1", name, "x"]) == {unknown: name}


@pytest.mark.parametrize(
    ("unknown", "name"),
    [
        ("950", "95"),
        ("1.05", "1.5"),
        ("0.5", "5"),
        ("-7", "7"),
        ("9 5x", "95"),
        ("0", ""),
    ],
)
def test_different_names_do_not_resemble_each_other(unknown, name):
    assert similar_names([unknown], [name]) == {}


#: Integers that no float holds.
HUGE = [10**400, -(10**400), 10**5000]


@pytest.mark.cover
@pytest.mark.parametrize("huge", HUGE, ids=["long", "negative", "longer"])
@pytest.mark.parametrize("column", ["x", "t", "y"])
@pytest.mark.parametrize("others", [[1, 2], [0.5, None], ["a", "b"]])
def test_integers_beyond_all_floats_are_refused_with_their_column(huge, column, others):
    frame = pd.DataFrame({"x": [0.5, 1.5, 3.0] * 8, "t": list("aab") * 8})
    frame["y"] = np.arange(24.0)
    cells = [*others, huge] * 8
    frame[column] = pd.Series(cells, dtype=object)
    with pytest.raises(DataError, match=f"'{column}'"):
        make_dataset(table_of_frame(frame), Roles(targets="y", task="t", keep="*"))


@pytest.mark.parametrize("huge", HUGE, ids=["long", "negative", "longer"])
def test_new_rows_with_integers_beyond_all_floats_are_refused(huge):
    schema = Schema(1, ("x",), task_column="t", table=True, tasks=("1", "2"))
    for column in ("x", "t"):
        frame = pd.DataFrame({"x": [1, 2], "t": ["1", "2"]}, dtype=object)
        frame[column] = pd.Series([huge, 1], dtype=object)
        with pytest.raises(DataError, match=f"'{column}'"):
            new_rows(table_of_frame(frame, like=schema), schema)
