"""Files derived from the classes: the registry, docs/methods.md, parameters."""

import ast
import importlib.util
import inspect
import re
import runpy
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pytest
import sklearn.linear_model
from sklearn.base import clone

import mtlrun.estimators
from mtlrun.catalog.registry import METHODS, load_class
from mtlrun.estimators.base import BaseMTL, RegressorMTL
from mtlrun.estimators.convex import PenalizedMTL
from mtlrun.estimators.params import Count, NonNegative, entries, sections
from mtlrun.estimators.paths import PathCV
from mtlrun.penalties.norms import TraceNorm


@pytest.fixture(scope="module")
def registry_script():
    path = Path(__file__).parents[2] / "scripts" / "registry.py"
    spec = importlib.util.spec_from_file_location("registry_script", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def files(registry_script):
    return registry_script.generated()


def test_the_derived_files_are_up_to_date(files):
    for path, text in files.items():
        assert path.read_text(encoding="utf-8") == text, (
            f"{path} is out of date, run: make generated"
        )


@pytest.mark.parametrize("damage", [None, "<<<<<<< HEAD\nx = 1\n=======\n"])
def test_an_unreadable_registry_is_emptied(
    registry_script, tmp_path, monkeypatch, damage
):
    path = tmp_path / "registry_data.py"
    if damage is not None:
        path.write_text(damage)
    monkeypatch.setattr(registry_script, "REGISTRY", path)
    registry_script.ensure_readable()
    assert runpy.run_path(str(path))["METHODS"] == "{\n\n}"
    path.write_text("METHODS = 1\n")
    registry_script.ensure_readable()
    assert path.read_text() == "METHODS = 1\n"


def test_all_methods_are_on_the_page_with_their_references(files, registry_script):
    page = files[registry_script.PAGE].partition(registry_script.MARK)[2]
    for name, info in METHODS.items():
        assert re.search(rf"\b{name}\b", page)
        if not name.endswith("Classifier"):
            assert info.source in page
            assert info.objective.replace("|", "\\|") in page


def test_a_new_class_is_listed_behind_those_of_its_module(registry_script):
    lines = [f"   mtlrun.estimators.{name}\n" for name in ("Alpha", "Beta", "Other")]
    modules = {"a": ["Alpha", "Beta", "New"], "b": ["Unlisted"], "c": ["Other"]}
    page = registry_script.with_new_classes("".join(lines), modules)
    new = "   mtlrun.estimators.New\n"
    assert page == "".join([*lines[:2], new, lines[2]])


def test_all_parameters_are_documented_once_with_their_default():
    for name in METHODS:
        cls = load_class(name)
        parts = sections(cls.__doc__)
        documented = [key for names in entries(parts["Parameters"]) for key in names]
        parameters = inspect.signature(cls).parameters
        assert sorted(documented) == sorted(parameters), name
        for (key, *_), text in entries(parts["Parameters"]).items():
            head, _, body = text.partition("\n")
            assert body.strip(), f"{name}: {key}"
            default = ast.literal_eval(head.rpartition(", default ")[2])
            assert default == parameters[key].default, f"{name}: {key}"
        assert parts["Attributes"], name
        assert parts["References"], name


@pytest.mark.parametrize("there", ["MultiTaskLasso", "Lasso", "Ridge"])
def test_strengths_are_converted_from_scikit_learn_as_on_the_page(there):
    rng = np.random.default_rng(0)
    n = 40
    X = rng.normal(size=(n, 4))
    Y = X @ rng.normal(size=(4, 3)) + rng.normal(size=(n, 3))
    oracle = getattr(sklearn.linear_model, there)(0.2, tol=1e-10).fit(X, Y)
    methods = [
        info
        for info in METHODS.values()
        if f"scikit-learn `{there}(a)`" in info.elsewhere
    ]
    assert methods
    for info in methods:
        if info.kind == "classifier" or info.name.startswith("Pooled"):
            continue
        alpha = {"alpha = n a": 0.2 * n, "alpha = a": 0.2}[
            info.elsewhere[f"scikit-learn `{there}(a)`"]
        ]
        model = load_class(info.name)(alpha).set_params(
            **({"tol": 1e-10} if "tol" in info.parameters else {})
        )
        np.testing.assert_allclose(model.fit(X, Y).coef_, oracle.coef_, atol=1e-4)


# ---------------------------------------------------------------- classes of the user


class Mine(RegressorMTL, BaseMTL):
    """Mine.

    Parameters
    ----------
    strength : float, default 2.0
        How strong.

    Notes
    -----
    Of mine.
    """

    strength: NonNegative = 2.0
    rounds: Count = 3

    def _fit_data(self, data):
        raise NotImplementedError


class Derived(Mine):
    """Derived."""

    strength: NonNegative = 5.0


class HandWritten(Mine):
    """With an `__init__` of its own."""

    def __init__(self, rounds=7, *, extra=None, task_column=None, unseen="error"):
        self.rounds, self.extra, self.task_column, self.unseen = (
            rounds,
            extra,
            task_column,
            unseen,
        )


class BelowHandWritten(HandWritten):
    other: str = "nothing"


def test_fields_are_parameters_and_their_type_hints_are_rules():
    model = clone(Derived(1.0, rounds=2))
    assert model.get_params() == {
        "strength": 1.0,
        "rounds": 2,
        "task_column": None,
        "unseen": "error",
    }
    assert Derived().strength == 5.0
    with pytest.raises(ValueError, match=r"rounds.*\[1.*0"):
        Mine(rounds=0).fit(np.eye(3), np.ones(3))
    with pytest.raises(
        TypeError, match=r"Mine.*unexpected keyword argument 'strenght'"
    ):
        Mine(strenght=1)


def test_documentation_is_inherited():
    assert "How strong." in Derived.__doc__
    assert "Of mine." in Derived.__doc__
    assert Derived.__doc__.index("strength :") < Derived.__doc__.index("task_column :")
    assert BelowHandWritten.__doc__ is None


def test_a_handwritten_constructor_is_kept():
    model = clone(HandWritten(extra=1))
    assert (model.rounds, model.extra) == (7, 1)
    assert list(inspect.signature(BelowHandWritten).parameters) == [
        "rounds",
        "extra",
        "task_column",
        "unseen",
    ]
    with pytest.raises(ValueError, match="rounds must be"):
        BelowHandWritten(rounds=-1).fit(np.eye(3), np.ones(3))


class WithHints(RegressorMTL, BaseMTL):
    def __init__(
        self,
        strength: NonNegative = 2.0,
        anything=None,
        *,
        task_column: int | str | None = None,
        unseen: Literal["error", "mean"] = "error",
    ):
        self.strength = strength
        self.anything = anything
        self.task_column = task_column
        self.unseen = unseen

    def _fit_data(self, data):
        raise NotImplementedError


@pytest.mark.parametrize(
    "wrong", [{"strength": -1.0}, {"strength": "2"}, {"unseen": "median"}]
)
def test_type_hints_of_a_handwritten_constructor_are_rules(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} must be"):
        WithHints(**wrong).fit(np.eye(3), np.ones(3))


def test_no_generated_constructor_drops_parameters_of_a_handwritten_one():
    with pytest.raises(TypeError, match="WithHints"):

        class Both(Mine, WithHints):
            pass


@pytest.mark.parametrize("name", ["alpha", "gamma"])
def test_a_parameter_that_the_constructor_of_a_method_would_ignore_is_rejected(name):
    body = {"__annotations__": {name: float}, name: 5.0}
    with pytest.raises(TypeError, match=rf"Below\.{name}.*ClassVar"):
        type("Below", (mtlrun.estimators.TraceNormMTL,), body)


def test_a_subclass_of_a_method_may_have_constants():
    class Below(mtlrun.estimators.TraceNormMTL):
        limit: ClassVar[int] = 3

    assert "limit" not in Below().get_params()


class LooseAlpha(mtlrun.estimators.TraceNormMTL):
    def __init__(self, alpha: float = 1.0):
        super().__init__(alpha)


def test_a_plain_type_hint_in_a_constructor_keeps_the_rule_of_the_base_class():
    with pytest.raises(ValueError, match=r"alpha.*\[0"):
        LooseAlpha(-1.0).fit(np.eye(3), np.eye(3))


class Short(RegressorMTL, PenalizedMTL):
    ridge: NonNegative = 0.5

    def _penalties(self):
        return [TraceNorm(self.alpha)]


class ShortCV(PathCV, Short):
    pass


def test_the_path_of_a_short_form_model_has_no_strength_parameter():
    params = ShortCV().get_params()
    assert params["ridge"] == 0.5
    assert not {"alpha", "warm_start"} & set(params)


def test_classes_for_users_have_their_constructor_in_their_file():
    n_written = 0
    for name in mtlrun.estimators.__all__:
        cls = getattr(mtlrun.estimators, name)
        if hasattr(cls, "get_params"):
            assert "__init__" in vars(cls), name
            code = vars(cls)["__init__"].__code__
            assert code.co_filename == inspect.getfile(cls), name
            n_written += 1
    assert n_written > 60
