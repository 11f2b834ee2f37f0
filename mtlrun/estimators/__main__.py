"""Derive the registry from the classes: ``python -m mtlrun.estimators`` after any change of a method.

It writes ``methods.json`` and ``__init__.pyi`` next to this file and, in a checkout, the generated part of
``docs/methods.md``.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pkgutil
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from sklearn.base import BaseEstimator, is_classifier

from mtlrun.estimators.base import DegenerateModelWarning
from mtlrun.estimators.metadata import (
    MethodInfo,
    MethodMetadata,
    SharedMetadata,
    references,
)
from mtlrun.estimators.params import NONE, sections
from mtlrun.estimators.path_base import PathCV

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs" / "methods.md"
#: The text after this line of the page is generated.
MARK = "<!-- What follows is written by `python -m mtlrun.estimators`. -->\n"
DESIGNS = ["shared", "ragged", "masked"]


def public_classes() -> list[type]:
    """Return the public estimators of all modules of the package, baselines first."""
    names = [
        info.name
        for info in pkgutil.iter_modules([str(FOLDER)])
        if not info.name.startswith("_")
    ]
    modules = [importlib.import_module(f"mtlrun.estimators.{name}") for name in names]
    classes = [
        value
        for module in modules
        for value in vars(module).values()
        if _is_ours(value, module)
    ]
    return sorted(
        classes,
        key=lambda cls: (
            getattr(cls, "metadata", None) is None or cls.metadata.multitask
        ),
    )


def _is_ours(value: Any, module: ModuleType) -> bool:
    ours = (
        isinstance(value, type)
        and value.__module__ == module.__name__
        and issubclass(value, BaseEstimator)
    )
    return ours and not value.__name__.startswith("_") and not inspect.isabstract(value)


def method_info(cls: type) -> MethodInfo:
    """Return the metadata of the method of a class."""
    metadata: MethodMetadata = cls.metadata  # type: ignore[attr-defined]
    rules: dict[str, Any] = cls._rules  # type: ignore[attr-defined]
    head = sections(cls.__doc__)[""]
    loss = rules.get("loss", NONE).names
    common = {
        field.name: getattr(metadata, field.name)
        for field in dataclasses.fields(SharedMetadata)
    }
    return MethodInfo(
        **common | ({"losses": loss} if loss else {}),
        name=cls.__name__,
        class_path=f"{cls.__module__}:{cls.__name__}",
        summary=head.split("\n")[0].removesuffix("."),
        objective=" ".join(head.split("::\n\n")[1].split("\n\n")[0].split()),
        kind="classifier" if is_classifier(cls()) else "regressor",
        designs=DESIGNS,
        parameters={
            p.name: _parameter(p, rules.get(p.name))
            for p in inspect.signature(cls).parameters.values()
        },
        zero_from=_zero_from(cls),
        source="; ".join(_short(references()[key]) for key in metadata.cite),
    )


def _zero_from(cls: type) -> str:
    """Return the method, such as alpha_max, that finds the strength of zero coefficients.

    A class that inherits one and has no such strength sets it to None.
    """
    for name in dir(cls):
        if name.endswith("_max") and callable(getattr(cls, name)):
            return name
    return ""


def _parameter(parameter: inspect.Parameter, rule: Any) -> dict[str, Any]:
    named = parameter.kind is parameter.KEYWORD_ONLY
    return {
        "default": parameter.default,
        "keyword_only": named,
        "rule": rule and rule.plain,
    }


def _short(entry: str) -> str:
    """Return authors and year of a BibTeX entry: up to three names."""
    fields = dict(re.findall(r"(author|year) = {(.*?)}(?:,|\n)", entry))
    names = [author.split(",")[0] for author in fields["author"].split(" and ")]
    first = ", ".join(names[:-1])
    last = names[-1]
    if len(names) > 3:
        text = f"{names[0]} et al."
    elif first:
        text = f"{first} and {last}"
    else:
        text = last
    return f"{text} {fields['year']}"


def registry_text(methods: list[MethodInfo]) -> str:
    """Return the content of ``methods.json``: one method per line, so that changes can be compared."""
    lines = (
        json.dumps(dataclasses.asdict(info), ensure_ascii=False) for info in methods
    )
    return "[\n" + ",\n".join(lines) + "\n]\n"


def stub_text(classes: list[type]) -> str:
    """Return the content of ``__init__.pyi``: what `mtlrun.estimators` offers, for type checkers and for itself."""
    imports = sorted(
        (cls.__module__, cls.__name__) for cls in [*classes, DegenerateModelWarning]
    )
    lines = [f"from {module} import {name} as {name}" for module, name in imports]
    return "\n".join(
        [
            "# Written by `python -m mtlrun.estimators`.",
            "# ruff: noqa: I001",
            *lines,
            "",
            "HOMES: dict[str, str]",
            "",
        ]
    )


def _heading(name: str) -> str:
    return name.removesuffix("Classifier").lower()


def page_text(
    methods: list[MethodInfo], others: list[type], along_paths: list[str]
) -> str:
    """Return the generated part of ``docs/methods.md``."""
    by_name = {info.name: info for info in methods}
    classifiers = {info.name: by_name.get(f"{info.name}Classifier") for info in methods}
    hidden = {classifier.name for classifier in classifiers.values() if classifier}
    listed_methods = [info for info in methods if info.name not in hidden]
    overview = [
        (f"[{info.name}](#{info.name.lower()})", info.summary, info.source)
        for info in listed_methods
    ]
    wrappers = [
        (f"`{cls.__module__}:{cls.__name__}`", sections(cls.__doc__)[""].split("\n")[0])
        for cls in others
    ]
    elsewhere: dict[tuple[str, str], list[str]] = {}
    for info in listed_methods:
        for function, strengths in info.elsewhere.items():
            elsewhere.setdefault((function, strengths), []).append(f"`{info.name}`")
    conversions = sorted(
        (there, ", ".join(here), text) for (there, text), here in elsewhere.items()
    )
    parts = [
        "## Overview\n",
        _table(("Method", "What it does", "Source"), overview),
        *(_section(info, classifiers[info.name]) for info in listed_methods),
        "## Baselines and wrappers of `mtlrun compare`\n",
        "They belong to no paper's experiment, hence not to the registry; in a file they are written as the class.\n",
        _table(("Class", "What it does"), wrappers),
        "## Strengths chosen by cross-validation\n",
        "These choose their strength along the path of all strengths. Each fit starts\n"
        "from the previous one, so that 50 strengths with five folds take the time of\n"
        "5 to 110 fits, by method and table. They have the other parameters of the\n"
        "model, and `alphas`, `min_ratio`, `cv` and `scoring`.\n",
        _table(
            ("Class", "Model"),
            [(f"`{name}CV`", f"[{name}](#{_heading(name)})") for name in along_paths],
        ),
        "## Strengths of other packages\n",
        _table(("There", "Here", "Strengths"), conversions),
        "MALSAR averages its logistic losses over the rows of a task: with n rows in every task, multiply its strengths"
        " by n. Its\n`Least_SparseTrace` bounds the trace norm instead of penalizing it: no counterpart.\n",
        "\n".join(["## References\n", "```bibtex", *references().values(), "```", ""]),
    ]
    return "\n".join(parts)


def _section(info: MethodInfo, classifier: MethodInfo | None) -> str:
    code = ("Minimizes", "All zero from", "Class", "Needs")
    lines = [
        f"- {key}: {f'`{text}`' if key in code else text}"
        for key, text in info.described(classifier)
    ]
    return "\n".join([f"## {info.name}\n", f"{info.summary}.\n", *lines]) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    # A bar would end the cell.
    return (
        "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
            for line in lines
        )
        + "\n"
    )


def generated() -> dict[Path, str]:
    """Return the files to write and their contents."""
    classes = public_classes()
    methods = [
        method_info(cls)
        for cls in classes
        if hasattr(cls, "metadata") and not issubclass(cls, PathCV)
    ]
    others = [cls for cls in classes if not hasattr(cls, "metadata")]
    files = {
        FOLDER / "methods.json": registry_text(methods),
        FOLDER / "__init__.pyi": stub_text(classes),
    }
    if PAGE.exists():
        along_paths = [
            cls.__name__.removesuffix("CV")
            for cls in classes
            if issubclass(cls, PathCV)
        ]
        written = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
        files[PAGE] = f"{written}{MARK}\n{page_text(methods, others, along_paths)}"
    return files


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path}\n")
