"""Analyses of the gains of the atlas, on made-up gains with known answers."""

import math
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from typer.testing import CliRunner

from mtlrun.cli.app import app
from mtlrun.comparison.differences import GAINS, read_lines
from mtlrun.errors import ConfigError
from mtlrun.papers.atlas.analyses import (
    METHODS,
    PROPERTIES,
    methods,
    prediction,
    read_gains,
    summary,
)

ROWS = (5, 20, 100)


def gains(rule, seeds=(0, 1), kinds=("groups", "targets"), tables=12):
    """Return gains that follow a rule of random properties."""
    rng = np.random.default_rng(0)
    records = []
    for table in range(tables):
        table_properties = {
            "tasks": rng.integers(2, 50),
            "features": rng.integers(2, 30),
            "rank": rng.random(),
        }
        for rows in ROWS:
            traits = {
                **table_properties,
                "rows_per_task": rows,
                "tasks_share": rng.random() / 2,
                "noise": rng.random() / 2,
            }
            for seed in seeds:
                value = rule(traits, rng) + 0.001 * seed
                line = {
                    "table": f"t{table}",
                    "kind": kinds[table % len(kinds)],
                    "rows": rows,
                    "seed": seed,
                }
                over = {
                    "over_linear": value + 0.1,
                    "over_independent": value + 0.2,
                    "gain": value,
                }
                records.append(
                    {
                        **line,
                        **over,
                        "low": value - 0.05,
                        "high": value + 0.05,
                        **traits,
                    }
                )
    return pd.DataFrame(records)


@pytest.fixture
def write(tmp_path):
    """Return a function that writes gains into a file and returns its path."""

    def written(frame, name="gains.csv"):
        path = tmp_path / name
        path.write_text("# made 2026-11-25\n" + frame.to_csv(index=False))
        return str(path)

    return written


def test_means_are_taken_over_the_seeds_or_one_seed(write):
    name = write(gains(lambda t, _: 0.1))
    assert read_gains(name)["gain"].tolist() == pytest.approx([0.1005] * 36)
    assert read_gains(name, 1)["gain"].tolist() == pytest.approx([0.101] * 36)
    assert read_lines(name)[1] == "2026-11-25"
    with pytest.raises(ConfigError, match="seed 2"):
        read_gains(name, 2)


def test_a_file_without_a_date_is_rejected(tmp_path):
    path = tmp_path / "gains.csv"
    path.write_text("table,kind\n")
    with pytest.raises(ConfigError, match=r"gains\.csv:1") as caught:
        read_lines(str(path))
    assert "atlas_tables" in caught.value.remedy


def test_the_summary_counts_gains_by_number_of_rows(write):
    name = write(gains(lambda t, _: {5: 0.2, 20: 0.02, 100: -0.2}[t["rows_per_task"]]))
    result = summary(None, seed=0, published=name)
    assert result.values["settings"] == 36
    assert result.values["gained"] == pytest.approx(2 / 3)
    assert (result.values["clearly"], result.values["clearly_not"]) == pytest.approx(
        (1 / 3, 1 / 3)
    )
    assert [result.values[name] for name in ("few", "some", "many")] == pytest.approx(
        [0.2005, 0.0205, -0.1995]
    )
    assert result.values["few_alone"] - result.values["few"] == pytest.approx(0.2)
    assert result.values["same_sign"] == 1
    curve = result.curves["gain over the best without"]
    assert (curve.x, curve.y) == (
        [5, 20, 100],
        pytest.approx([0.2005, 0.0205, -0.1995]),
    )
    assert np.shape(result.matrices["gain"].values) == (12, 3)
    groups = summary(None, seed=0, published=name, kinds=["groups"])
    assert (groups.values["tables"], groups.matrices) == (6, {})
    with pytest.raises(ConfigError, match="labels"):
        summary(None, seed=0, published=name, kinds=["labels"])


def test_the_summary_has_medians_and_counts_gains_that_are_not_clear(write):
    # Gains of 20 rows are above 0 with intervals that contain it.
    frame = gains(lambda t, _: {5: 0.2, 20: 0.02, 100: -0.2}[t["rows_per_task"]])
    frame.loc[frame["table"] == "t0", ["over_linear", "over_independent"]] = 0.9
    result = summary(None, seed=0, published=write(frame))
    assert result.values["few_linear"] == pytest.approx(0.3005)
    assert result.values["few_alone"] == pytest.approx(0.4005)
    assert result.curves["tables that gain"].y == [1.0, 1.0, 0.0]


def test_a_gain_of_zero_is_no_gain_where_always_saying_no_is_right(write, few_draws):
    frame = gains(lambda t, _: 0.0, seeds=(0,))
    frame["gain"] = np.where(frame["rows"] == 5, 0.1, 0.0)
    values = prediction(None, seed=0, published=write(frame)).values
    assert values["sign_no"] == pytest.approx(2 / 3)
    difference = values["sign_right"] - values["sign_no"]
    assert values["sign_over_no"] == pytest.approx(difference)


