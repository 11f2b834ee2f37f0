"""Experiment files: messages, profiles, overrides, origins, the catalogue."""

import re

import pytest

from mtlrun.errors import ConfigError, UnknownNameError
from mtlrun.lab.experiment.catalogue import catalogue, find
from mtlrun.lab.experiment.load import load_experiment, run_of, validate_file
from mtlrun.utils.io import configs_dir
from mtlrun.utils.yaml import load_file

VALID = """\
schema: 1
id: lab/tiny
title: A tiny experiment
kind: evaluate
datasets: [digits]
split: {kind: random, train: 0.4, trials: 3}
metrics: [auc]
selection: {folds: 3}
timing: {repeats: 2, baseline: one}
grids: {P: [1, 2]}
methods:
  - label: one
    estimator: SparseMTL
    params: {fit_intercept: false}
    grid: {alpha: P}
  - {label: two, estimator: IndependentRidge}
claims:
  - {id: c, text: t, checks: [{kind: ratio, quantity: seconds, of: one, over: two, at_least: 3}]}
reference:
  - {dataset: digits, method: one, quantity: auc, value: 0.9}
tolerance: {absolute: 0.1}
profiles:
  smoke: {split: {trials: 1}, methods: [{label: one, params: {tol: 0.1}}], datasets: [simulated-rmtl]}
"""


def changed(old, new, text=VALID):
    assert text.count(old) == 1, old
    return text.replace(old, new)


def problems_of(lab, text, **options):
    with pytest.raises(ConfigError) as refused:
        load_experiment(lab.write(text, "bad.yaml"), **options)
    return str(refused.value)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("seeed: 1", "(?i)did you mean 'seed'"),
        ("seed: -1", "at least 0, not -1"),
        ("seed: 1.5", "at least 0, not 1.5"),
        ("seed: true", "at least 0, not True"),
        ("sample_seed: -3", "sample_seed"),
        ("sample: 0", "at least 1, not 0"),
        ("sample: 2.5", "at least 1, not 2.5"),
        ("variant: vallue", "'value'"),
    ],
)
def test_options_of_a_data_set_are_checked_with_the_file(lab, option, message):
    given = changed(
        "datasets: [digits]", f"datasets: [{{id: simulated-rmtl, {option}}}]"
    )
    text = problems_of(lab, given)
    assert text.startswith("bad.yaml:5:")
    assert re.search(message, text)


def test_a_valid_file_loads(lab):
    experiment = load_experiment(lab.write(VALID))
    assert (experiment.id, experiment.profile, experiment.profiles) == (
        "lab/tiny",
        "full",
        ("smoke", "full"),
    )
    assert experiment.spec.split.n_trials == 3
    assert experiment.config["methods"][0]["grid"] == {"alpha": [1, 2]}
    assert "profiles" not in experiment.config
    assert experiment.folder("out").as_posix() == "out/lab/tiny/full"


