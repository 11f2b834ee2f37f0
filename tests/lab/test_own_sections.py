"""Data sets with their own split, metrics and features; validation rows; stored
predictions; ranks in files.
"""

import numpy as np
import pytest

from mtlrun.data.dataset import Dataset
from mtlrun.data.sets.load import load_dataset
from mtlrun.data.splits import split_rows
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.engine.fit import with_features
from mtlrun.engine.job import Features
from mtlrun.engine.plan import job_states
from mtlrun.errors import ConfigError, DataError
from mtlrun.lab.report.build import build_report


def with_datasets(lab, entries, split="split: {kind: random, train: 0.5, trials: 2}"):
    text = lab.tiny.replace(f"datasets: [{lab.data}]", f"datasets: {entries}")
    return text.replace("split: {kind: random, train: 0.5, trials: 2}", split)


def own_sections(lab, extra, label="second"):
    return f"[{lab.data}, {lab.data[:-1]}, label: {label}, {extra}}}]"


def test_unset_options_do_not_change_the_key(lab):
    job = lab.plan().rows[0].job
    content, fold = job.content(), job.folds[0].content()
    assert "features" not in content
    assert not {"keep", "timing"} & set(content["scoring"])
    assert set(content["split"]) == {"kind", "train", "trial", "seed"}
    assert set(fold["search"]) == {"grid", "folds", "metric", "seed", "on"}


def test_a_data_set_may_have_its_own_split_metrics_and_features(lab):
    text = with_datasets(
        lab,
        own_sections(
            lab,
            "split: {kind: kfold, folds: 3}, metrics: [accuracy, auc], features: standardize",
        ),
    )
    plan = lab.plan(text)
    assert (plan.rows[0].dataset, plan.rows[4].dataset) == ("simulated-rmtl", "second")
    assert len(plan.rows) == 4 + 6
    first, second = plan.rows[0].job, plan.rows[4].job
    assert (second.split.kind, second.scoring.metrics) == ("kfold", ("accuracy", "auc"))
    assert second.features == Features("standardize")
    assert first.key == lab.plan().rows[0].job.key
    assert second.search.metric == "accuracy"
    assert plan.run_json()["config"]["metrics"] == ["auc", "accuracy"]
    assert plan.run_json()["config"]["datasets"][1]["split"] == {
        "kind": "kfold",
        "folds": 3,
    }
    assert lab.run(text).n_ok == 10
    store = plan.store()
    assert set(store.load(first.key).metrics) == {"auc"}
    assert set(store.load(second.key).metrics) == {"accuracy", "auc"}
    assert store.load(second.key).result["tasks"] == [f"task {t}" for t in range(6)]
    build_report(plan.folder)


def test_the_experiment_needs_no_split_if_each_data_set_has_one(lab):
    entries = f"[{lab.data[:-1]}, split: {{train: 0.5}}}}]"
    assert [
        row.job.split.train for row in lab.plan(with_datasets(lab, entries, "")).rows
    ] == [0.5, 0.5]
    with pytest.raises(ConfigError, match="missing key 'split'"):
        lab.plan(with_datasets(lab, f"[{lab.data}]", ""))


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("split: {kind: kfold}", "a kfold split needs folds"),
        ("metrics: [acu]", "unknown metric 'acu'"),
        ("metrics: []", "must not be empty"),
        (
            "features: scale",
            "must be 'none', 'standardize', 'max-abs', 'min-max', 'unit-rows', 'table', "
            r"'table\+levels', 'table\+elapsed', 'one-hot' or "
            "'weighted-degree', not 'scale'",
        ),
    ],
)
def test_invalid_options_of_a_data_set_are_rejected(lab, extra, message):
    with pytest.raises(ConfigError, match=message):
        lab.plan(with_datasets(lab, own_sections(lab, extra)))


def test_a_swept_ratio_needs_random_splits(lab):
    text = with_datasets(
        lab, own_sections(lab, "split: {kind: kfold, folds: 3}")
    ).replace("kind: evaluate", "kind: sweep")
    with pytest.raises(ConfigError, match="'train'"):
        lab.plan(text + "sweep: {name: ratio, split: train, values: [0.3, 0.5]}\n")