@pytest.mark.slow
def test_a_gain_that_follows_from_the_properties_is_predicted_and_noise_is_not(
    write, few_draws
):
    linear = write(
        gains(
            lambda t, _: 0.3 - 0.1 * np.log(t["rows_per_task"]) + 0.3 * t["tasks_share"]
        )
    )
    predicted = prediction(None, seed=0, published=linear)
    assert predicted.values["rank_correlation"] > 0.95
    assert predicted.values["correlation_low"] > 0.9
    assert predicted.values["sign_right"] > predicted.values["sign_no"]
    assert predicted.values["explained"] > 0.8
    rows = {row[0]: row[1:] for row in predicted.tables["Coefficients"]["rows"]}
    assert list(rows) == list(PROPERTIES)
    assert rows["rows_per_task"][2] < 0 < rows["tasks_share"][1]
    noise = write(gains(lambda t, rng: rng.normal(0, 0.2)))
    predicted = prediction(None, seed=0, published=noise)
    assert predicted.values["correlation_low"] < 0.1
    assert predicted.values["sign_over_no"] < 0.15


@pytest.mark.slow
def test_a_table_left_out_reveals_nothing_about_itself(write, few_draws):
    """Each table has one gain without any informative property, so the sign of the
    other tables is wrong for each.
    """
    frame = gains(lambda t, _: 0.0)
    frame["gain"] = np.where(
        frame["table"].isin(["t0", "t1", "t2", "t3", "t4", "t5"]), 0.1, -0.1
    )
    for name in PROPERTIES:
        frame[name] = 1.0
    assert prediction(None, seed=0, published=write(frame)).values["sign_right"] == 0


@pytest.mark.slow
def test_real_tables_can_be_predicted_from_simulated_ones(write, few_draws):
    name = write(gains(lambda t, rng: rng.normal(), kinds=("groups", "simulated")))
    assert prediction(None, seed=0, published=name, real=True).values["tables"] == 6


@pytest.fixture
def few_draws(monkeypatch):
    monkeypatch.setattr("mtlrun.papers.atlas.analyses.N_DRAWS", 10)


@pytest.mark.parametrize("real", [False, True])
def test_no_setting_of_a_table_is_used_to_predict_it(write, few_draws, real):
    kinds = ("groups", "simulated")
    frame = gains(lambda t, rng: rng.normal(0, 0.4), seeds=(0,), kinds=kinds)
    values = prediction(None, seed=0, published=write(frame), real=real).values
    X = frame[list(PROPERTIES)].astype(float)
    X[["rows_per_task", "tasks", "features"]] = np.log(X[X.columns[:3]])
    y = frame["gain"].clip(-0.5, 0.5).to_numpy()
    predicted = np.empty(len(y))
    for index, name in enumerate(frame["table"]):
        others = (frame["table"] != name).to_numpy()
        centre = X[others].mean()
        scale = X[others].std(ddof=0)
        Z = ((X - centre) / scale).to_numpy()
        gram = Z[others].T @ Z[others] + 5.0 * np.eye(Z.shape[1])
        mean = y[others].mean()
        coef = np.linalg.solve(gram, Z[others].T @ (y[others] - mean))
        predicted[index] = mean + Z[index] @ coef
    is_scored = (frame["kind"] == "groups").to_numpy() | (not real)
    y, predicted = y[is_scored], predicted[is_scored]
    explained = 1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert values["explained"] == pytest.approx(explained)
    assert values["rank_correlation"] == pytest.approx(
        spearmanr(predicted, y).statistic
    )
    assert values["sign_right"] == pytest.approx(np.mean((predicted > 0) == (y > 0)))
    assert values["sign_no"] == pytest.approx(np.mean(y <= 0))
    assert (values["settings"], values["tables"]) == (len(y), 6 if real else 12)


