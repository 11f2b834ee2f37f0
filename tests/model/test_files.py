"""Models on disk: loaded models predict as saved ones, are readable without mtlrun, and
run no unknown code.
"""

import hashlib
import io
import json
import subprocess
import sys
import threading
import zipfile
from collections import defaultdict
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_array

from mtlrun.catalog.registry import METHODS, build
from mtlrun.errors import DataError, UnknownNameError, UserError
from mtlrun.estimators.baselines import PerTask
from mtlrun.features import FourierFeatures, WeightedDegree
from mtlrun.model import files as models
from mtlrun.model.files import Model, load_model, save_model, used
from mtlrun.utils.io import DIGEST, sealed

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 5))
Y = np.where(
    X @ RNG.standard_normal((5, 4)) + 0.3 * RNG.standard_normal((40, 4)) > 0, 1.0, -1.0
)
IDS = np.repeat(np.arange(4), 10)


def _facts(**changes):
    facts = {
        "name": "train/a",
        "task_type": "binary",
        "design": "shared",
        "tasks": ["a", "b", "c", "d"],
        "input": {
            "n_features": 5,
            "names": ["v", "w", "x", "y", "z"],
            "strings": False,
        },
        "estimator": {"name": "R"},
        "dataset": {"id": "d"},
    }
    return facts | changes


class Foreign(Ridge):
    """An estimator unknown to mtlrun."""