def test_features_are_learned_on_the_training_rows():
    dataset = load_dataset("simulated-rmtl", n=60, d=8, m=6, rank=2)
    dataset.X[30:] += 5
    rows = TrainTestData.of(dataset, np.arange(30), np.arange(30, 60))
    part, step = with_features(rows, Features("standardize"))
    np.testing.assert_allclose(part.train.X.mean(axis=0), 0, atol=1e-12)
    assert (part.test.X.mean(axis=0) > 2).all()
    np.testing.assert_array_equal(step.transform(rows.test.X), part.test.X)
    assert with_features(rows, None) == (rows, None)


def test_features_are_part_of_the_key_and_affect_the_numbers(lab):
    plain = lab.tiny
    lab.run(plain)
    plan = lab.plan(plain + "features: standardize\n")
    assert {state.name for state in job_states(plan)} == {"outdated"}
    lab.run(plain + "features: standardize\n")
    before, now = (
        plan.store().load(rows[0].job.key) for rows in (lab.plan(plain).rows, plan.rows)
    )
    assert before.metrics != now.metrics


def parts(dataset, **more):
    return split_rows(
        dataset, **{"kind": "random", "train": 0.3, "trial": 0, "seed": 7, **more}
    )


@pytest.mark.parametrize(
    "dataset",
    [("simulated-rmtl", {"n": 60, "d": 8, "m": 6, "rank": 2}), ("landmine-like", {})],
)
def test_the_parts_are_disjoint_and_have_the_requested_sizes(dataset):
    name, options = dataset
    loaded = load_dataset(name, **options) if options else ragged()
    train, validation, test = parts(loaded, validation=0.4)
    assert np.array_equal(train, parts(loaded)[0]), (
        "the training rows do not depend on the rest"
    )
    together = np.concatenate([train, test, validation])
    assert sorted(together) == list(range(loaded.n_samples))
    groups = (
        np.zeros(loaded.n_samples, dtype=int)
        if loaded.task_id is None
        else loaded.task_id
    )
    np.testing.assert_array_equal(
        np.bincount(groups[validation]), (0.4 * np.bincount(groups)).astype(int)
    )
    again = parts(loaded, validation=0.4)[1]
    assert np.array_equal(validation, again)
    assert not np.array_equal(validation, parts(loaded, seed=8, validation=0.4)[1])


def test_a_validation_fraction_that_leaves_no_rows_is_rejected():
    loaded = load_dataset("simulated-rmtl", n=60, d=8, m=6, rank=2)
    with pytest.raises(ValueError, match=r"validation=0.001.*\(0.*42"):
        parts(loaded, validation=0.001)


def ragged():

    rng = np.random.default_rng(0)
    task_id = np.repeat([0, 1, 2], [20, 40, 30])
    return Dataset(
        X=rng.normal(size=(90, 3)),
        y=np.sign(rng.normal(size=90)),
        task_type="binary",
        task_id=task_id,
    )


def test_published_training_rows_provide_the_validation_rows():
    dataset = ragged()
    dataset.splits["own"] = [(np.arange(60), np.arange(60, 90))]
    split = {
        "kind": "published",
        "name": "own",
        "trial": 0,
        "seed": 1,
        "validation": 0.25,
    }
    train, validation, test = split_rows(dataset, **split)
    assert np.array_equal(test, np.arange(60, 90))
    assert sorted(np.concatenate([train, validation])) == list(range(60))
    assert np.bincount(dataset.task_id[validation]).tolist() == [5, 10]


def test_selection_uses_the_validation_rows(lab):
    text = lab.tiny.replace("train: 0.5", "train: 0.3, validation: 0.3").replace(
        "{folds: 2}", "{on: validation}"
    )
    plan = lab.plan(text)
    job = plan.rows[0].job
    (fold,) = job.folds
    assert (fold.search.on, job.split.validation) == ("validation", 0.3)
    assert lab.run(text).n_ok == 4
    searched, final = (plan.store().load(item.key) for item in (fold, job))
    assert final.selection.scores == [[score] for score in searched.selection.scores]
    assert (final.counts["n_train"], final.counts["n_test"]) == (18, 24)
    assert final.selection.chosen["alpha"] == final.params["alpha"]
    assert plan.run_json()["config"]["selection"] == {
        "on": "validation",
        "metric": "auc",
    }
    build_report(plan.folder)


