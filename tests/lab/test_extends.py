"""Files that extend another experiment: what is merged, where values come from, how problems are reported."""

import pytest

from mtlrun.errors import ConfigError
from mtlrun.lab.load import load_experiment, validate_file

CHILD = """\
schema: 1
id: lab/child
title: A child
kind: evaluate
extends: base.yaml
"""
PROFILES = """\
profiles:
  quick: {split: {trials: 1}}
  smoke: {methods: [{label: weak, params: {alpha: 2}}]}
"""


@pytest.fixture
def child(lab):
    lab.write(lab.tiny + PROFILES, "base.yaml")

    def load(more="", **options):
        return load_experiment(lab.write(CHILD + more, "child.yaml"), **options)

    return load


def test_everything_but_the_name_is_taken_over(lab, child):
    made, base = (
        child(profile="full"),
        load_experiment(lab.root / "base.yaml", profile="full"),
    )
    same = {
        name: value
        for name, value in base.config.items()
        if name not in ("id", "title")
    }
    assert {
        name: value
        for name, value in made.config.items()
        if name not in ("id", "title")
    } == same
    assert (made.id, made.spec.title) == ("lab/child", "A child")
    assert made.profiles == base.profiles
    assert made.paper_datasets == base.paper_datasets


def test_mappings_are_merged_lists_replaced_methods_merged_by_label(child):
    more = """\
metrics: [accuracy]
split: {trials: 5}
methods:
  - {label: weak, params: {slow: 0.5}}
  - {label: new, estimator: "lab.models:Ridge"}
"""
    spec = child(more, profile="full").spec
    assert (spec.metrics, spec.split.train, spec.split.trials) == (["accuracy"], 0.5, 5)
    assert [m.label for m in spec.methods] == ["strong", "weak", "new"]
    assert spec.methods[1].params == {"alpha": 0.001, "slow": 0.5}


def test_profiles_of_both_files_are_laid_over(child):
    assert child(profile="quick").spec.split.trials == 1
    more = "profiles: {quick: {split: {train: 0.3}}, own: {metrics: [accuracy]}}\n"
    quick = child(more, profile="quick").spec
    assert (quick.split.trials, quick.split.train) == (1, 0.3)
    assert child(more, profile="own").spec.metrics == ["accuracy"]
    assert child(more, profile="smoke").spec.methods[1].params == {"alpha": 2}
    assert child(more, profile="own").profiles == ("quick", "smoke", "own", "full")


def test_problems_name_the_file_they_are_in(lab, child):
    (lab.root / "base.yaml").write_text(lab.tiny.replace("[auc]", "[acu]"))
    with pytest.raises(ConfigError, match=r"base.yaml:7:11: unknown metric 'acu'"):
        child()
    with pytest.raises(ConfigError, match=r"child.yaml:6:11: unknown metric 'ac'"):
        child("metrics: [ac]\n")


def test_circles_and_missing_files_are_refused(lab, child):
    (lab.root / "base.yaml").write_text(lab.tiny + "extends: child.yaml\n")
    with pytest.raises(ConfigError, match="which extends this file"):
        child()
    (lab.root / "base.yaml").unlink()
    with pytest.raises(ConfigError, match="no file base"):
        child()
    with pytest.raises(ConfigError, match="dcrmtl/tabel2"):
        load_experiment(
            lab.write(CHILD.replace("base.yaml", "dcrmtl/tabel2"), "child.yaml")
        )


def test_a_chain_of_files(lab, child):
    lab.write(CHILD + "metrics: [accuracy]\n", "middle.yaml")
    text = CHILD.replace("base.yaml", "middle.yaml")
    assert load_experiment(
        lab.write(text, "last.yaml"), profile="full"
    ).spec.metrics == ["accuracy"]
    validate_file(lab.root / "last.yaml")


def test_a_shipped_experiment_can_be_extended(lab):
    text = CHILD.replace("base.yaml", "dcrmtl/table2") + "deviations: [ours]\n"
    made = load_experiment(lab.write(text, "child.yaml"), profile="smoke")
    assert made.spec.deviations == ["ours"]
    assert (
        made.spec.methods
        == load_experiment("dcrmtl/table2", profile="smoke").spec.methods
    )