def test_negative_transfer_and_ranks_match_the_definitions(write):
    frame = gains(lambda t, _: 0.1, seeds=(0,))
    lines = []
    for _, row in frame.iterrows():
        setting = {name: row[name] for name in ("table", "kind", "rows")}
        for method, family, error, over in [
            ("A", "multi-task", 0.5, 0.2),
            ("B", "multi-task", 0.7, -0.1 if row["rows"] == 5 else 0.1),
            ("C", "independent", 0.6, 0.0),
            ("TaskMean", "trivial", 1.0, -0.5),
        ]:
            lines.append(
                {
                    **setting,
                    "method": method,
                    "family": family,
                    "error": error,
                    "over_alone": over,
                }
            )
    result = methods(
        None,
        seed=0,
        published=[write(pd.DataFrame(lines), "methods.csv"), write(frame)],
    )
    assert result.values["methods"] == 2
    assert result.values["negative"] == pytest.approx(1 / 6)
    assert result.values["negative_loss"] == pytest.approx(0.1)
    assert (result.values["worst"], result.values["least"]) == pytest.approx((1 / 3, 0))
    assert result.values["best_negative"] == 0
    assert (result.values["rivals"], result.values["separated"]) == (2, 2)
    for rows in ("all", "5 or 10 rows", "20 or 50 rows", "100 or 200 rows"):
        table = result.tables[f"Signed ranks, {rows} per task"]
        assert [row[:2] for row in table["rows"]] == [
            ["A", 1.0],
            ["C", 2.0],
            ["B", 3.0],
        ]
        (first, *others) = table["rows"]
        assert first[2:] == [None] * 6
        effects = [math.log(0.6 / 0.5), math.log(0.7 / 0.5)]
        assert [row[2] for row in others] == pytest.approx(effects, abs=1e-4)
        assert [row[3:6] for row in others] == [[12, 0, 0]] * 2
        # Twelve tables of one sign: 2 / 2^12, and twice that after Holm's adjustment.
        assert [row[6] for row in others] == pytest.approx([2**-11] * 2, rel=1e-2)
        assert [row[7] for row in others] == pytest.approx([2**-10] * 2, rel=1e-2)
    negative = {
        row[0]: row[1:] for row in result.tables["Negative transfer by method"]["rows"]
    }
    assert negative["B"] == [36, 1.0, 0.0, 0.0, 0.333, 0.1]
    (gain_map,) = result.matrices.values()
    assert (gain_map.rows, gain_map.columns[0]) == (["A", "B"], "groups, few")


def test_one_kind_is_listed_by_table_and_few_tables_are_not_ranked(write):
    frame = gains(lambda t, _: 0.1, seeds=(0,), tables=8)
    errors = {"A": 0.5, "IndependentRidge": 0.6, "IndependentLogistic": 0.6}
    lines = [
        {
            **{name: row[name] for name in ("table", "kind", "rows")},
            "method": method,
            "error": error,
            "over_alone": -0.7,
        }
        | {"family": "multi-task" if method == "A" else "independent"}
        for _, row in frame.iterrows()
        for method, error in errors.items()
        if method == "A" or method.endswith("Logistic") == (row["table"] == "t0")
    ]
    published = [write(pd.DataFrame(lines), "methods.csv"), write(frame)]
    result = methods(None, seed=0, published=published, kinds=["groups"])
    assert list(result.tables) == ["Negative transfer by method"]
    (gain_map,) = result.matrices.values()
    assert (gain_map.rows, gain_map.values) == (["t0", "t2", "t4", "t6"], [[-0.5]] * 4)
    tables = methods(None, seed=0, published=published).tables
    ranked = tables["Signed ranks, 5 or 10 rows per task"]["rows"]
    assert [row[0] for row in ranked] == ["A", "IndependentRidge"], (
        "logistic regression counts as ridge regression"
    )
    assert sum(ranked[1][3:6]) == 8


def test_methods_with_the_same_errors_are_not_separated(write):
    frame = gains(lambda t, _: 0.1, seeds=(0,))
    rng = np.random.default_rng(0)
    lines = []
    for _, row in frame.iterrows():
        for method, family in (("A", "multi-task"), ("B", "independent")):
            line = {name: row[name] for name in ("table", "kind", "rows")}
            line |= {"method": method, "family": family, "over_alone": 0.0}
            lines.append({**line, "error": rng.uniform(0.4, 0.6)})
    published = [write(pd.DataFrame(lines), "methods.csv"), write(frame)]
    result = methods(None, seed=0, published=published)
    assert (result.values["rivals"], result.values["separated"]) == (1, 0)


@pytest.mark.slow
def test_the_files_are_created_from_a_run(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "runs"
    chosen = ["--profile", "smoke", "--only", "method=5 rows,method=20 rows"]
    assert (
        CliRunner()
        .invoke(app, ["reproduce", "atlas/gain", *chosen, "-o", str(folder)])
        .exit_code
        == 0
    )
    (tmp_path / "atlas").mkdir()
    script = runpy.run_path(
        str(Path(__file__).parents[3] / "scripts" / "atlas_tables.py")
    )
    monkeypatch.setattr(
        "sys.argv",
        [
            "atlas_tables.py",
            str(folder / "atlas" / "gain" / "smoke"),
            "--to",
            str(tmp_path),
        ],
    )
    script["main"]()
    assert capsys.readouterr().out.splitlines()[-1].endswith("methods.csv")
    frame = read_gains(str(tmp_path / GAINS))
    assert frame["table"].tolist() == ["equal tasks"] * 2 + ["unrelated tasks"] * 2
    assert frame["rows"].tolist() == [5, 20, 5, 20]
    assert (frame["kind"] == "simulated").all()
    assert frame["rows_per_task"].tolist() == [5, 20, 5, 20]
    assert (frame["low"] < frame["gain"]).all()
    values = methods(
        None, seed=0, published=[str(tmp_path / METHODS), str(tmp_path / GAINS)]
    ).values
    assert values["methods"] == 2