@pytest.mark.parametrize(
    ("split", "selection", "message"),
    [
        ("train: 0.5", "{on: validation}", "needs a split with a part 'validation'"),
        ("train: 0.5, validation: 0.2", "{on: validation, folds: 3}", "either 'folds'"),
        ("train: 0.5, validation: 0.5", "{on: validation}", "leave no rows to test on"),
        (
            "train: 0.5, validation: 0.2",
            "{on: valdation}",
            "must be 'folds' or 'validation'",
        ),
    ],
)
def test_an_invalid_validation_part_is_rejected(lab, split, selection, message):
    with pytest.raises(ConfigError, match=message):
        lab.plan(lab.tiny.replace("train: 0.5", split).replace("{folds: 2}", selection))


def test_predictions_are_stored_on_request(lab):
    plan = lab.plan(lab.tiny + "keep: [predictions]\n")
    job, plain = plan.rows[0].job, lab.plan().rows[0].job
    assert job.key != plain.key
    assert [fold.key for fold in job.folds] == [fold.key for fold in plain.folds]
    assert lab.run(lab.tiny + "keep: [predictions]\n").n_ok == 4
    store = plan.store()
    for row in plan.rows:
        record = store.load(row.job.key)
        with np.load(
            store.cells_folder / record.result["predictions"], allow_pickle=False
        ) as kept:
            assert (kept["scores"].shape, kept["scores"].dtype) == ((30, 6), np.float64)
    assert len(list(store.cells_folder.glob("*.npz"))) == 4


STATISTICS = "statistics: {metric: auc, control: strong}\n"


def test_ranks_need_their_section(lab):
    claim = """\
claims:
  - id: ranks
    text: t
    checks:
      - {kind: rejections, control: strong, at_least: 1}
      - {kind: value, quantity: average_rank, of: weak, at_most: 2}
"""
    with pytest.raises(ConfigError, match="'statistics'"):
        lab.plan(lab.tiny + claim)
    plan = lab.plan(
        lab.tiny.replace("kind: evaluate", "kind: test") + STATISTICS + claim
    )
    assert plan.run_json()["config"]["statistics"] == {
        "metric": "auc",
        "control": "strong",
        "significance": 0.05,
    }
    with pytest.raises(ConfigError, match="unknown method 'stron'"):
        lab.plan(lab.tiny + STATISTICS.replace("strong", "stron"))
    with pytest.raises(ConfigError, match="'mse'"):
        lab.plan(lab.tiny + STATISTICS.replace("auc", "mse"))


def test_references_and_checks_may_name_a_task(lab):
    extension = """\
claims:
  - {id: c, text: t, checks: [{kind: value, quantity: auc, of: weak, task: [task 0, task 1], at_least: 0}]}
reference:
  - {dataset: simulated-rmtl, method: weak, quantity: auc, task: task 2, value: 0.5, absolute: 1}
"""
    plan = lab.plan(lab.tiny + extension)
    assert plan.run_json()["config"]["reference"][0]["task"] == "task 2"
    lab.run(lab.tiny + extension)
    build_report(plan.folder)


def test_a_training_file_has_the_same_sections(lab):
    from mtlrun.lab.experiment.load import load_training

    text = """\
schema: 1
kind: train
id: lab/own
dataset: {id: simulated-rmtl, n: 60, d: 8, m: 6, rank: 2OWN}
method: IndependentRidge
split: {train: 0.5}
metrics: [auc]
"""
    assert load_training(lab.write(text.replace("OWN", ""))).spec.split.train == 0.5
    with pytest.raises(ConfigError, match="no 'features' in dataset"):
        load_training(lab.write(text.replace("OWN", ", features: standardize")))
    with pytest.raises(ConfigError, match="no 'validation' in split"):
        load_training(
            lab.write(
                text.replace("OWN", "").replace(
                    "train: 0.5", "train: 0.5, validation: 0.1"
                )
            )
        )


@pytest.mark.parametrize(
    "kind", [None, "standardize", "max-abs", "min-max", "unit-rows"]
)
def test_words_are_not_used_as_numbers(kind):
    dataset = Dataset(
        X=np.arange(12.0).reshape(6, 2) % 3,
        y=np.arange(6.0),
        task_type="regression",
        features=["x", "color"],
        categories={"color": ["blue", "green", "red"]},
    )
    rows = TrainTestData.of(dataset, np.arange(4), np.arange(4, 6))
    features = None
    if kind is not None:
        features = Features(kind)
    with pytest.raises(DataError, match="'color'"):
        with_features(rows, features)
    part, _ = with_features(rows, Features("table"))
    assert part.train.X.shape == (4, 4)
