"""The look at a table before anything is fitted."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import mtlrun
from mtlrun.cli.app import app
from mtlrun.errors import UnknownNameError

N = 300


def clinics():
    """Return a table without anything odd."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "clinic": [f"clinic {k}" for k in np.arange(N) % 15],
            "pressure": rng.normal(139, 18, N).round(),
            "weight": rng.normal(70, 9, N).round(1),
            "income": np.exp(rng.normal(8, 1, N)).round(),
            "visits": rng.poisson(0.3, N),
            "change": rng.standard_t(3, N),
        }
    )
    return frame.assign(y=0.1 * frame.pressure + rng.normal(size=N))


def alarms(frame, **options):
    found = mtlrun.check_table(frame, **{"target": "y", "task": "clinic", **options})
    return found[found.is_alarm]


def test_a_table_without_oddities_has_no_findings():
    assert mtlrun.check_table(clinics(), target="y", task="clinic").empty


def test_skewed_and_heavy_tailed_columns_have_no_far_cells():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame(
            {
                "lognormal": np.exp(1.5 * rng.normal(size=N)),
                "very skewed": np.exp(3 * rng.normal(size=N)),
                "normal": rng.normal(size=N),
                "laplace": rng.laplace(size=N),
                "near zero": np.abs(rng.normal(10, 5, N)),
                "counts": rng.negative_binomial(0.5, 0.1, N),
                "rare": (rng.random(N) < 0.02).astype(int),
            }
        )
        assert alarms(frame, target=(), task=None).empty


@pytest.mark.parametrize("value", [13682.0, 1.3682, -139.0])
def test_a_mistyped_cell_is_named_with_its_row_column_and_task(value, tmp_path):
    frame = clinics()
    frame.loc[57, "pressure"] = value
    path = tmp_path / "clinics.csv"
    frame.to_csv(path, index=False)
    (row,) = alarms(path).to_dict("records")
    assert row["kind"] == "far cell"
    assert row["column"] == "pressure"
    assert row["task"] == frame.clinic[57]
    # Line 1 holds the names of the columns.
    assert row["location"].endswith("clinics.csv:59")
    assert f"{value:g}" in row["text"]


def test_a_cell_that_is_far_within_its_task_only_is_found():
    frame = clinics()
    level = 1000.0 * (np.arange(N) % 15)
    frame["pressure"] += level
    frame.loc[57, "pressure"] -= level[57]
    (row,) = alarms(frame).to_dict("records")
    assert (row["kind"], row["column"]) == ("far cell", "pressure")
    assert row["location"].endswith("row 58")


@pytest.mark.parametrize(
    ("name", "other"), [("clinic 3", "Clinic 3"), ("a 007", "A 7"), ("8.0", "08")]
)
def test_names_of_tasks_and_categories_that_are_alike_are_found(name, other):
    frame = clinics()
    frame["clinic"] = frame.clinic.replace("clinic 3", name)
    frame.loc[3, "clinic"] = other
    frame["word"] = frame.clinic
    found = alarms(frame)
    assert list(found.kind) == ["alike names", "alike names"]
    assert set(found.column) == {"clinic", "word"}
    assert all(other in text and name in text for text in found.text)


@pytest.mark.parametrize("factor", [1000.0, 0.1])
def test_a_task_in_another_unit_is_found(factor):
    frame = clinics()
    frame.loc[frame.clinic == "clinic 4", "weight"] *= factor
    found = alarms(frame)
    assert "other unit" in set(found.kind)
    (row,) = found[found.kind == "other unit"].to_dict("records")
    assert (row["column"], row["task"]) == ("weight", "clinic 4")


def test_another_unit_in_more_than_a_fifth_of_the_tasks_is_none():
    frame = clinics()
    four = [f"clinic {k}" for k in range(4)]  # of 15
    frame.loc[frame.clinic.isin(four), "weight"] *= 1000.0
    assert alarms(frame).empty


