"""The example service predicts like its model."""

import json
import runpy
from pathlib import Path

import pandas as pd
import pytest
from all_cases import all_cases

import mtlrun

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
EXAMPLES = Path(__file__).parents[1] / "examples"
TABLE = EXAMPLES / "simulated-grades.csv"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Return the model of a comparison and a client of its service."""
    from fastapi.testclient import TestClient

    folder = tmp_path_factory.mktemp("model")
    options = {"methods": ["HierarchicalMTL"], "splits": 2, "repeats": 1, "folds": 2}
    roles = {"target": "grade", "task": "school"}
    frame = pd.read_csv(TABLE)[::3]
    mtlrun.compare(frame, **roles, **options).save(folder)
    service = runpy.run_path(str(EXAMPLES / "service.py"))
    with TestClient(service["create_app"](folder)) as client:
        yield mtlrun.load_model(folder), client


def rows():
    return pd.read_csv(TABLE).drop(columns="grade").head(5)


def test_a_single_row_and_a_batch_are_predicted_like_by_the_model(served):
    model, client = served
    expected = model.predict(rows())
    records = rows().to_dict("records")
    for sent in (records, records[:1]):
        answer = client.post("/predict", json={"rows": sent, "interval": 0.9})
        assert answer.status_code == 200
        actual = [row["prediction"] for row in answer.json()]
        assert actual == pytest.approx(expected[: len(sent)])
        assert answer.json()[0]["lower"] < actual[0] < answer.json()[0]["upper"]


def test_the_service_lists_the_columns_that_the_model_needs(served):
    model, client = served
    description = client.get("/about").json()
    assert description["outputs"] == ["grade"]
    assert description["columns"] == list(model.feature_names_in_)
    assert description["versions"]["mtlrun"] == mtlrun.__version__


def test_a_row_of_an_unknown_task_is_flagged_and_other_rows_are_predicted(served):
    _, client = served
    sent = rows().to_dict("records")
    sent[1]["school"] = "no such school"
    answer = client.post("/predict", json={"rows": sent, "interval": 0.9})
    assert answer.status_code == 200
    numbers = [[row["prediction"], row["lower"]] for row in answer.json()]
    assert numbers[1] == [None, None]
    assert None not in numbers[0]
    assert [row["is_known_task"] for row in answer.json()][:2] == [True, False]


def test_a_task_that_is_written_differently_is_named_in_its_row(served):
    _, client = served
    sent = rows().to_dict("records")
    sent[1]["school"] = f" {sent[0]['school'].upper()}"
    answer = client.post("/predict", json={"rows": sent})
    similar = [row["similar_task"] for row in answer.json()]
    assert similar == [None, sent[0]["school"], None, None, None]


def body(**changes):
    """Return the text of a request with one row, whose values may be no valid JSON."""
    row = {**rows().to_dict("records")[0], **changes}
    return json.dumps({"rows": [row]})


@all_cases(
    "content",
    [
        body(age=10**19),
        body(age=10**400),
        body(age=float("nan")),
        body(age=float("inf")),
        body(age=True).replace("true", "NaN"),
        body(age=[1]),
        body(age={"x": 1}),
        body(age="x" * 20_000),
        body(age="\udc80"),
        body(school="a\ud800b"),
        body(**{"a\udfff": 1}),
        body(secret=1),
        body(grade=1.0),
        body(age=0).replace(": 0,", ": " + "9" * 5000 + ","),
        '{"rows": ' + "[" * 20_000,
        '{"rows": [[]]}',
        '{"rows": [{}]}',
        '{"rows": [null]}',
        '{"rows": [], "interval": NaN}',
        b'{"rows": [{"\xff": 1}]}',
        "",
    ],
)
def test_rows_that_no_table_holds_are_rejected(served, content):
    _, client = served
    answer = client.post(
        "/predict", content=content, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422
    assert answer.json()["detail"]


def test_rows_with_names_of_their_own_are_rejected_before_a_frame_is_built(
    served, monkeypatch
):
    _, client = served

    def refuse(*args, **options):
        raise AssertionError("a frame was built")

    monkeypatch.setattr(pd, "DataFrame", refuse)
    sent = [{f"column {number}": 1} for number in range(10_000)]
    answer = client.post("/predict", json={"rows": sent})
    assert answer.status_code == 422
    assert "column 0" in answer.json()["detail"]


@pytest.mark.cover
@pytest.mark.parametrize("name", ["age", "school", "prior_score"])
@pytest.mark.parametrize(
    "value", [None, True, False, 0, -(2**63), 2**63 - 1, 1e300, -0.5, "", "x", "1,5"]
)
def test_any_cell_is_predicted_or_rejected(served, name, value):
    _, client = served
    records = rows().to_dict("records")
    for sent in (records[:1], records):
        sent[0][name] = value
        answer = client.post("/predict", json={"rows": sent})
        assert answer.status_code in (200, 422)


def test_invalid_rows_are_rejected_with_the_reason(served):
    _, client = served
    sent = [rows().to_dict("records")[0] | {"age": "old"}]
    answer = client.post("/predict", json={"rows": sent})
    assert answer.status_code == 422
    assert "old" in answer.json()["detail"]