GOLDEN = {
    "unknown key": (
        changed("trials: 3", "trails: 3"),
        "bad.yaml:6:35: unknown key 'trails' in split\n"
        "  5 | datasets: [digits]\n"
        "  6 | split: {kind: random, train: 0.4, trails: 3}\n"
        "                                        ^^^^^^ did you mean 'trials'?   "
        "valid keys: kind, train, trials, folds, name, validation",
    ),
    "wrong type": (
        changed("trials: 3", "trials: many"),
        "bad.yaml:6:43: 'trials' must be a whole number, not 'many'\n"
        "  5 | datasets: [digits]\n"
        "  6 | split: {kind: random, train: 0.4, trials: many}\n"
        "                                                ^^^^",
    ),
    "missing key": (
        changed("    estimator: SparseMTL\n", ""),
        "bad.yaml:12:5: missing key 'estimator' in methods[0]\n  11 | methods:\n  12 |   - label: one\n           ^",
    ),
    "unknown data set": (
        changed(
            "datasets: [digits]",
            "datasets: [digit]",
            changed("{dataset: digits,", "{dataset: digit,"),
        ),
        "bad.yaml:5:12: unknown data set 'digit'\n"
        "  4 | kind: evaluate\n"
        "  5 | datasets: [digit]\n"
        "                 ^^^^^ did you mean 'digits' or 'pendigits'?",
    ),
    "unknown estimator": (
        changed("estimator: SparseMTL", "estimator: SparsMTL"),
        "bad.yaml:13:16: unknown method 'SparsMTL'\n"
        "  12 |   - label: one\n"
        "  13 |     estimator: SparsMTL\n"
        "                      ^^^^^^^^ Did you mean 'SparseMTL' or 'SparseLowRankMTL'?",
    ),
    "unknown parameter": (
        changed(
            "{label: two, estimator: IndependentRidge}",
            "{label: two, estimator: 'lab.models:Ridge', params: {alpa: 1}}",
        ),
        "bad.yaml:16:58: lab.models:Ridge has no parameter 'alpa'\n"
        "  15 |     grid: {alpha: P}\n"
        "  16 |   - {label: two, estimator: 'lab.models:Ridge', params: {alpa: 1}}\n"
        "                                                                ^^^^ did you mean 'alpha'?   "
        "it has: alpha, slow, warm_start",
    ),
    "unknown grid": (
        changed("{alpha: P}", "{alpha: Q}"),
        "bad.yaml:15:19: unknown grid 'Q'\n"
        "  14 |     params: {fit_intercept: false}\n"
        "  15 |     grid: {alpha: Q}\n"
        "                         ^ known: P",
    ),
    "grid without selection": (
        changed("selection: {folds: 3}\n", ""),
        "bad.yaml:14:5: a 'grid' needs the section 'selection'\n"
        "  13 |     params: {fit_intercept: false}\n"
        "  14 |     grid: {alpha: P}\n"
        "           ^^^^ for instance selection: {folds: 3}",
    ),
    "field of another kind of split": (
        changed(
            "kind: random, train: 0.4, trials: 3", "kind: kfold, folds: 3, name: a"
        ),
        "bad.yaml:6:8: a kfold split has no name: leave it out, or write name: null if an extended file has it\n"
        "  5 | datasets: [digits]\n"
        "  6 | split: {kind: kfold, folds: 3, name: a}\n"
        "             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    ),
    "method of a claim": (
        changed("over: two", "over: too"),
        "bad.yaml:18:79: unknown method 'too'\n"
        "  17 |\n"
        "  18 | ...xt: t, checks: [{kind: ratio, quantity: seconds, of: one, over: too,\n"
        "                                                                          ^^^ did you mean 'two'?",
    ),
    "limit of a stopped run": (
        changed(
            "at_least: 3", "at_least: 3, stopped: {quantity: auc, at_least: seconds}"
        ),
        "bad.yaml:18:106: method 'one' does not set the parameter 'seconds'\n",
    ),
    "field of a check": (
        changed("at_least: 3", "at_leest: 3"),
        "bad.yaml:18:84: unknown key 'at_leest' in claims[0].checks[0]\n",
    ),
    "a check without a bound": (
        changed(", at_least: 3", ""),
        "bad.yaml:18:31: a ratio check needs 'at_least' or 'at_most' or 'about' or 'orders'\n",
    ),
    "quantity of a check": (
        changed("quantity: seconds", "quantity: secnds"),
        "bad.yaml:18:55: unknown quantity 'secnds'\n",
    ),
    "duplicate label": (
        changed("label: two", "label: one"),
        "bad.yaml:16:5: two entries for method 'one'\n",
    ),
    "duplicate key": (
        changed("metrics: [auc]", "metrics: [auc]\nmetrics: [mse]"),
        "bad.yaml:8:1: duplicate key 'metrics'\n"
        "  7 | metrics: [auc]\n"
        "  8 | metrics: [mse]\n"
        "      ^^^^^^^ first given in line 7",
    ),
    "tab": (
        changed("  - label: one", "\t- label: one"),
        "bad.yaml:12:1: a tab where blanks are needed\n"
        "  11 | methods:\n"
        "  12 |  - label: one\n"
        "       ^ indent with blanks",
    ),
    "bad id": (
        changed("id: lab/tiny", "id: ../../etc"),
        "bad.yaml:2:5: 'id' must be <paper>/<artifact> in letters, digits, '-' and '_', not '../../etc'\n"
        "  1 | schema: 1\n"
        "  2 | id: ../../etc\n"
        "          ^^^^^^^^^",
    ),
    "empty": ("", "bad.yaml: an experiment file is empty"),
    "a list": (
        "- 1\n",
        "bad.yaml: an experiment file must be a mapping with keys such as 'id' and 'methods'",
    ),
}


@pytest.mark.parametrize("case", GOLDEN)
def test_problems_have_location_excerpt_and_suggestion(lab, case):
    text, expected = GOLDEN[case]
    problems = problems_of(lab, text)
    assert problems.startswith(expected)
    assert expected.endswith("\n") or problems == expected


SENTENCES = {
    "select_with without a grid": (
        changed(
            "{label: two, estimator: IndependentRidge}",
            "{label: two, estimator: SparseMTL, select_with: {tol: 0.1}}",
        ),
        "bad.yaml:16:40: 'select_with' without a 'grid' has no effect\n",
        "remove it or add a grid",
    ),
    "no data sets": (
        changed("datasets: [digits]", "datasets: []"),
        "bad.yaml:5:11: 'datasets' must not be empty\n",
        "",
    ),
    "a claim of nothing": (
        changed(
            ", checks: [{kind: ratio, quantity: seconds, of: one, over: two, at_least: 3}]",
            "",
        ),
        "bad.yaml:18:5: a claim needs 'checks' or 'not_testable'\n",
        "",
    ),
    "a parameter inside what is no estimator": (
        changed("grid: {alpha: P}", "grid: {alpha__beta: P}"),
        "bad.yaml:15:12: 'alpha' of SparseMTL is not an estimator here\n",
        "give it as alpha: {estimator: ...}",
    ),
    "a grid where there is none": (
        changed("grids: {P: [1, 2]}\n", ""),
        "bad.yaml:14:19: unknown grid 'P'\n",
        "there is no grid",
    ),
    "extends a training file": (
        "extends: base.yaml\nid: lab/child\n",
        "base.yaml: not an experiment, so none can extend it",
        "",
    ),
    "a name for a label list": (
        changed("- {label: two, estimator: IndependentRidge}", "- two"),
        "bad.yaml:16:5: an entry of 'methods' must be a mapping, not 'two'",
        "",
    ),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_problems_have_a_remedy(lab, case):
    text, expected, remedy = SENTENCES[case]
    lab.write("kind: train\nschema: 1\nid: x\n", "base.yaml")
    problems = problems_of(lab, text)
    assert problems.startswith(expected), problems
    assert remedy in problems


@pytest.mark.parametrize(
    "choice", ["params: {prior: student}", "grid: {prior: [normal, student]}"]
)
def test_an_option_that_was_removed_is_refused_with_line_and_remedy(lab, choice):
    text = changed(
        "estimator: IndependentRidge", f"estimator: HierarchicalMTL, {choice}"
    )
    message = problems_of(lab, text)
    assert message.startswith("bad.yaml:16:")
    assert "prior='normal'" in message


def test_all_problems_of_a_file_are_reported_at_once(lab):
    text = changed(
        "trials: 3",
        "trails: 3",
        changed("datasets: [digits]", "datasets: [digit]", changed("[auc]", "[auk]")),
    )
    problems = problems_of(lab, text)
    locations = [
        line.partition(": ")[0]
        for line in problems.splitlines()
        if line.startswith("bad.yaml")
    ]
    # The names of a reference are unknown too if the section misspells them.
    assert locations == [
        "bad.yaml:5:12",
        "bad.yaml:6:35",
        "bad.yaml:7:11",
        "bad.yaml:20:15",
        "bad.yaml:20:46",
    ]


def test_missing_fields_are_reported_in_the_given_file(lab):
    lab.write(VALID, "base.yaml")
    problems = problems_of(lab, "# mine\nextends: base.yaml\nseed: 1\n")
    assert "bad.yaml:2:1: missing key 'id'" in problems
    assert "base.yaml" not in problems.replace("extends: base.yaml", "")


def test_profiles_must_be_mappings(lab):
    path = lab.write(
        VALID.partition("profiles:")[0] + "profiles: [smoke]\n", "bad.yaml"
    )
    with pytest.raises(ConfigError, match="'profiles'"):
        validate_file(path)


def test_data_sets_may_be_set_only_in_a_profile(lab):
    text = changed("{dataset: digits,", "{dataset: simulated-rmtl,")
    path = lab.write(changed("datasets: [digits]\n", "", text))
    experiment = load_experiment(path, profile="smoke")
    assert [d.id for d in experiment.spec.datasets] == ["simulated-rmtl"]
    assert experiment.paper_datasets == ()


def test_a_profile_changes_only_its_fields(lab):
    experiment = load_experiment(lab.write(VALID), profile="smoke")
    assert experiment.spec.split.trials == 1
    assert experiment.spec.split.train == 0.4
    assert [d.id for d in experiment.spec.datasets] == ["simulated-rmtl"]
    assert experiment.spec.methods[0].params == {"fit_intercept": False, "tol": 0.1}
    assert experiment.paper_datasets == ("digits",)


def test_quick_is_the_default_profile_if_it_exists(lab):
    text = VALID + "  quick: {split: {trials: 2}}\n"
    assert load_experiment(lab.write(text)).profile == "quick"
    assert load_experiment(lab.write(text), profile="full").spec.split.trials == 3


def test_an_unknown_profile_is_rejected(lab):
    with pytest.raises(
        UnknownNameError, match=r"tiny\.yaml[^\0]*'smok'[^\0]*'smoke'\?"
    ):
        load_experiment(lab.write(VALID), profile="smok")


def test_mistakes_in_a_profile_are_located_there(lab):
    text = (
        VALID
        + "  bad: {id: x, split: {trials: no}, methods: [{label: ony}, {label: two, params: {alpa: 1}}]}\n"
    )
    with pytest.raises(ConfigError) as refused:
        validate_file(lab.write(text, "bad.yaml"))
    locations = [
        line for line in str(refused.value).splitlines() if line.startswith("bad.yaml")
    ]
    assert locations == [
        "bad.yaml:24:9: a profile cannot change 'id'",
        "bad.yaml:24:32: 'trials' must be a whole number, not 'no'",
        "bad.yaml:24:55: no entry 'ony' in this list",
        "bad.yaml:24:83: IndependentRidge has no parameter 'alpa'",
    ]


def test_overrides_take_precedence_over_profiles_and_profiles_over_the_file(lab):
    path = lab.write(VALID)

    def load(*overrides, **options):
        return load_experiment(path, profile="smoke", overrides=overrides, **options)

    assert load().spec.split.trials == 1
    experiment = load(
        "split.trials=7",
        "methods.one.params.tol=1e-5",
        "methods.1.params.alpha=3",
        "grids.P=[4, 5]",
        seed=9,
    )
    assert experiment.spec.split.trials == 7
    assert experiment.spec.methods[0].params["tol"] == 1e-5
    assert experiment.spec.methods[1].params == {"alpha": 3}
    assert experiment.config["methods"][0]["grid"] == {"alpha": [4, 5]}
    assert experiment.spec.seed == 9
    assert experiment.overrides[-1] == "seed=9"


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "splt.trials=3",
            "--set splt.trials=3: unknown key 'splt'\n  did you mean 'split'?",
        ),
        (
            "split.trails=3",
            "--set split.trails=3: unknown key 'trails' in split\n  did you mean 'trials'?",
        ),
        (
            "split.trials=x",
            "--set split.trials=x: 'trials' must be a whole number, not 'x'",
        ),
        ("split.trials", "--set split.trials: must be key=value"),
        (
            "methods.ones.params.a=1",
            "--set methods.ones.params.a=1: no entry 'ones' in this list\n  did you mean 'one'?",
        ),
        (
            "methods.one.params.fit_intercep=1",
            "--set methods.one.params.fit_intercep=1: SparseMTL has no parameter",
        ),
        ("seed.a=1", "--set seed.a=1: 'seed' must be a whole number"),
        ("title=x", "--set title=x: 'title' cannot be changed"),
        ("seed=[1", "--set seed=[1: not valid YAML"),
        ("timing.repeats.x=1", "--set timing.repeats.x=1: 'repeats' is not a mapping"),
    ],
)
def test_invalid_overrides_are_named(lab, override, expected):
    assert problems_of(lab, VALID, overrides=[override]).startswith(expected)


