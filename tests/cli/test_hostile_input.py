"""Untrusted names and files cause one clear error or harmless results."""

import csv
import hashlib
import json
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from mtlrun.estimators.baselines import PerTask
from mtlrun.model.files import Model, save_model
from mtlrun.utils.io import sealed

pytestmark = pytest.mark.rendered

ESCAPE = "\x1b[31m\x1b]0;owned\x07"
NAMES = [
    "<script>alert(1)</script>",
    "=cmd()",
    "@sum",
    r"\input{/etc/passwd}",
    '"><img src=x>',
    "../../x",
    f"a{ESCAPE}",
]
CARD = """\
id: mine
title: {title}
task_type: regression
design: shared
reader: {{name: csv, options: {{target: y}}}}
folder: {folder}
files: [{{name: {name}, sha256: unknown, urls: [{{url: "{url}"}}]}}]
licence: none
citation: none
"""
TRAIN = """\
schema: 1
kind: train
id: {id}
dataset: {{id: simulated-rmtl, n: 40, d: 5, m: 3}}
method: {method}
split: {{kind: random, train: 0.5}}
metrics: [auc]
"""


@pytest.fixture
def write_card(tmp_path):
    def write(**changes):
        facts = {
            "title": "Mine",
            "folder": "mine",
            "name": "a.csv",
            "url": "https://example.org/a.csv",
            **changes,
        }
        (tmp_path / "data" / "cards").mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / "cards" / "mine.yaml").write_text(
            CARD.format(**facts), encoding="utf-8"
        )

    return write


def _harmless(result, code=2):
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert not set(result.output) & set("\x1b\x07\u202e")
    return result.output


@pytest.mark.cover
@pytest.mark.parametrize(
    "id",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "a\x1b[2J",
        "\u202emine",
        "",
        "a" * 5000,
        "-x",
        "mine\n",
    ],
)
@pytest.mark.parametrize(
    "command", [("data", "fetch", "--yes"), ("data", "info"), ("data", "verify")]
)
def test_ids_cannot_be_paths_or_escape_sequences(mtlrun, command, id):
    assert (
        "is not the name of a data set" in _harmless(mtlrun(*command, "--", id))
        or len(id) > 1000
    )


@pytest.mark.every(3, others="slow")
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"title": r'"x\e[31m"'}, r"2:8: the invisible character \x1b"),
        ({"title": "\u202eeniM"}, r"2:8: the invisible character \u202e"),
        (
            {"title": "!!python/object/apply:os.system [id]"},
            "2:8: tags ('!...') are not supported",
        ),
        ({"title": "&a [" + "*a, " * 9 + "*a]"}, "an alias that contains itself"),
        ({"folder": "../elsewhere"}, "6:9: 'folder' must be a path below"),
        ({"folder": "cards"}, "6:9: 'folder' must not be"),
        ({"name": "../../a.csv"}, "7:16: 'name' must be a path below"),
        ({"url": "http://example.org/a.csv"}, "must start with https://"),
        ({"url": "file:///etc/passwd"}, "must start with https://"),
    ],
)
def test_untrusted_cards_are_checked(mtlrun, write_card, changes, text):
    write_card(**changes)
    for command in (("list",), ("fetch", "mine", "--yes"), ("add", "mine", "x.csv")):
        assert text in _harmless(mtlrun("data", *command, "--data-dir", "data"))


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/a",
        "ftp://x/a",
        "https://a\\@127.0.0.1/",
        "https://[",
        "/etc/x",
    ],
)
def test_unsafe_addresses_are_not_fetched(mtlrun, write_card, tmp_path, url):
    write_card()
    text = _harmless(
        mtlrun("data", "fetch", "mine", "--data-dir", "data", "--url", url, "--yes")
    )
    assert "only https" in text or "no address" in text
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["cards"]


def test_an_archive_with_paths_is_unpacked_only_below_the_data_directory(
    mtlrun, write_card, tmp_path
):
    write_card()
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("../../../a.csv", "x,y\n1,2\n")
    before = set(tmp_path.rglob("*"))
    assert mtlrun("data", "add", "mine", "a.zip", "--data-dir", "data").exit_code == 0
    new = {
        str(path.relative_to(tmp_path)) for path in set(tmp_path.rglob("*")) - before
    }
    assert new == {"data/mine", "data/mine/a.csv"}


