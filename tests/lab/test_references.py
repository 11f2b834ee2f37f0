"""Reference numbers in a published table next to the experiment."""

import pytest

from mtlrun.catalog.analysis import read_printed
from mtlrun.errors import ConfigError
from mtlrun.lab.experiment.load import load_experiment, validate_file

EXPERIMENT = """\
schema: 1
id: made/table
title: A table with printed numbers
datasets: [school, landmine]
split: {kind: random, train: 0.5, trials: 2}
metrics: [nmse]
methods:
  - {label: STL, estimator: IndependentRidge}
  - {label: MTL, estimator: JointFeatureMTL}
reference:
  - {dataset: school, method: STL, quantity: nmse, value: 0.5}
  - {file: table.csv, quantity: nmse, percent: true, n: 20}
"""


@pytest.fixture
def write(tmp_path):
    def write(table, experiment=EXPERIMENT):
        (tmp_path / "table.csv").write_text(table, encoding="utf-8")
        path = tmp_path / "table.yaml"
        path.write_text(experiment, encoding="utf-8")
        return path

    return write


def test_the_numbers_of_a_table_replace_its_entry(write):
    path = write("data set,STL,MTL\nschool,84.50 (2),.9±.05\nlandmine,-,1\n")
    first, *others = load_experiment(path).config["reference"]
    assert first["value"] == 0.5
    filled = [{k: v for k, v in entry.items() if v is not None} for entry in others]
    assert filled == [
        {
            "dataset": "school",
            "method": "STL",
            "quantity": "nmse",
            "value": 0.845,
            "decimals": 4,
            "n": 20,
        },
        {
            "dataset": "school",
            "method": "MTL",
            "quantity": "nmse",
            "value": 0.009,
            "std": 0.0005,
            "decimals": 3,
            "n": 20,
        },
        {
            "dataset": "landmine",
            "method": "MTL",
            "quantity": "nmse",
            "value": 0.01,
            "decimals": 2,
            "n": 20,
        },
    ]


def test_columns_may_be_quantities_and_rows_tasks(write):
    experiment = EXPERIMENT.replace(
        "quantity: nmse, percent: true, n: 20", "method: STL, leave_out: [landmine]"
    )
    path = write('data set,task,nmse\n"school",3,1.5\nlandmine,4,2\n', experiment)
    entry = load_experiment(path).config["reference"][-1]
    assert (entry["method"], entry["quantity"], entry["task"], entry["value"]) == (
        "STL",
        "nmse",
        "3",
        1.5,
    )
    assert len(load_experiment(path).config["reference"]) == 2


@pytest.mark.parametrize(
    ("table", "location"),
    [
        (
            "data set,STL,MTL\nschool,84.5,8x\n",
            r"table\.csv:2: column 'MTL': '8x' is not a number",
        ),
        (
            "data set,STL,MTL\nschool,84.5\n",
            r"table\.csv:2: 2 cells, but the first line names 3 columns",
        ),
        ("STL,MTL\n1,2\n", r"table\.csv:1: the first line must name the columns"),
        (
            "data set,STL,STL\nschool,1,2\n",
            r"table\.csv:1: the first line must name the columns",
        ),
        (
            'data set,STL,MTL\n"school,1,2\n',
            r"table\.csv: cannot be read: unexpected end",
        ),
    ],
)
def test_an_invalid_cell_is_located(write, table, location):
    path = write(table)
    with pytest.raises(ConfigError, match=location) as caught:
        validate_file(path)
    assert "as printed" in caught.value.remedy


def test_all_invalid_cells_are_located_at_once(write):
    with pytest.raises(
        ConfigError, match=r"csv:2: column 'STL'.*\n.*csv:3: column 'STL'"
    ):
        validate_file(write("data set,STL,MTL\nschool,a,1\nlandmine,b,2\n"))


def test_an_unknown_method_is_located_in_the_table(write):
    with pytest.raises(ConfigError, match=r"table\.yaml:12:\d+: unknown method 'MTFL'"):
        validate_file(write("data set,STL,MTFL\nschool,1,2\n"))


def test_a_missing_table_and_unknown_fields_are_named(write, tmp_path):
    path = write("data set,STL\n")
    with pytest.raises(
        ConfigError, match=r"unknown key 'percents'(.|\n)*did you mean 'percent'"
    ):
        validate_file(
            write("data set,STL\n", EXPERIMENT.replace("percent", "percents"))
        )
    (tmp_path / "table.csv").unlink()
    path.write_text(EXPERIMENT)
    with pytest.raises(ConfigError, match=r"table\.csv: cannot be read"):
        validate_file(path)


def test_the_printed_decimals_are_kept(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("data set,a,b,c\nx,84.50,3,.98\n")
    assert [number.decimals for number in read_printed(path, "t.csv")] == [2, 0, 2]


@pytest.mark.parametrize("field", ["absolute", "relative", "sigmas", "error_rate"])
def test_the_numbers_inherit_the_tolerance_of_their_table(write, field):
    experiment = EXPERIMENT.replace("n: 20}", f"{field}: 0.1, n: 20}}")
    _, *numbers = load_experiment(
        write("data set,STL\nschool,84.5\n", experiment)
    ).config["reference"]
    assert [number[field] for number in numbers] == [0.1]