def test_experiments_are_found_by_name(tmp_path):
    for name, extra in (
        ("a/table1", ""),
        ("b/table1", "default_for: table1\n"),
        ("b/fig2", ""),
        ("c/fig2", ""),
    ):
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f"schema: 1\nid: {name}\ntitle: 'T: {name}'\nkind: evaluate\n{extra}"
        )
    assert [e.id for e in catalogue(tmp_path)] == [
        "a/table1",
        "b/fig2",
        "b/table1",
        "c/fig2",
    ]
    assert catalogue(tmp_path)[2].title == "T: b/table1"
    assert find("a/table1", tmp_path) == tmp_path / "a/table1.yaml"
    assert find("table1", tmp_path) == tmp_path / "b/table1.yaml"
    with pytest.raises(ConfigError, match=r"'fig2'.*b/fig2, c/fig2"):
        find("fig2", tmp_path)
    with pytest.raises(UnknownNameError, match=r"'tabel1'(.|\n)*'table1'"):
        find("tabel1", tmp_path)
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: no such file"):
        find("nowhere.yaml", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "entry", [e for e in catalogue() if e.kind == "evaluate"], ids=lambda e: e.id
)
def test_shipped_experiments_have_the_usual_profiles(entry):
    # All of them are validated in tests/cli/test_files.py.
    document = load_file(entry.path)
    assert document.data["id"] == entry.id
    assert document.data["title"] == entry.title
    assert entry.path == configs_dir() / f"{entry.id}.yaml"
    assert set(document.data["profiles"]) >= {"smoke", "demo", "quick", "full"}


def test_the_catalogue_agrees_with_the_files():
    for entry in catalogue():
        data = load_file(entry.path).data
        names = data.get("default_for") or []
        assert (entry.title, entry.kind) == (
            data.get("title", ""),
            data.get("kind", "evaluate"),
        )
        assert list(entry.default_for) == ([names] if isinstance(names, str) else names)


def test_a_file_without_id_has_no_run_folder(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(VALID.replace("id: lab/tiny\n", ""), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        run_of(path)
    assert caught.value.remedy == f"See all problems: mtlrun validate {path}"


def test_a_stopped_check_names_its_parameter_as_text(tmp_path):
    path = tmp_path / "a.yaml"
    check = (
        "over: two, at_least: 3, stopped: {below: one, at_least: [1], quantity: auc}"
    )
    path.write_text(VALID.replace("over: two, at_least: 3", check), encoding="utf-8")
    with pytest.raises(ConfigError, match="at_least"):
        validate_file(path)