@pytest.mark.parametrize(
    "id", ["../../x", "/tmp/x", "a/../b", "a/b/c", r'"a/\e[2J"', "a/<b>", "a/b.c"]
)
def test_ids_of_training_files_cannot_leave_the_results_folder(mtlrun, tmp_path, id):
    (tmp_path / "t.yaml").write_text(TRAIN.format(id=id, method="IndependentRidge"))
    assert "t.yaml:3:5: " in _harmless(mtlrun("train", "t.yaml"))
    assert [path.name for path in tmp_path.iterdir()] == ["t.yaml"]


@pytest.mark.parametrize(
    "method",
    ["'os:system'", "'../x:Y'", r'"a\eb"', "<script>", "'json.decoder:JSONDecoder'"],
)
def test_invalid_methods_are_rejected(mtlrun, tmp_path, method):
    (tmp_path / "t.yaml").write_text(TRAIN.format(id="a/b", method=method))
    assert "t.yaml" in _harmless(mtlrun("train", "t.yaml"))


@pytest.mark.every(3, others="slow")
@pytest.mark.parametrize(
    "text",
    ["a: &a [*a]", "\0", "[" * 5000, "a: 1\na: 2", "a: " + "9" * 5000, "? [a]\n: b"],
)
@pytest.mark.parametrize("command", ["train", "reproduce", "validate"])
def test_invalid_experiments_are_rejected(mtlrun, tmp_path, command, text):
    (tmp_path / "t.yaml").write_text(text, encoding="utf-8")
    assert "t.yaml" in _harmless(mtlrun(command, "t.yaml"))


def test_an_experiment_with_hostile_labels_and_text_is_rendered_safely(
    mtlrun, write_experiment, tmp_path
):
    labels = [name for name in NAMES if "\x1b" not in name]
    methods = [
        f"  - {{label: {json.dumps(name)}, estimator: IndependentRidge}}"
        for name in labels
    ]
    path = write_experiment(title='title: "<script>alert(1)</script>"')
    path.write_text(
        path.read_text().replace("profiles:", "\n".join([*methods, "profiles:"]), 1)
    )
    result = mtlrun(
        "reproduce", "table.yaml", "--profile", "demo", "--format", "html", "--quiet"
    )
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.iterdir()} == {
        "table.yaml",
        "made_methods.py",
        "results",
    }
    folder = tmp_path / "results/runs/made/table1/demo"
    for name in ("report.md", "report.html"):
        text = (folder / name).read_text()
        assert "<script>alert" not in text
        assert "<img src=x" not in text
    assert r"\input{/etc" not in mtlrun("report", str(folder), "--format", "tex").stdout
    with (folder / "table.csv").open() as stream:
        cells = {cell for row in csv.reader(stream) for cell in row}
    assert not any(cell.startswith(("=", "@")) for cell in cells)
    assert {"'=cmd()", "'@sum"} <= cells


def test_a_table_with_hostile_names_can_be_trained_on_and_predicted(
    mtlrun, write_card, tmp_path
):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 2)), columns=['=1+1"<b>', "b"])
    table["task"] = [NAMES[k % 6] for k in range(60)]
    table["y"] = rng.normal(size=60)
    (tmp_path / "data" / "mine").mkdir(parents=True)
    write_card()
    card = tmp_path / "data/cards/mine.yaml"
    card.write_text(
        card.read_text()
        .replace("target: y", "target: y, task: task")
        .replace("shared", "ragged")
    )
    table.to_csv(tmp_path / "data/mine/a.csv", index=False)
    text = TRAIN.format(id="a/b", method="IndependentRidge").replace("[auc]", "[mse]")
    (tmp_path / "t.yaml").write_text(
        text.replace("id: simulated-rmtl, n: 40, d: 5, m: 3", "id: mine")
    )
    result = mtlrun("train", "t.yaml", "--data-dir", "data")
    _harmless(result, 0)
    # Labels are written unchanged, and escaped for spreadsheets.
    for safe in ([], ["--safe-csv"]):
        result = mtlrun(
            "predict", "results/runs/a/b", "data/mine/a.csv", "-o", "-", *safe
        )
        assert result.exit_code == 0, result.output
        cells = {cell for row in csv.reader(result.stdout.splitlines()) for cell in row}
        assert any(cell.startswith(("=", "@")) for cell in cells) == (not safe)
    assert {path.name for path in tmp_path.iterdir()} == {"t.yaml", "data", "results"}


class Spy:
    """Create a file when unpickled."""

    def __reduce__(self):
        return (exec, ("open('unpickled', 'w')",))


@pytest.fixture
def model(mtlrun, tmp_path):
    (tmp_path / "t.yaml").write_text(TRAIN.format(id="a/b", method="IndependentRidge"))
    assert mtlrun("train", "t.yaml", "-q").exit_code == 0
    pd.DataFrame(np.zeros((2, 5))).to_csv(
        tmp_path / "new.csv", index=False, header=False
    )
    return tmp_path / "results/runs/a/b"