def test_columns_that_give_the_target_away_are_found():
    frame = clinics().assign(line=lambda f: 3 - 2 * f.y)
    assert list(alarms(frame).column) == ["line"]
    labels = np.where(frame.y > frame.y.mean(), "high", "low")
    frame = frame.drop(columns="line").assign(y=labels, code=labels == "high")
    assert list(alarms(frame).column) == ["code"]
    # A category that goes with one label by chance, in a few rows, is none.
    few = frame.drop(columns="code").assign(id=[f"k{k}" for k in range(N)])
    assert alarms(few).empty


def test_targets_and_columns_that_are_sums_of_columns_are_found():
    frame = clinics().assign(total=lambda f: f.visits + f.pressure)
    (row,) = mtlrun.check_table(frame, target="y", task="clinic").to_dict("records")
    assert (row["kind"], row["is_alarm"]) == ("sum of columns", False)
    assert row["column"] in ("total", "visits", "pressure")
    frame = clinics().assign(y=lambda f: (2 * f.weight - 3 * f.change).round(6))
    (row,) = alarms(frame).to_dict("records")
    assert (row["kind"], row["column"]) == ("sum of columns", "y")
    assert "weight, change" in row["text"]
    # As many columns as rows explain everything, which shows nothing.
    wide = np.random.default_rng(0).normal(size=(60, 30))
    few_rows = pd.DataFrame(wide).rename(columns=str).assign(y=wide[:, 0] ** 2)
    assert alarms(few_rows, task=None).empty


@pytest.mark.filterwarnings("ignore:invalid value")
def test_sums_are_found_beside_infinite_and_missing_cells():
    frame = clinics().assign(y=lambda f: (2 * f.weight - 3 * f.change).round(6))
    frame.loc[3, "weight"] = np.inf
    frame.loc[5, "change"] = np.nan
    found = alarms(frame)
    assert "y" in found.column[found.kind == "sum of columns"].tolist()


def test_repeated_rows_are_alarms_where_targets_are_measured():
    frame = clinics()
    twice = pd.concat([frame, frame], ignore_index=True)
    (row,) = alarms(twice).to_dict("records")
    assert row["kind"] == "repeated rows"
    assert "300 rows of 600" in row["text"]
    categories = pd.DataFrame({"x": np.arange(N) % 3, "y": np.arange(N) % 2})
    found = mtlrun.check_table(categories, target="y")
    assert list(found.kind) == ["repeated rows"]
    assert not found.is_alarm.any()


def test_useless_columns_and_tasks_of_one_row_are_noted():
    frame = clinics().assign(one=1, copy=lambda f: f.weight, id=np.arange(N))
    frame.loc[0, "clinic"] = "elsewhere"
    found = mtlrun.check_table(frame, target="y", task="clinic")
    assert not found.is_alarm.any()
    assert set(zip(found.kind, found.column, strict=True)) == {
        ("constant column", "one"),
        ("equal columns", "weight"),
        ("row numbers", "id"),
        ("task of one row", "clinic"),
    }


def test_rows_without_a_task_are_an_alarm_at_the_first_of_them():
    frame = clinics()
    frame.loc[[3, 5], "clinic"] = None
    found = mtlrun.check_table(frame, target="y", task="clinic")
    (row,) = found[found.kind == "empty task"].to_dict("records")
    assert row["location"] == "data frame: row 4"
    assert row["is_alarm"]


def visits(as_dates=False):
    """Return 15 patients with 8 visits each, sorted by day."""
    rng = np.random.default_rng(0)
    day = np.tile(np.arange(8) * 7, 15)
    frame = pd.DataFrame({"patient": np.repeat([f"p{k}" for k in range(15)], 8)})
    frame["day"] = day
    if as_dates:
        frame["day"] = (
            pd.Timestamp("2024-01-01") + pd.to_timedelta(day, "D")
        ).strftime("%Y-%m-%d")
    return frame.assign(pulse=rng.normal(70, 9, 120), y=rng.normal(size=120))


