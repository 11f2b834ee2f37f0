"""Training files: expected error messages, short and long forms, overrides."""

import pytest

from mtlrun.errors import ConfigError, UnknownNameError
from mtlrun.lab.experiment.load import load_experiment, load_training, validate_file

GOOD = """\
schema: 1
kind: train
id: train/small
dataset: digits
method: IndependentRidge
split: {kind: random, train: 0.5}
metrics: [auc]
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def put(text):
        (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
        return "a.yaml"

    return put


def test_short_and_long_forms_are_the_same(write):
    short = load_training(write(GOOD))
    long = load_training(
        write(
            GOOD.replace("dataset: digits", "dataset: {id: digits}")
            .replace(
                "method: IndependentRidge",
                "method: {estimator: IndependentRidge, params: {}}",
            )
            .replace("metrics: [auc]", "metrics: [auc]\nfeatures: null\nrefit: false")
        )
    )
    assert short.config == long.config
    assert (short.id, short.source) == ("train/small", "a.yaml")
    assert (
        load_training(write(GOOD + "features: max-abs\n")).spec.features.kind
        == "max-abs"
    )


def test_overrides_work_with_short_forms(write):
    training = load_training(
        write(GOOD),
        overrides=[
            "method.params.alpha=3",
            "dataset.sample=100",
            "seed=4",
            "metrics=[f1]",
        ],
        seed=5,
    )
    assert training.config["method"]["params"] == {"alpha": 3}
    assert training.config["dataset"] == {"id": "digits", "sample": 100}
    assert training.config["seed"] == 5
    assert training.config["metrics"] == ["f1"]


def test_all_problems_are_located_at_once(write):
    text = (
        GOOD.replace("digits", "digist")
        .replace("IndependentRidge", "IndependentRigde")
        .replace("auc", "acu")
    )
    text = text.replace("train: 0.5", "train: 1.5, trails: 2") + "extra: 1\n"
    with pytest.raises(ConfigError) as caught:
        load_training(write(text))
    assert caught.value.message == (
        "a.yaml:4:10: unknown data set 'digist'\n"
        "  3 | id: train/small\n"
        "  4 | dataset: digist\n"
        "               ^^^^^^ did you mean 'digits' or 'pendigits'?\n"
        "a.yaml:5:9: unknown method 'IndependentRigde'\n"
        "  4 | dataset: digist\n"
        "  5 | method: IndependentRigde\n"
        "              ^^^^^^^^^^^^^^^^ Did you mean 'IndependentRidge' "
        "or 'IndependentRidgeCV' or 'IndependentKernelRidge'?\n"
        "a.yaml:6:30: 'train' must be less than 1, not 1.5\n"
        "  5 | method: IndependentRigde\n"
        "  6 | split: {kind: random, train: 1.5, trails: 2}\n"
        "                                   ^^^\n"
        "a.yaml:6:35: unknown key 'trails' in split\n"
        "  5 | method: IndependentRigde\n"
        "  6 | split: {kind: random, train: 1.5, trails: 2}\n"
        "                                        ^^^^^^ did you mean 'trials'?   "
        "valid keys: kind, train, trials, folds, name, validation\n"
        "a.yaml:7:11: unknown metric 'acu'\n"
        "  6 | split: {kind: random, train: 1.5, trails: 2}\n"
        "  7 | metrics: [acu]\n"
        "                ^^^ did you mean 'auc'?\n"
        "a.yaml:8:1: unknown key 'extra'\n"
        "  7 | metrics: [acu]\n"
        "  8 | extra: 1\n"
        "      ^^^^^ valid keys: schema, id, title, kind, description, dataset, method, features, split, metrics, "
        "average, seed, selection, keep, refit"
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            (
                "method: IndependentRidge",
                "method: {estimator: IndependentRidge, params: {alhpa: 1}}",
            ),
            "no parameter 'alhpa'",
        ),
        (
            (
                "method: IndependentRidge",
                "method: {estimator: IndependentRidge, grid: {alpha: [1]}}",
            ),
            "needs the section",
        ),
        (("method: IndependentRidge", "method: 'sklearn.nothing:Ridge'"), "a.yaml:5:9"),
        (("dataset: digits", "dataset: school"), "7:11: 'auc' is for labels"),
        (
            (
                "split: {kind: random, train: 0.5}",
                "split: {kind: random, train: 0.5, trials: 3}",
            ),
            "evaluates one split",
        ),
        (("id: train/small", "id: small"), "must be <paper>/<artifact>"),
        (
            ("metrics: [auc]", "metrics: [auc]\nfeatures: {kind: one-hot, degree: 2}"),
            "one-hot has no degree",
        ),
        (("metrics: [auc]", "metrics: []"), "'metrics' must not be empty"),
        (("schema: 1", "schema: 2"), "'schema' must be 1"),
    ],
)
def test_each_problem_is_reported(write, change, text):
    with pytest.raises(ConfigError) as caught:
        load_training(write(GOOD.replace(*change)))
    assert text in caught.value.message


def test_overrides_are_checked_too(write, lacking):
    with pytest.raises(ConfigError) as caught:
        load_training(
            write(GOOD),
            overrides=["split.train=x", "id=other/name", "method.parms.alpha=1"],
        )
    assert not lacking(caught.value.message, "--set split.train=x: 'train'", "number")
    assert not lacking(
        caught.value.message,
        "--set id=other/name: 'id'",
        "--set method.parms.alpha=1: ",
        "'parms'",
    )


def test_training_files_and_experiments_are_distinguished(write):
    with pytest.raises(
        ConfigError, match=r"training file[^\0]*mtlrun reproduce dcrmtl/table2"
    ):
        load_training("dcrmtl/table2")
    with pytest.raises(ConfigError, match=r"training file[^\0]*mtlrun train a\.yaml"):
        load_experiment(write(GOOD))
    with pytest.raises(UnknownNameError):
        load_training("no-such-name")


def test_validate_accepts_training_files(write):
    assert validate_file(write(GOOD)).name == "a.yaml"
    with pytest.raises(ConfigError, match="unknown metric 'acu'"):
        validate_file(write(GOOD.replace("auc", "acu")))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dataset: digits", "dataset: {id: {a: 1}}"),
        ("metrics: [auc]", "metrics: [{a: 1}]"),
        ("metrics: [auc]", "metrics: {}"),
    ],
)
def test_a_mapping_in_place_of_a_name_is_reported(write, old, new):
    """With numeric targets, names of metrics are compared with a list."""
    text = GOOD.replace("digits", "school").replace(
        old.replace("digits", "school"), new
    )
    with pytest.raises(ConfigError, match=r"a\.yaml:\d+:\d+: "):
        load_training(write(text))