def test_modified_models_are_not_loaded(mtlrun, model, tmp_path):
    archive = model / "model.skops"
    good = archive.read_bytes()
    archive.write_bytes(bytes([good[0]]) + bytes([good[1] ^ 1]) + good[2:])
    text = _harmless(mtlrun("predict", str(model), "new.csv"))
    for content in (good, archive.read_bytes()):
        assert hashlib.sha256(content).hexdigest() in text
    archive.write_bytes(pickle.dumps(Spy()))
    facts = json.loads((model / "model.json").read_text())
    facts["files"]["model.skops"] = hashlib.sha256(archive.read_bytes()).hexdigest()
    _write_facts(model, facts)
    assert "cannot be read" in _harmless(mtlrun("predict", str(model), "new.csv"))
    assert not (tmp_path / "unpickled").exists()


@pytest.mark.parametrize("name", ["m.pkl", "m.joblib", "m.pickle", "m.skops"])
def test_pickled_models_are_not_loaded(mtlrun, tmp_path, name):
    (tmp_path / name).write_bytes(pickle.dumps(Spy()))
    (tmp_path / "new.csv").write_text("1,2\n")
    text = _harmless(mtlrun("predict", name, "new.csv"))
    assert "never loaded" in text
    assert not (tmp_path / "unpickled").exists()


def _write_facts(model, facts):
    rest = {name: value for name, value in facts.items() if name != "digest"}
    (model / "model.json").write_text(json.dumps(sealed(rest)))


@pytest.mark.every(3, others="slow")
@pytest.mark.parametrize(
    "change",
    [
        {"tasks": [1]},
        {"tasks": "ab"},
        {"input": []},
        {"input": {"n_features": "5"}},
        {"files": 3},
        {"schema": "x"},
    ],
)
def test_invalid_model_descriptions_are_rejected(mtlrun, model, change):
    facts = json.loads((model / "model.json").read_text())
    _write_facts(model, {**facts, **change})
    assert "model.json" in _harmless(mtlrun("predict", str(model), "new.csv"))
    for text in ("[" * 100_000, json.dumps({**facts, **change})):
        (model / "model.json").write_text(text)
        assert "model.json" in _harmless(mtlrun("predict", str(model), "new.csv"))


def test_an_untrusted_results_folder_is_handled_safely(
    mtlrun, write_experiment, tmp_path
):
    write_experiment()
    assert mtlrun("reproduce", "table.yaml", "--profile", "demo", "-q").exit_code == 0
    folder = tmp_path / "results/runs/made/table1/demo"
    plan = (folder / "run.json").read_text()
    before = set(tmp_path.rglob("*"))
    content = json.loads(plan)
    for cell in content["cells"]:
        cell["key"] = "../../../../../secret"
    for bad in (
        json.dumps(content),
        "{",
        "[]",
        "[" * 100_000,
        plan.replace('"trial": 0', '"trial": NaN'),
    ):
        (folder / "run.json").write_text(bad)
        for command in (("report",), ("plot", "--kind", "path", "--out", "x.svg")):
            assert "run.json" in _harmless(
                mtlrun(command[0], str(folder), *command[1:])
            )
        assert "run.json" in _harmless(
            mtlrun("report", str(folder), "--merge", str(folder))
        )
    content = json.loads(plan)
    content["title"] = content["config"]["title"] = f"x{ESCAPE}<script>"
    (folder / "run.json").write_text(json.dumps(content))
    _harmless(mtlrun("report", str(folder)), 0)
    _harmless(mtlrun("report", str(folder), "--format", "md"), 0)
    assert set(tmp_path.rglob("*")) == before


def test_predict_rejects_a_model_whose_trees_contain_a_cycle(mtlrun, tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = PerTask(HistGradientBoostingRegressor(max_iter=2)).fit(X, X)
    model.estimators_[0]._predictors[0][0].nodes["left"][0] = 0
    facts = {
        "name": "a",
        "task_type": "regression",
        "design": "shared",
        "tasks": ["a", "b"],
    }
    facts |= {
        "input": {"n_features": 2, "names": ["v", "w"], "strings": False},
        "estimator": {},
        "dataset": {},
    }
    save_model(tmp_path / "model", Model(model, None, facts))
    (tmp_path / "rows.csv").write_text("v,w\n1,2\n")
    text = _harmless(mtlrun("predict", "model", "rows.csv"))
    assert (
        "model.skops: a HistGradientBoostingRegressor in it is damaged or forged"
        in text
    )
    assert "you trust" in " ".join(text.split())