@pytest.mark.parametrize("as_dates", [False, True])
def test_time_that_runs_backwards_within_a_task_is_named_with_its_rows(as_dates):
    frame = visits(as_dates)
    assert alarms(frame, task="patient").empty
    # The same times in another order are no mistake.
    shuffled = frame.sample(frac=1, random_state=0)
    assert alarms(shuffled, task="patient", time="day").empty
    frame.loc[[34, 35], "day"] = frame.loc[[35, 34], "day"].to_numpy()
    (row,) = alarms(frame, task="patient").to_dict("records")
    assert (row["kind"], row["column"]) == ("time runs backwards", "day")
    assert row["task"] == "p4"
    assert row["location"] == "data frame: row 36"
    assert "data frame: row 35" in row["text"]


def test_only_a_named_column_or_a_date_or_a_name_such_as_day_is_a_time():
    frame = visits().rename(columns={"day": "dose"})
    frame.loc[[34, 35], "dose"] = frame.loc[[35, 34], "dose"].to_numpy()
    assert alarms(frame, task="patient").empty
    assert list(alarms(frame, task="patient", time="dose").column) == ["dose"]


def test_a_date_of_another_century_is_far_from_all_others():
    frame = visits(as_dates=True)
    frame.loc[39, "day"] = "2124-02-19"
    found = alarms(frame, task="patient")
    assert list(found.kind) == ["far cell"]
    assert "2124-02-19" in found.text[0]
    assert "2024-01-01 to 2024-02-19" in found.text[0]


def test_rare_labels_beside_values_of_single_rows_are_not_given_away():
    x = np.zeros(N)
    x[:20] = np.arange(1, 21)
    label = np.zeros(N, dtype=int)
    label[:10] = 1
    frame = pd.DataFrame({"x": x, "y": label, "weight": clinics().weight})
    assert alarms(frame, task=None).empty
    frame["x"] = np.where(label == 1, 5, x)
    assert list(alarms(frame, task=None).column) == ["x"]


def test_tasks_that_differ_gradually_are_in_the_same_unit():
    frame = clinics()
    codes = np.arange(N) % 15
    frame["share"] = np.where(codes == 0, 3, np.where(codes == 1, 5, 22)) + frame.y / 99
    assert alarms(frame).empty


def messy(tmp_path):
    """Return the path of a table with two far cells, and its frame."""
    frame = clinics()
    frame.loc[57, "pressure"] = 13682
    frame.loc[130, "y"] = -900
    path = tmp_path / "clinics.csv"
    frame.to_csv(path, index=False)
    return path, frame


FAST = {"methods": ["PooledRidge"], "splits": 2, "folds": 2, "repeats": 1}


@pytest.fixture(scope="module")
def tidy_leaderboard(tmp_path_factory):
    """Return the leaderboard of the messy table without its two odd rows."""
    _, frame = messy(tmp_path_factory.mktemp("tidy"))
    tidy_frame = frame.drop(index=[57, 130])
    roles = {"target": "y", "task": "clinic", **FAST}
    return mtlrun.compare(tidy_frame, **roles).leaderboard


@pytest.mark.parametrize("as_frame", [False, True])
def test_rows_are_dropped_and_cells_clipped_only_on_demand(
    as_frame, tidy_leaderboard, tmp_path
):
    path, frame = messy(tmp_path)
    source = frame if as_frame else path
    roles = {"target": "y", "task": "clinic", **FAST}
    before = mtlrun.compare(source, **roles)
    assert before.model.about["dataset"]["edits"] == []
    result = mtlrun.compare(source, **roles, drop_rows=True)
    scores = ["method", "rmse"]
    pd.testing.assert_frame_equal(result.leaderboard[scores], tidy_leaderboard[scores])
    (edit,) = result.model.about["dataset"]["edits"]
    assert "2 rows dropped" in edit
    assert edit in result.board.facts
    assert not any("look at the table" in fact for fact in result.board.facts)


def test_clipped_cells_are_the_nearest_of_the_others(tmp_path):
    path, frame = messy(tmp_path)
    roles = {"target": "y", "task": "clinic", **FAST}
    lines = []
    result = mtlrun.compare(path, **roles, clip=True, say=lines.append)
    clipped = frame.copy()
    clipped.loc[57, "pressure"] = frame.pressure.drop(57).max()
    clipped.loc[130, "y"] = frame.y.drop(130).min()
    expected = mtlrun.compare(clipped, **roles).leaderboard
    scores = ["method", "rmse"]
    pd.testing.assert_frame_equal(result.leaderboard[scores], expected[scores])
    (edit,) = [line for line in lines if line.startswith("--clip")]
    assert "2 cells clipped" in edit
    assert "clinics.csv:59" in edit


