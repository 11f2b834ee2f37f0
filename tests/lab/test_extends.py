"""Files that extend another experiment: merging, origin of values, error messages."""

import pytest

from mtlrun.errors import ConfigError
from mtlrun.lab.experiment.load import load_experiment, validate_file

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


def test_all_fields_but_the_name_are_inherited(lab, child):
    derived, base = (
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
        for name, value in derived.config.items()
        if name not in ("id", "title")
    } == same
    assert (derived.id, derived.spec.title) == ("lab/child", "A child")
    assert derived.profiles == base.profiles
    assert derived.paper_datasets == base.paper_datasets


def test_mappings_are_merged_lists_are_replaced_and_methods_are_merged_by_label(child):
    extension = """\
metrics: [accuracy]
split: {trials: 5}
methods:
  - {label: weak, params: {slow: 0.5}}
  - {label: new, estimator: "lab.models:Ridge"}
"""
    spec = child(extension, profile="full").spec
    assert (spec.metrics, spec.split.train, spec.split.trials) == (["accuracy"], 0.5, 5)
    assert [m.label for m in spec.methods] == ["strong", "weak", "new"]
    assert spec.methods[1].params == {"alpha": 0.001, "slow": 0.5}


def test_profiles_of_both_files_are_applied(child):
    assert child(profile="quick").spec.split.trials == 1
    extension = "profiles: {quick: {split: {train: 0.3}}, own: {metrics: [accuracy]}}\n"
    quick = child(extension, profile="quick").spec
    assert (quick.split.trials, quick.split.train) == (1, 0.3)
    assert child(extension, profile="own").spec.metrics == ["accuracy"]
    assert child(extension, profile="smoke").spec.methods[1].params == {"alpha": 2}
    assert child(extension, profile="own").profiles == ("quick", "smoke", "own", "full")


def test_problems_name_the_right_file(lab, child):
    (lab.root / "base.yaml").write_text(lab.tiny.replace("[auc]", "[acu]"))
    with pytest.raises(ConfigError, match=r"base.yaml:7:11: unknown metric 'acu'"):
        child()
    with pytest.raises(ConfigError, match=r"child.yaml:6:11: unknown metric 'ac'"):
        child("metrics: [ac]\n")


def test_cycles_and_missing_files_are_rejected(lab, child):
    (lab.root / "base.yaml").write_text(lab.tiny + "extends: child.yaml\n")
    with pytest.raises(ConfigError, match="extends this file"):
        child()
    (lab.root / "base.yaml").unlink()
    with pytest.raises(ConfigError, match="no file base"):
        child()
    with pytest.raises(ConfigError, match="dcrmtl/tabel2"):
        load_experiment(
            lab.write(CHILD.replace("base.yaml", "dcrmtl/tabel2"), "child.yaml")
        )


def test_chains_of_files_are_followed(lab, child):
    lab.write(CHILD + "metrics: [accuracy]\n", "middle.yaml")
    text = CHILD.replace("base.yaml", "middle.yaml")
    assert load_experiment(
        lab.write(text, "last.yaml"), profile="full"
    ).spec.metrics == ["accuracy"]
    validate_file(lab.root / "last.yaml")


@pytest.mark.slow
def test_a_shipped_experiment_can_be_extended(lab):
    text = CHILD.replace("base.yaml", "dcrmtl/table2") + "deviations: [ours]\n"
    experiment = load_experiment(lab.write(text, "child.yaml"), profile="smoke")
    assert experiment.spec.deviations == ["ours"]
    assert (
        experiment.spec.methods
        == load_experiment("dcrmtl/table2", profile="smoke").spec.methods
    )


# --- values replaced by an inherited profile, and claims about other data ---

CLAIM = """\
claims:
  - {id: c1, text: Strong is better, checks: [{kind: difference, quantity: auc, of: strong, over: weak, at_least: 0}]}
"""


def test_a_value_replaced_by_an_inherited_profile_is_named_with_both_lines(child):
    child_spec = child("split: {trials: 7}\n", profile="quick")
    (warning,) = child_spec.warnings
    assert "child.yaml:6" in warning
    assert "base.yaml" in warning
    assert child_spec.spec.split.trials == 1


def test_a_profile_of_the_file_itself_takes_precedence_without_a_warning(child):
    extension = "split: {trials: 7}\nprofiles: {quick: {split: {trials: 7}}}\n"
    child_spec = child(extension, profile="quick")
    assert child_spec.warnings == ()
    assert child_spec.spec.split.trials == 7


def test_additions_and_other_profiles_cause_no_warning(child):
    method = '  - {label: new, estimator: "lab.models:Ridge"}\n'
    assert child(f"methods:\n{method}", profile="smoke").warnings == ()
    assert child("split: {trials: 7}\n", profile="full").warnings == ()


@pytest.mark.parametrize(
    ("more", "source"),
    [
        ("", "paper"),
        ('methods: [{label: new, estimator: "lab.models:Ridge"}]\n', "paper"),
        ("split: {trials: 7}\n", "other data"),
        ("methods: [{label: weak, params: {alpha: 9}}]\n", "other data"),
        ("split: {trials: 7}\npaper: {cite: P, artefact: T}\n", "paper"),
    ],
)
def test_inherited_claims_about_another_setting_are_marked(lab, more, source):
    tiny = lab.tiny.partition("claims:")[0]
    lab.write(f"{tiny}{CLAIM}paper: {{cite: P, artefact: T}}\n", "base.yaml")
    experiment = load_experiment(lab.write(CHILD + more, "child.yaml"), profile="full")
    (claim,) = [claim for claim in experiment.spec.claims if claim.id == "c1"]
    assert claim.source == source


def test_claims_of_a_paper_refer_to_its_data_sets(lab, child):
    base = load_experiment(lab.root / "base.yaml", profile="full")
    child_spec = child("datasets: [{id: simulated-rmtl, n: 40, d: 5, m: 4}]\n")
    assert child_spec.paper_datasets == base.paper_datasets
