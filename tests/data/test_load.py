"""From a name to a data set: options, variants, samples, fingerprints, and statistics
of real files.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from all_cases import all_cases
from threadpoolctl import threadpool_limits

import mtlrun.data
from mtlrun.data import Dataset, dataset_fingerprint, load_dataset
from mtlrun.data.sets.cards import card_paths, load_card
from mtlrun.data.sets.files import missing_files
from mtlrun.data.sets.load import compare_statistics
from mtlrun.errors import DataError, UnknownNameError

ARFF = (
    b"@relation 'x: -C 2'\n@attribute a {0,1}\n@attribute b {0,1}\n"
    b"@attribute c numeric\n@data\n"
    + b"".join(b"%d,%d,%d\n" % (i % 2, i % 3 == 0, i) for i in range(12))
)
REAL = [
    "enron",
    "delicious",
    "bibtex",
    "corel5k",
    "mediamill-excerpt",
    "mediamill",
    "eurlex-dc",
]
MINE = ["digits", "simulated-rmtl", "simulated-fetr", "gauss2d"]


@pytest.fixture
def mine(own_set: Any) -> Any:
    return own_set.write("mulan", {"t.arff": ARFF}, {"arff": ["t.arff"]}, "binary")


def test_load_adds_metadata(mine: Any, own_set: Any) -> None:
    data = mine()
    assert (data.id, data.title, data.simulated) == ("mine", "mine", False)
    assert data.fingerprint == dataset_fingerprint("mine", data_dir=own_set.folder)
    assert data.options["split_rows"] is None
    assert (data.n_samples, data.n_features, data.n_tasks) == (12, 1, 2)


def test_options_override_the_card(mine: Any) -> None:
    assert list(mine(split_rows={"half": 6}).splits) == ["half"]


def test_unknown_options_variants_and_data_sets_are_rejected(
    mine: Any, lacking: Any
) -> None:
    with pytest.raises(UnknownNameError) as caught:
        mine(split_row=1)
    assert not lacking(caught.value, "mine", "'split_row'", "'split_rows'?")
    with pytest.raises(UnknownNameError, match="'sampel'"):
        mine(sampel=1)
    with pytest.raises(
        UnknownNameError, match="unknown variant of simulated-rmtl 'valeu'"
    ):
        load_dataset("simulated-rmtl", variant="valeu")
    with pytest.raises(UnknownNameError, match="unknown data set 'enrno'"):
        load_dataset("enrno")
    with pytest.raises(DataError, match="is not the name of a data set"):
        load_dataset("../enron")


@pytest.mark.parametrize(
    "option",
    [{"seed": -1}, {"seed": 1.5}, {"seed": True}, {"sample": -1}, {"sample_seed": -1}],
)
def test_seeds_and_samples_are_integers(option: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=f"{next(iter(option))} must be"):
        load_dataset("simulated-rmtl", **option)
    assert (
        load_dataset(
            "simulated-rmtl", n=20, seed=np.int64(3), sample=np.int32(5)
        ).n_samples
        == 5
    )


def test_samples_have_the_requested_number_of_rows(mine: Any, own_set: Any) -> None:
    data, full = mine(sample=5, sample_seed=3), mine()
    rows = np.sort(np.random.default_rng(3).permutation(12)[:5])
    np.testing.assert_array_equal(data.X, full.X[rows])
    np.testing.assert_array_equal(data.y, full.y[rows])
    assert data.fingerprint == dataset_fingerprint(
        "mine", data_dir=own_set.folder, sample=5, sample_seed=3
    )
    for wrong in (0, 13):
        with pytest.raises(DataError, match=f"sample .*{wrong}"):
            mine(sample=wrong)


def test_binary_labels_are_encoded_as_signs(mine: Any, own_set: Any) -> None:
    plain, coded = mine(), mine(coding="0/1")
    assert np.array_equal(coded.y, (plain.y + 1) / 2)
    assert (plain.zero_one, coded.zero_one) == (False, True)
    assert np.array_equal(coded.X, plain.X)
    prints = {
        dataset_fingerprint("mine", data_dir=own_set.folder, coding=c)
        for c in ("-1/+1", "0/1")
    }
    assert prints == {plain.fingerprint, coded.fingerprint}
    assert len(prints) == 2
    with pytest.raises(DataError, match=r"coding.*-1/\+1.*0/1.*'1/2'"):
        mine(coding="1/2")
    with pytest.raises(DataError, match="not for regression"):
        load_dataset("simulated-fetr", coding="0/1")


def test_samples_of_ragged_sets_keep_all_tasks() -> None:
    data = load_dataset("gauss2d", n=100, sample=30)
    assert data.task_id is not None
    assert data.task_id.shape == data.y.shape == (30,)
    assert data.tasks == ["task 0", "task 1"]


def test_fingerprints_differ_exactly_if_the_data_differ(
    mine: Any, own_set: Any
) -> None:
    def fingerprint(**options: Any) -> str:
        return dataset_fingerprint("mine", data_dir=own_set.folder, **options)

    base = fingerprint()
    different = [
        fingerprint(split_rows={"half": 6}),
        fingerprint(sample=5),
        fingerprint(sample=5, sample_seed=1),
        fingerprint(sample=6),
    ]
    own_set.write(
        "mulan", {"t.arff": ARFF + b"1,1,5\n"}, {"arff": ["t.arff"]}, "binary"
    )
    different.append(fingerprint())
    assert len({base, *different}) == 6
    own_set.write("mulan", {"t.arff": ARFF}, {"arff": ["t.arff"]}, "binary")
    card = own_set.folder / "cards" / "mine.yaml"
    card.write_text(card.read_text().replace("title: mine", "title: another title"))
    assert fingerprint() == base


def test_fingerprints_of_simulated_sets_depend_on_their_options() -> None:
    base = dataset_fingerprint("simulated-rmtl")
    assert base != dataset_fingerprint("simulated-rmtl", seed=1)
    assert dataset_fingerprint(
        "simulated-rmtl", variant="value"
    ) == dataset_fingerprint("simulated-rmtl", kind="value")


def test_simulated_targets_do_not_depend_on_threads() -> None:
    targets = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            targets.append(
                load_dataset("simulated-rmtl", kind="value", n=500, d=400, m=200).y
            )
    np.testing.assert_array_equal(*targets)


def test_fingerprints_do_not_parse_files(own_set: Any) -> None:
    load = own_set.write(
        "mulan", {"t.arff": b"no arff at all"}, {"arff": ["t.arff"]}, "binary"
    )
    assert len(dataset_fingerprint("mine", data_dir=own_set.folder)) == 64
    with pytest.raises(DataError, match="expected @relation"):
        load()


def test_the_container_does_not_change_the_data(mine: Any, own_set: Any) -> None:
    import gzip

    base = dataset_fingerprint("mine", data_dir=own_set.folder)
    (own_set.folder / "mine" / "t.arff").unlink()
    (own_set.folder / "mine" / "t.arff.gz").write_bytes(gzip.compress(ARFF))
    assert dataset_fingerprint("mine", data_dir=own_set.folder) == base


@pytest.mark.parametrize(
    ("reader", "message"),
    [
        ("nothing", "unknown reader of mine.yaml 'nothing'"),
        ("mulan:x", "Did you mean 'mulan'?"),
    ],
)
def test_unknown_readers_are_rejected(own_set: Any, reader: str, message: str) -> None:
    assert message in own_set.error(reader, {"t.arff": ARFF})


def test_the_package_imports_its_names_lazily() -> None:
    assert all(getattr(mtlrun.data, name) is not None for name in mtlrun.data.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mtlrun.data.nothing


@pytest.mark.parametrize("id", MINE)
def test_built_in_sets_match_their_cards(id: str) -> None:
    data = load_dataset(id)
    card = load_card(id)
    wrong = [
        f
        for f in compare_statistics(data.statistics(), card.statistics)
        if not f.agrees
    ]
    assert wrong == []
    assert data.simulated == card.simulated
    assert (data.task_type, data.shared) == (card.task_type, card.design == "shared")


@pytest.mark.parametrize(
    "id", ["simulated-rmtl", "simulated-fetr", "gauss2d", "eurlex-like"]
)
def test_variants_of_simulated_sets_use_existing_options(id: str) -> None:
    for name in load_card(id).variants:
        assert dataset_fingerprint(id, variant=name) != dataset_fingerprint(id)


#: Keeps the data sets, which tests do not modify.
load_real = functools.cache(load_dataset)


@pytest.mark.data
@pytest.mark.parametrize("id", REAL)
def test_real_sets_match_their_cards(id: str) -> None:
    card = load_card(id)
    if not os.environ.get("MTLRUN_DATA") or missing_files(card):
        pytest.skip(f"MTLRUN_DATA does not hold {id}")
    data = load_real(id)
    assert [
        f
        for f in compare_statistics(data.statistics(), card.statistics)
        if not f.agrees
    ] == []
    assert data.shared
    assert data.task_type == "binary"


@pytest.mark.data
def test_delicious_has_the_published_statistics() -> None:
    if not os.environ.get("MTLRUN_DATA") or missing_files(load_card("delicious")):
        pytest.skip("MTLRUN_DATA does not hold delicious")
    data = load_real("delicious")
    assert "TAG_m'usica" in data.tasks
    assert "TAG_musica" in data.tasks
    ((train, test),) = data.splits["mulan"]
    assert (len(train), len(test)) == (12920, 3185)


def test_every_card_uses_an_existing_reader() -> None:
    from mtlrun.data.sets.load import source_function

    for id in card_paths():
        function = source_function(load_card(id))
        assert callable(function)


def test_statistics_are_compared_with_the_decimals_of_the_card() -> None:
    for actual, expected, agrees in [
        (3.37838, 3.3784, True),
        (3.37838, 3.378, True),
        (3.37838, 3.379, False),
        (0.00941, 9.4e-3, True),
        (1.0e-7, 1.0e-7, True),
        (5, 5, True),
        (5, 6, False),
        (5.0, 5, True),
        (5.4, 5, False),
    ]:
        (fact,) = compare_statistics({"x": actual}, {"x": expected})
        assert fact.agrees is agrees


def test_statistics_missing_on_one_side_are_reported() -> None:
    facts = {f.name: f.agrees for f in compare_statistics({"n": 1}, {"d": 2})}
    assert facts == {"n": True, "d": False}


X = np.ones((4, 2))


@all_cases(
    ("fields", "message"),
    [
        (
            {"y": np.ones(3)},
            r"X of shape \(4, 2\) and y of shape \(3,\) do not belong together",
        ),
        (
            {"y": np.ones(4), "task_type": "ranking"},
            "task_type must be one of binary, regression, multiclass",
        ),
        (
            {"y": np.array([[0.0], [1], [-1], [1]]), "task_type": "binary"},
            "binary labels must be -1/\\+1 or 0/1",
        ),
        ({"y": np.ones((4, 2)), "tasks": ["one"]}, "1 task names for 2 tasks"),
        (
            {"y": np.ones((4, 2)), "task_id": np.zeros(4, int)},
            "needs y of the same 1-D shape",
        ),
        (
            {"y": np.ones(4), "task_id": np.array([0, 1, 2, 3]), "tasks": ["a"]},
            r"task_id runs from 0 to 3, tasks 0\.\.0",
        ),
        ({"y": np.ones(4), "features": ["a"]}, "1 feature names for 2 columns"),
    ],
)
def test_contradictory_sets_are_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Dataset(**{"X": X, "task_type": "regression", **fields})


def test_statistics_describe_every_kind_of_set() -> None:
    ragged = Dataset(
        X=X,
        y=np.array([1.0, 2, 3, np.nan]),
        task_type="regression",
        task_id=np.array([0, 0, 0, 1]),
    )
    facts = ragged.statistics()
    assert (
        facts["task_min"],
        facts["task_max"],
        facts["missing"],
        facts["y_mean"],
    ) == (1, 3, 1, 2.0)
    classes = Dataset(X=X, y=np.array([0, 2, 2, 1]), task_type="multiclass")
    assert (classes.n_tasks, classes.statistics()["class_max"]) == (3, 2)
    multilabel = Dataset(
        X=X, y=np.array([[1, -1.0], [-1, -1], [1, -1], [1, 1]]), task_type="binary"
    )
    facts = multilabel.statistics()
    assert (
        facts["cardinality"],
        facts["labelsets"],
        facts["unlabelled"],
        facts["label_max"],
    ) == (1.0, 3, 1, 3)


def test_data_sets_convert_to_task_data() -> None:
    shared = load_dataset("simulated-rmtl", n=20, d=3, m=2).taskdata()
    assert (shared.n_tasks, shared.n_features, shared.shared) == (2, 3, True)
    ragged = load_dataset("gauss2d", n=20).taskdata()
    assert (ragged.n_tasks, ragged.n_features, ragged.shared) == (2, 2, False)
    with pytest.raises(DataError, match="tasks of its classes"):
        Dataset(X=X, y=np.arange(4), task_type="multiclass").taskdata()


def test_a_missing_data_directory_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="mtlrun data fetch enron"):
        load_dataset("enron", data_dir=tmp_path / "nowhere")
