"""Parameter values are checked by the rules of their class before any computation."""

import pytest

from mtlrun.catalog.interfaces import inspect_interface
from mtlrun.catalog.methods import parameter_names, parameter_rule
from mtlrun.catalog.registry import METHODS

TRAIN = """\
schema: 1
kind: train
id: train/small
dataset: {id: simulated-rmtl, n: 60, d: 5, m: 3}
method:
  estimator: JointFeatureMTLClassifier
  grid: {alpha: [0.1, 1]}
selection: {folds: 2}
split: {kind: random, train: 0.5}
metrics: [auc]
"""
EVALUATE = """\
schema: 1
id: mine/small
title: Small
grids: {strengths: [0.1, 1]}
datasets: [{id: simulated-rmtl, n: 60, d: 5, m: 3}]
methods:
  - {label: Alone, estimator: IndependentRidge, grid: {alpha: strengths}}
  - {label: Also, estimator: PooledRidge, grid: {alpha: strengths}}
  - label: Joint
    estimator: DivideAndConquerRMTLClassifier
    params: {base: {estimator: RobustMTLClassifier, params: {lam: 0.5}}}
    grid: {base__beta: [1, 2], n_blocks: [1, 2]}
    select_with: {projection: first}
selection: {folds: 2}
split: {kind: random, train: 0.5, trials: 1}
metrics: [auc]
"""
CASES = {
    "grid": (
        TRAIN,
        "[0.1, 1]",
        "[-1, ten]",
        ("a.yaml:7:18: alpha must be", "a.yaml:7:22: alpha must be"),
    ),
    "bool": (TRAIN, "[0.1, 1]", "[true]", ("a.yaml:7:18: alpha must be",)),
    "misspelt": (
        TRAIN.replace("alpha: [0.1, 1]", "loss: [logistic]"),
        "[logistic]",
        "[logistc]",
        ("a.yaml:7:17: loss must be", "did you mean 'logistic'"),
    ),
    "named grid": (EVALUATE, "[0.1, 1]", "[0.1, -1]", ("a.yaml:4:26: alpha must be",)),
    "inner parameter": (
        EVALUATE,
        "lam: 0.5",
        "lam: -0.5",
        ("a.yaml:11:67: lam must be",),
    ),
    "inner grid": (
        EVALUATE,
        "[1, 2], n_blocks",
        "[1, 0], n_blocks",
        ("a.yaml:12:28: base__beta must be",),
    ),
    "whole numbers": (
        EVALUATE,
        "n_blocks: [1, 2]",
        "n_blocks: [1, 0.5]",
        ("a.yaml:12:46: n_blocks must be",),
    ),
    "select_with": (
        EVALUATE,
        "projection: first",
        "projection: last",
        ("a.yaml:13:31: projection must be",),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_command_locates_an_invalid_value(mtlrun, tmp_path, case):
    text, old, new, words = CASES[case]
    runs = "train" if text.startswith(TRAIN[:22]) else "reproduce"
    path = tmp_path / "a.yaml"
    path.write_text(text)
    result = mtlrun("validate", "a.yaml")
    assert result.exit_code == 0, result.output
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    for command in ("validate", runs):
        result = mtlrun(command, "a.yaml")
        assert result.exit_code == 2, (command, result.output)
        for part in words:
            assert result.stderr.count(part) == 1, (command, result.stderr)
        assert "Traceback" not in result.output
    assert not (tmp_path / "results").exists()


def test_overrides_and_the_axis_of_a_sweep_are_checked(mtlrun, tmp_path):
    (tmp_path / "a.yaml").write_text(TRAIN)
    result = mtlrun("train", "a.yaml", "--set", "method.grid.alpha=[-1]")
    assert result.exit_code == 2
    assert "--set method.grid.alpha=[-1]: alpha must be" in result.stderr
    sweep = EVALUATE.replace(
        "schema: 1\n",
        "schema: 1\nkind: sweep\nsweep: {name: blocks, params: n_blocks, values: [1, 0]}\n",
    )
    (tmp_path / "a.yaml").write_text(sweep.replace(", n_blocks: [1, 2]", ""))
    result = mtlrun("validate", "a.yaml")
    assert result.exit_code == 2
    assert "a.yaml:3:53: n_blocks must be" in result.stderr


def test_values_are_checked_by_the_rules_of_their_class():
    for name, info in METHODS.items():
        checked = {key: parameter_rule(name, {}, key) for key in parameter_names(name)}
        rules = {key: rule.plain for key, rule in checked.items() if rule is not None}
        of_class = inspect_interface(info.class_path).rules
        assert rules == {key: of_class[key] for key in rules}, name
        in_grid = {key for key in info.default_grid if "__" not in key}
        assert in_grid <= set(rules), name


@pytest.mark.slow
def test_a_class_of_the_user_may_define_its_rules_in_any_way(
    mtlrun, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_rules.py").write_text(
        "from mtlrun.estimators.penalized import JointFeatureMTL\n"
        "from mtlrun.estimators.params import real\n\n"
        "def made():\n    return real(0)\n\n"
        "class Mine(JointFeatureMTL):\n"
        '    _rules = {**JointFeatureMTL._rules, "alpha": real(0, 1), "tol": made(), **{}}\n\n'
        'class Odd(JointFeatureMTL):\n    _rules = dict([("alpha", real(0, 1))])\n\n'
        "class Worse(JointFeatureMTL):\n    _rules = 3\n\n"
        'class Worst(JointFeatureMTL):\n    _rules = {**JointFeatureMTL._rules, "alpha": "positive", "tol": [1]}\n'
    )
    for name, ok in (("Mine", False), ("Odd", False), ("Worse", True), ("Worst", True)):
        text = TRAIN.replace("JointFeatureMTLClassifier", f"own_rules:{name}").replace(
            "[auc]", "[mse]"
        )
        (tmp_path / "a.yaml").write_text(
            text.replace("[0.1, 1]", "[2, nonsense]").replace(
                "simulated-rmtl, n: 60, d: 5, m: 3", "school"
            )
        )
        result = mtlrun("validate", "a.yaml")
        assert ("a.yaml:7:18: alpha must be a float in [0, 1)" in result.stderr) == (
            not ok
        ), result.output
        assert "internal" not in result.output
        assert "Traceback" not in result.output