@pytest.mark.cover(name=METHODS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.usefixtures("few_trees")
def test_every_method_survives_a_round_trip(tmp_path, name):
    params = {}
    if METHODS[name].extra == "nn":
        pytest.importorskip("torch")
        params = {"max_iter": 3}
    if name.startswith(("Robust", "Divide")):
        params = {"lam": 0.8}  # The default is for more tasks.
    if name.startswith("Divide"):
        params = {"base": {"estimator": "RobustMTL", "params": params}, "n_blocks": 2}
    shared = build({"estimator": name, "params": params}).fit(X, Y)
    ragged = build({"estimator": name, "params": params}).fit(
        X, Y[np.arange(40), IDS], task_id=IDS
    )
    for folder, model, ids in (
        (tmp_path / "s", shared, None),
        (tmp_path / "r", ragged, IDS),
    ):
        saved = Model(model, None, _facts())
        save_model(folder, saved)
        np.testing.assert_array_equal(
            load_model(folder).scores(X, ids), saved.scores(X, ids)
        )
        np.testing.assert_array_equal(
            load_model(folder).labels(X, ids), saved.labels(X, ids)
        )


def test_coefficients_and_metadata_are_readable_with_numpy_and_json(tmp_path):
    step = StandardScaler().fit(X)
    model = build("IndependentRidge").fit(step.transform(X), Y)
    save_model(tmp_path, Model(model, step, _facts()))
    with np.load(tmp_path / "coefficients.npz", allow_pickle=False) as table:
        assert table["tasks"].tolist() == ["a", "b", "c", "d"]
        assert table["features"].tolist() == ["v", "w", "x", "y", "z"]
        by_hand = (X - step.mean_) / step.scale_ @ table["coef"].T + table["intercept"]
    np.testing.assert_allclose(load_model(tmp_path).scores(X), by_hand, rtol=1e-10)
    facts = json.loads((tmp_path / "model.json").read_text())
    assert (facts["schema"], facts["tasks"], set(facts["files"])) == (
        1,
        ["a", "b", "c", "d"],
        {"model.skops", "coefficients.npz"},
    )


def test_one_hot_features_have_names(tmp_path):
    strings = np.array([b"AC", b"GT"] * 5)
    step = WeightedDegree(degree=1).fit(strings)
    model = build("IndependentRidge").fit(step.transform(strings), np.arange(10.0))
    facts = _facts(input={"n_features": 2, "names": [], "strings": True}, tasks=["a"])
    save_model(tmp_path, Model(model, step, facts))
    with np.load(tmp_path / "coefficients.npz") as table:
        assert table["features"].tolist()[:5] == ["1:A", "1:C", "1:G", "1:T", "2:A"]
    assert load_model(tmp_path).scores(strings).shape == (10,)


def test_an_archive_is_read_for_its_types_only_where_the_user_trusts_some(
    tmp_path, monkeypatch
):
    save_model(tmp_path, Model(build("IndependentRidge").fit(X, Y), None, _facts()))
    readings = []
    get_untrusted_types = skops.io.get_untrusted_types

    def counted(**archive):
        readings.append(archive)
        return get_untrusted_types(**archive)

    monkeypatch.setattr(skops.io, "get_untrusted_types", counted)
    load_model(tmp_path)
    assert len(readings) == 0
    load_model(tmp_path, ["a.Class"])
    assert len(readings) == 1


def test_a_model_without_coefficients_removes_those_of_an_earlier_one(tmp_path):
    save_model(tmp_path, Model(build("IndependentRidge").fit(X, Y), None, _facts()))
    bayes = PerTask(GaussianNB()).fit(X, Y)
    save_model(tmp_path, Model(bayes, None, _facts()))
    assert not (tmp_path / "coefficients.npz").exists()
    np.testing.assert_array_equal(load_model(tmp_path).labels(X), bayes.predict(X))


def test_sparse_input_works(tmp_path):
    model = build("IndependentRidge").fit(sp.csr_matrix(X), Y)
    save_model(tmp_path, Model(model, None, _facts()))
    np.testing.assert_allclose(
        load_model(tmp_path / "model.skops").scores(sp.csr_matrix(X)), model.predict(X)
    )


def test_fourier_features_may_precede_a_model(tmp_path):
    step = FourierFeatures(8).fit(X)
    model = build({"estimator": "FETR", "params": {}}).fit(step.transform(X), Y)
    save_model(tmp_path, Model(model, step, _facts()))
    loaded = load_model(tmp_path)
    np.testing.assert_allclose(loaded.step.transform(X), step.transform(X))
    np.testing.assert_allclose(
        loaded.estimator.task_covariance_, model.task_covariance_
    )


def test_unknown_types_are_rejected_unless_trusted(tmp_path):
    save_model(tmp_path, Model(PerTask(Foreign()).fit(X, Y), None, _facts()))
    name = f"{Foreign.__module__}.Foreign"
    with pytest.raises(UserError, match="mtlrun does not know") as caught:
        load_model(tmp_path)
    assert caught.value.remedy is not None
    assert f"--trust {name}" in caught.value.remedy
    assert name in str(caught.value)
    assert f"trust={name!r}" in str(caught.value)
    assert "--" not in str(caught.value)
    for trusted in (name, name.replace(".Foreign", ":Foreign")):
        assert load_model(tmp_path, [trusted]).scores(X).shape == Y.shape


def test_trees_load_without_trust_and_a_forged_one_is_rejected(tmp_path):
    tree = PerTask(DecisionTreeClassifier(random_state=0)).fit(X, Y)
    save_model(tmp_path, Model(tree, None, _facts()))
    np.testing.assert_array_equal(load_model(tmp_path).labels(X), tree.predict(X))
    table = tree.estimators_[2].tree_
    state = table.__getstate__()
    state["nodes"] = state["nodes"].copy()
    state["nodes"]["left_child"][0] = 1 << 40
    table.__setstate__(state)
    save_model(tmp_path, Model(tree, None, _facts()))
    with pytest.raises(DataError):
        load_model(tmp_path)


def _with_function(function):
    """Return a model whose predictions call a function on each row."""
    pipeline = make_pipeline(FunctionTransformer(function), Ridge())
    return Model(PerTask(pipeline).fit(X, Y), None, _facts())


def test_a_partial_of_a_checked_function_loads_without_trust(tmp_path):
    harmless = partial(check_array, dtype=[np.float64], ensure_all_finite=False)
    model = _with_function(harmless)
    save_model(tmp_path, model)
    np.testing.assert_array_equal(load_model(tmp_path).scores(X), model.scores(X))


@pytest.mark.parametrize(
    "function",
    [
        partial(np.multiply, 2.0),
        partial(check_array, estimator="name"),
        partial(check_array, dtype="numeric"),
        partial(partial(np.multiply, 2.0)),
    ],
)
def test_other_partials_load_only_if_partials_are_trusted(tmp_path, function):
    model = _with_function(function)
    save_model(tmp_path, model)
    with pytest.raises(UserError) as caught:
        load_model(tmp_path)
    assert "--trust functools.partial" in caught.value.remedy
    loaded = load_model(tmp_path, ["functools.partial"])
    np.testing.assert_array_equal(loaded.scores(X), model.scores(X))


def test_a_partial_in_a_hidden_place_is_rejected(tmp_path):
    model = PerTask(Ridge()).fit(X, Y)
    model.extra_ = defaultdict(partial(np.multiply, 2.0))
    save_model(tmp_path, Model(model, None, _facts()))
    with pytest.raises(UserError):
        load_model(tmp_path)


def doubled(rows):
    return 2 * rows


def test_a_partial_of_a_function_that_is_trusted_by_name_loads(tmp_path):
    model = _with_function(partial(doubled))
    save_model(tmp_path, model)
    name = f"{doubled.__module__}.doubled"
    with pytest.raises(UserError):
        load_model(tmp_path)
    loaded = load_model(tmp_path, [name])
    np.testing.assert_array_equal(loaded.scores(X), model.scores(X))


def test_our_types_include_nothing_that_runs_code():
    containers = "mtlrun.solvers.hierarchical."  # Of arrays, without code
    assert all(
        name.startswith(("mtlrun.estimators.", "mtlrun.features.", containers))
        for name in models.TRUSTED
    )


def test_other_files_are_rejected(tmp_path):
    with pytest.raises(DataError, match="no model here"):
        load_model(tmp_path)
    save_model(tmp_path, Model(build("IndependentRidge").fit(X, Y), None, _facts()))
    archive = (tmp_path / "model.skops").read_bytes()
    (tmp_path / "model.skops").write_bytes(archive[:-1] + bytes([archive[-1] ^ 1]))
    with pytest.raises(DataError, match=r"model\.json"):
        load_model(tmp_path)
    (tmp_path / "model.skops").unlink()
    with pytest.raises(DataError, match="No such file"):
        load_model(tmp_path)
    for text, reason in [
        ("{", "cannot be read"),
        ("[]", "object"),
        ('{"schema": 1}', "no model"),
    ]:
        (tmp_path / "model.json").write_text(text)
        with pytest.raises(DataError, match=reason):
            load_model(tmp_path)


def test_a_model_of_an_option_that_was_removed_is_refused_with_file_and_remedy(
    tmp_path,
):
    model = build("HierarchicalMTL").fit(X, Y)
    save_model(tmp_path, Model(model, None, _facts()))
    # An earlier version has saved it.
    model.prior = "student"
    _forged(tmp_path, skops.io.dumps({"estimator": model, "step": None}))
    with pytest.raises(DataError, match=r"model\.skops(.|\n)*prior='normal'"):
        load_model(tmp_path)


@pytest.mark.parametrize("name", ["model.json", "model.skops", "coefficients.npz"])
def test_a_changed_character_in_any_file_is_rejected(tmp_path, name):
    save_model(tmp_path, Model(build("IndependentRidge").fit(X, Y), None, _facts()))
    assert load_model(tmp_path).facts["tasks"] == _facts()["tasks"]
    content = (tmp_path / name).read_bytes()
    if (
        name == "model.json"
    ):  # Still a valid description of a model, with another task name
        position = content.index(b'"tasks"')
        changed = content[:position] + content[position:].replace(b'"a"', b'"b"', 1)
        reason = "changed after it was written"
    else:
        changed = content[:-1] + bytes([content[-1] ^ 1])
        reason = "not the file"
    assert changed != content
    (tmp_path / name).write_bytes(changed)
    with pytest.raises(DataError, match=reason):
        load_model(tmp_path)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(DataError, match="absent: no model"):
        load_model(tmp_path / "absent")
    with pytest.raises(DataError, match="absent: no model"):
        load_model(tmp_path / "absent" / "model.skops")


def _forged(folder, archive):
    """Replace the archive of a model, and its hash."""
    (folder / "model.skops").write_bytes(archive)
    facts = json.loads((folder / "model.json").read_text())
    facts.pop(DIGEST)
    facts["files"]["model.skops"] = hashlib.sha256(archive).hexdigest()
    (folder / "model.json").write_text(json.dumps(sealed(facts)))


@pytest.mark.parametrize(
    "change", ["no zip", "loader", "content", "protocol", "pickled array"]
)
def test_a_forged_archive_is_rejected(tmp_path, change):
    save_model(tmp_path, Model(build("IndependentRidge").fit(X, Y), None, _facts()))
    with zipfile.ZipFile(tmp_path / "model.skops") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    tree = json.loads(parts["schema.json"])
    if change == "loader":
        tree["__loader__"] = "Nothing"
    elif change == "content":
        del tree["content"]
    elif change == "protocol":
        tree["protocol"] = 99
    elif change == "pickled array":
        pickled = io.BytesIO()
        np.save(pickled, np.array([{}], dtype=object), allow_pickle=True)
        parts |= {name: pickled.getvalue() for name in parts if name.endswith(".npy")}
    forged = io.BytesIO()
    with zipfile.ZipFile(forged, "w") as archive:
        for name, content in (
            parts | {"schema.json": json.dumps(tree).encode()}
        ).items():
            archive.writestr(name, content)
    _forged(tmp_path, b"no archive" if change == "no zip" else forged.getvalue())
    with pytest.raises(DataError, match=r"model\.skops: cannot be read") as caught:
        load_model(tmp_path)
    assert caught.value.remedy is not None


def _compressed(members, schema):
    return zipfile.ZIP_DEFLATED, members


def _sparse_bomb(members, schema):
    """Return a sparse matrix of 300 kB in the file and 300 MB in memory."""
    content = io.BytesIO()
    with (
        zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as inner,
        inner.open("data.npy", "w") as stream,
    ):
        for _ in range(300):
            stream.write(bytes(1 << 20))
    array = next(name for name in members if name.endswith(".npy"))
    members["schema.json"] = schema.replace(array, "bomb.npz").encode()
    return zipfile.ZIP_STORED, members | {"bomb.npz": content.getvalue()}


def _one_array_many_times(members, schema):
    """Return 20 arrays of 14 MB that share one member."""
    array = next(name for name in members if name.endswith(".npy"))
    big = io.BytesIO()
    np.save(big, np.zeros(14 << 17))
    content = json.loads(schema)
    node = {
        "__class__": "ndarray",
        "__module__": "numpy",
        "__loader__": "NdArrayNode",
        "type": "numpy",
        "file": array,
    }
    objects = [node | {"__id__": k} for k in range(25)]
    step = {
        "__class__": "list",
        "__module__": "builtins",
        "__loader__": "ListNode",
        "content": objects,
        "__id__": 99,
    }
    content["content"]["step"] = step
    return zipfile.ZIP_STORED, members | {
        "schema.json": json.dumps(content).encode(),
        array: big.getvalue(),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack",
    [_compressed, _sparse_bomb, _one_array_many_times],
    ids=lambda f: f.__name__,
)
def test_an_archive_that_expands_is_rejected_before_it_is_read(
    tmp_path, attack, monkeypatch
):
    save_model(tmp_path, Model(Ridge().fit(X, Y), None, _facts()))
    with zipfile.ZipFile(tmp_path / "model.skops") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    how, members = attack(members, members["schema.json"].decode())
    forged = io.BytesIO()
    with zipfile.ZipFile(forged, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    _forged(tmp_path, forged.getvalue())
    monkeypatch.setattr("skops.io.loads", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(DataError, match=r"model\.skops: ") as caught:
        load_model(tmp_path)
    assert "the model again" in caught.value.remedy


def test_types_that_skops_cannot_store_are_reported(tmp_path):
    model = build("IndependentRidge").fit(X, Y)
    model.alpha = threading.Lock()
    with pytest.raises(UserError, match="without pickle"):
        save_model(tmp_path, Model(model, None, _facts()))
    assert not (tmp_path / "model.json").exists()


def test_tasks_go_by_name_and_unnamed_tasks_by_position():
    model = Model(None, None, _facts(design="ragged"))
    assert model.codes(["b", "a"], "x.csv").tolist() == [1, 0]
    for positions in (
        ["3"],
        np.array([0, 3]),
    ):  # They have no meaning for named tasks.
        with pytest.raises(UnknownNameError):
            model.codes(positions, "x.csv")
    counted = Model(
        None, None, _facts(tasks=[f"task {t}" for t in range(4)], design="ragged")
    )
    assert counted.codes(["task 1", "3"], "x.csv").tolist() == [1, 3]
    assert counted.codes(np.array([0, 3]), "x.csv").tolist() == [0, 3]
    with pytest.raises(UserError, match="the model has 4"):
        counted.codes(np.array([4]), "x.csv")
    with pytest.raises(UnknownNameError, match=r"2.*'e'"):
        model.codes(["a", "e"], "x.csv")
    numbered = Model(None, None, _facts(tasks=["1", "2"], design="ragged"))
    assert numbered.codes(["1", "2"], "x.csv").tolist() == [0, 1]
    with pytest.raises(UnknownNameError):
        numbered.codes(["0"], "x.csv")


@pytest.mark.slow
def test_a_network_is_saved_and_read_without_torch(tmp_path):
    save_model(tmp_path, Model(Ridge().fit(X, Y), None, _facts()))
    # The comparison and its page are imported, too; they do not import matplotlib.
    code = (
        "import sys, mtlrun.comparison.compare, mtlrun.comparison.page\n"
        "from pathlib import Path; from mtlrun.model.files import Model, "
        "load_model, save_model, used\n"
        "model = load_model(sys.argv[1]); save_model(Path(sys.argv[1], 'again'), "
        "model)\n"
        "assert not {'torch', 'cupy', 'dask', 'matplotlib'} & sys.modules.keys()\n"
        "from skops.io._trusted_types import SKLEARN_ESTIMATOR_TYPE_NAMES as known\n"
        "assert len(known) > 150 and 'sklearn.linear_model._ridge.Ridge' in known\n"
        "assert not [name for name, module in sys.modules.items() if module is None "
        "and 'array_api' in name]\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_errors_of_a_loaded_model_name_the_model(tmp_path):
    with pytest.raises(DataError, match=tmp_path.name), used(tmp_path):
        np.zeros(3)[7]
    with pytest.raises(UserError, match="mine"), used(tmp_path):
        raise UserError("mine")
