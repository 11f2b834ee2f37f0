"""Declarations of analyses: in code, and as stored to avoid imports."""

import os
import subprocess
import sys
from importlib import import_module

import pytest

from mtlrun.catalog.analysis import ANALYSES, Declaration, analysis
from mtlrun.catalog.methods import (
    analysis_parameters,
    analysis_path,
    declared,
    needs_data,
    quantities_of,
)
from mtlrun.show.quantities import spoken

WALK = """
from mtlrun.catalog.analysis import AnalysisResult, analysis as declares

@declares({"end": "where the walk ends", "length": "steps"}, higher=["end"], needs_data=False)
def walk(dataset, *, seed, steps=3):
    '''Walk at random. Long.

    Elsewhere.
    '''
    return AnalysisResult({"end": 1.0, "length": 3.0})

def plain(dataset, *, seed): ...
"""


@pytest.fixture
def walks(tmp_path, monkeypatch):
    """Write a module of the user; return a function that changes its content."""

    def write(text):
        (tmp_path / "walks_of_mine.py").write_text(text)
        monkeypatch.delitem(sys.modules, "walks_of_mine", raising=False)

    monkeypatch.syspath_prepend(tmp_path)
    write(WALK)
    yield write
    sys.modules.pop("walks_of_mine", None)


def test_short_names_belong_to_analyses_whose_declarations_match_the_code():
    assert list(ANALYSES) == sorted(ANALYSES)
    for name, path in ANALYSES.items():
        module, _, function = path.partition(":")
        analysis = getattr(import_module(module), function)
        summary, declaration = declared(path)
        assert declaration.plain() == analysis.declaration.plain(), name
        assert declaration.quantities, name
        assert summary, name
        assert analysis.__doc__.replace("`", "").startswith(summary), name
        assert analysis_path(name) == path
        assert declaration.name == name
        assert analysis_parameters(name) is not None, name
        assert quantities_of([name]) == quantities_of([path]), name
        assert quantities_of([name]) == declaration.facts(), name


def test_tables_name_a_quantity_in_the_words_of_each_analysis_that_has_some():
    words = {}
    for name in ANALYSES:
        words[name] = dict(declared(name)[1].labels)
    assert words["dcrmtl-constraint"]
    for labels in words.values():
        assert {quantity: spoken(quantity) for quantity in labels} == labels


def test_declarations_of_the_user_are_read_too(walks):
    facts = {
        "end": {"text": "where the walk ends", "greater_is_better": True},
        "length": {"text": "steps", "greater_is_better": None},
    }
    assert declared("walks_of_mine:walk")[0] == "Walk at random. Long"
    assert quantities_of(["walks_of_mine:walk"]) == facts
    assert not needs_data("walks_of_mine:walk")
    assert import_module("walks_of_mine").walk.declaration.facts() == facts


@pytest.mark.parametrize(
    "text",
    [
        WALK.replace("higher", "highest"),
        WALK.replace("def plain(", "def plain(("),
        "1 / 0",
    ],
)
def test_a_failed_import_gives_no_declaration(walks, text):
    walks(text)
    assert declared("walks_of_mine:walk") is None


@pytest.mark.parametrize(
    "path",
    [
        "walks_of_mine:plain",
        "walks_of_mine:none",
        "no_such:walk",
        "json:dumps",
        ":walk",
    ],
)
def test_functions_without_a_declaration_may_return_anything(walks, path):
    assert declared(path) is None
    assert quantities_of(["data-set-statistics", path]) is None
    assert not needs_data(path)


@pytest.mark.parametrize(
    ("quantities", "options", "error"),
    [
        ({"a": "b"}, {"lower": ["c"]}, ValueError),
        ({"a": "b"}, {"higher": ["c"]}, ValueError),
        ({"a": "b"}, {"labels": {"c": "d"}}, ValueError),
        (["a"], {}, TypeError),
    ],
)
def test_a_declaration_must_be_consistent(quantities, options, error):
    with pytest.raises(error, match="quantities"):
        Declaration(quantities, **options)


def test_the_decorator_leaves_the_function_unchanged():
    def function(dataset, *, seed): ...

    assert analysis({"a": "b"}, lower=["a"])(function) is function
    assert function.declaration == Declaration({"a": "b"}, lower=["a"])


def test_quantities_are_listed_without_importing_numpy():
    code = (
        "import sys\nfrom mtlrun.catalog.analysis import ANALYSES\nfrom mtlrun.catalog.methods import quantities_of\n"
        "assert len(quantities_of(ANALYSES)) > 20\nprint('numpy' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.strip() == "False", run.stderr


def test_patterns_state_which_quantities_are_better_when_lower():
    texts = {"seconds_a": "s", "seconds_b": "s", "rows": "n", "auc": "AUC"}
    facts = Declaration(texts, lower=("seconds_*",), higher=("auc",)).facts()
    better = {name: fact["greater_is_better"] for name, fact in facts.items()}
    assert better == {"seconds_a": False, "seconds_b": False, "rows": None, "auc": True}
    with pytest.raises(ValueError, match=r"'minutes_\*'"):
        Declaration(texts, lower=("minutes_*",))