@pytest.mark.slow
def test_a_training_names_what_can_change_its_answer_and_drops_it_on_demand(tmp_path):
    path, _ = messy(tmp_path)
    out = tmp_path / "out"
    mtlrun.compare(path, target="y", task="clinic", **FAST).save(out)
    command = ["train", str(out / "chosen.yaml"), "--data-dir", str(out / "data")]
    result = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "all")])
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.stderr.splitlines() if "13682" in line]
    assert ":59)" in line
    command += ["-o", str(tmp_path / "runs"), "--drop-rows"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "2 rows dropped" in result.stdout
    assert "13682" not in result.stderr
    (page,) = (tmp_path / "runs").rglob("report.html")
    assert "2 rows dropped" in page.read_text()
    (edit,) = mtlrun.load_model(page.parent).about["dataset"]["edits"]
    assert "2 rows dropped" in edit


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_sheet_of_a_workbook_stays_the_table_of_all_jobs(n_jobs, tmp_path):
    frame = clinics()
    with pd.ExcelWriter(tmp_path / "book.xlsx") as book:
        pd.DataFrame({"note": ["read me"]}).to_excel(book, sheet_name="Info")
        frame.to_excel(book, sheet_name="Visits", index=False)
    source = f"{tmp_path / 'book.xlsx'}#Visits"
    roles = {"target": "y", "task": "clinic", **FAST}
    result = mtlrun.compare(source, **roles, jobs=n_jobs)
    expected = mtlrun.compare(frame, **roles)
    scores = ["method", "rmse"]
    pd.testing.assert_frame_equal(
        result.leaderboard[scores], expected.leaderboard[scores]
    )
    out = tmp_path / "out"
    result.save(out)
    command = ["train", str(out / "chosen.yaml"), "--data-dir", str(out / "data")]
    trained = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "runs")])
    assert trained.exit_code == 0, trained.output


def test_test_rows_of_a_file_are_neither_dropped_nor_clipped(tmp_path):
    path, frame = messy(tmp_path)
    test = frame.iloc[:60]
    options = {"methods": ["PooledRidge"], "folds": 2}
    for name in ("drop_rows", "clip"):
        roles = {"target": "y", "task": "clinic", name: True}
        result = mtlrun.compare(path, test=test, **options, **roles)
        assert result.board.evaluation.y.min() > -900
        assert len(result.board.evaluation.rows[0]) == 60


def test_a_data_set_that_is_no_table_is_looked_at_too():
    from dataclasses import replace

    from mtlrun.data import load_dataset
    from mtlrun.data.roles.check import dataset_findings

    dataset = load_dataset("simulated-families", variant="equal")
    assert not dataset_findings(dataset)
    X = dataset.X.copy()
    X[7, 3] = 1e5
    (finding,) = dataset_findings(replace(dataset, X=X))
    assert (finding.kind, finding.column) == ("far cell", "x4")
    assert finding.location == "data set simulated-families: row 8"


def test_dropped_columns_are_not_looked_at_and_unknown_ones_are_refused():
    frame = clinics().assign(line=lambda f: 3 - 2 * f.y)
    assert alarms(frame, drop="line").empty
    with pytest.raises(UnknownNameError, match="clinics"):
        mtlrun.check_table(frame, target="y", task="clinics")


def test_a_comparison_names_what_can_change_its_answer():
    frame = clinics()
    frame.loc[57, "pressure"] = 13682
    lines = []
    roles = {"target": "y", "task": "clinic", **FAST}
    result = mtlrun.compare(frame, **roles, say=lines.append)
    assert any("look at the table: 13682" in line for line in lines)
    assert any("look at the table: 13682" in fact for fact in result.board.facts)
