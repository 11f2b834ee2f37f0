"""Derive the registry ``mtlrun/estimators/declarations.py`` from the code, and
``docs/methods.md``.

``python scripts/registry.py`` after a change of a method, another estimator, a metric,
an analysis, a reader or a generator. The registry has the metadata of methods and
metrics and the parameters of all classes and functions that a file can name, so that
they are known without an import. Classes of other packages that shipped experiments
name are described as the installed version has them.
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
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator, is_classifier

ROOT = Path(__file__).resolve().parents[1]
REGISTRY = ROOT / "mtlrun" / "estimators" / "declarations.py"
PAGE = ROOT / "docs" / "methods.md"
#: List of classes by family. A new class is listed behind those of its module.
CLASS_LIST = ROOT / "docs" / "api" / "estimators.md"
#: The text after this line of the page is generated.
MARK = "<!-- What follows is written by `make generated`. -->\n"
DESIGNS = ["shared", "ragged", "masked"]
#: Classes of scikit-learn in the experiments.
SKLEARN_CLASS = re.compile(r"\bsklearn(?:\.\w+)+:\w+")

if TYPE_CHECKING:
    from mtlrun.catalog.interfaces import Interface
    from mtlrun.estimators.metadata import MethodInfo, MethodMetadata


# ---------------------------------------------------------------- the registry

HEADER = '''"""Public classes, methods, metrics and interfaces. Written by `make generated`.

The names of classes are code, for editors and type checkers. The rest is JSON, which is
parsed only where it is needed: `mtlrun.catalog.registry` has the methods, and
`mtlrun.catalog.interfaces` has the metrics and the interfaces.
"""
# ruff: noqa: E501, I001, RUF022

from __future__ import annotations

from typing import TYPE_CHECKING
'''


def registry_text(
    modules: dict[str, list[str]],
    methods: Iterable[MethodInfo],
    baselines: Iterable[MethodInfo],
    metrics: dict[str, dict[str, Any]],
    interfaces: dict[str, dict[str, Any]],
    analyses: dict[str, str],
) -> str:
    """Return the content of the registry.

    Parameters
    ----------
    modules : dict of str to list of str
        Module -> its public classes.
    methods : iterable of MethodInfo
    baselines : iterable of MethodInfo
        Other models of leaderboards.
    metrics : dict of str to dict
        Name of a metric -> its properties.
    interfaces : dict of str to dict
        ``package.module:name`` -> its interface as plain data.
    analyses : dict of str to str
        Name of an analysis in experiment files -> ``package.module:function``.
    """
    lines = [HEADER]
    if modules:
        lines.append("if TYPE_CHECKING:")
    for module, names in modules.items():
        lines.append(f"    from {module} import (")
        lines += [f"        {name}," for name in names]
        lines.append("    )")
    lines += ["", "#: Module -> its public classes.", "CLASSES = {"]
    for module, names in modules.items():
        lines.append(f'    "{module}": [')
        lines += [f'        "{name}",' for name in names]
        lines.append("    ],")
    lines += ["}", "", "#: Name of an analysis in experiment files -> its function."]
    lines.append("ANALYSES: dict[str, str] = {")
    lines += [f'    "{name}": "{path}",' for name, path in analyses.items()]
    lines += ["}", "", "__all__ = ["]
    lines += [f'    "{name}",' for names in modules.values() for name in names]
    lines += ["]", ""]
    for name, text in (
        ("METHODS", _json_lines(_records(methods))),
        ("BASELINES", _json_lines(_records(baselines))),
        ("METRICS", _json_lines(metrics)),
        ("INTERFACES", _json_lines(interfaces)),
    ):
        if '"""' in text:
            raise ValueError(f"three quotation marks in a text of {name}")
        lines.append(f'{name} = r"""{text}"""')
    return "\n".join([*lines, ""])


def _records(methods: Iterable[MethodInfo]) -> dict[str, dict[str, Any]]:
    return {info.name: dataclasses.asdict(info) for info in methods}


def _json_lines(entries: dict[str, Any]) -> str:
    """Return a JSON object with one entry per line, so that changes can be compared."""
    rows = [
        f"{json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}"
        for name, entry in entries.items()
    ]
    return "{\n" + ",\n".join(rows) + "\n}"


def ensure_readable() -> None:
    """Write an empty registry where there is none, or conflicts of a merge are in it.

    The modules that the registry is derived from read it when they are imported.
    """
    try:
        compile(REGISTRY.read_text(encoding="utf-8"), str(REGISTRY), "exec")
    except (OSError, SyntaxError):
        REGISTRY.write_text(registry_text({}, [], [], {}, {}, {}), encoding="utf-8")


def metric_properties() -> dict[str, dict[str, Any]]:
    """Return the properties of all metrics by name."""
    from mtlrun.catalog.interfaces import MetricInfo
    from mtlrun.metrics import METRICS

    names = [field.name for field in dataclasses.fields(MetricInfo)]
    return {
        name: {key: getattr(metric, key) for key in names}
        for name, metric in METRICS.items()
    }


def analysis_paths() -> dict[str, str]:
    """Return the analyses that the modules of papers declare, by their names."""
    import mtlrun.papers

    paths: dict[str, str] = {}
    for info in pkgutil.walk_packages(mtlrun.papers.__path__, "mtlrun.papers."):
        module = importlib.import_module(info.name)
        for function in vars(module).values():
            declaration = getattr(function, "declaration", None)
            if declaration is None or function.__module__ != info.name:
                continue
            path = f"{info.name}:{function.__name__}"
            if not declaration.name or declaration.name in paths:
                raise ValueError(f"{path}: @analysis needs a name that no other has")
            paths[declaration.name] = path
    return dict(sorted(paths.items()))


def plain_interfaces(
    analyses: Iterable[str], other_classes: Iterable[type]
) -> dict[str, dict[str, Any]]:
    """Return the interfaces of what files can name and the methods do not describe.

    Parameters
    ----------
    analyses : iterable of str
        Paths of the analyses.
    other_classes : iterable of type
        Public estimators that are no methods.
    """
    from mtlrun.catalog.interfaces import inspect_interface
    from mtlrun.data.sets.load import READERS
    from mtlrun.utils.io import configs_dir

    paths = [*analyses]
    paths += [f"mtlrun.data.sets.{path}" for path in READERS.values()]
    paths += _generators()
    paths += sorted(f"{cls.__module__}:{cls.__name__}" for cls in other_classes)
    interfaces = {path: _plain(inspect_interface(path)) for path in paths}
    texts = [path.read_text(encoding="utf-8") for path in configs_dir().rglob("*.yaml")]
    for path in sorted({*SKLEARN_CLASS.findall("\n".join(texts))}):
        package = {"scikit-learn": version("scikit-learn")}
        interfaces[path] = {"package": package, **_plain(inspect_interface(path))}
    return interfaces


def _generators() -> list[str]:
    from mtlrun.data.sets import simulate

    functions = inspect.getmembers(simulate, inspect.isfunction)
    return [
        f"{simulate.__name__}:{name}"
        for name, _ in functions
        if name.startswith("simulate_")
    ]


def _plain(interface: Interface) -> dict[str, Any]:
    """Return an interface as plain data, without its path and empty fields."""
    plain = {}
    for field in dataclasses.fields(interface):
        if field.name == "path":
            continue
        value = getattr(interface, field.name)
        if field.name == "names" or value not in (None, (), {}, "", False):
            plain[field.name] = value
    return plain


# ---------------------------------------------------------------- classes and methods


def public_classes() -> list[type]:
    """Return the public estimators of all modules of the package, baselines first."""
    import mtlrun.estimators

    modules = [
        importlib.import_module(f"mtlrun.estimators.{info.name}")
        for info in pkgutil.iter_modules(mtlrun.estimators.__path__)
    ]
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
    from mtlrun.estimators.metadata import MethodInfo, SharedMetadata, references
    from mtlrun.estimators.params import NONE, sections

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
        summary=_summary(head).removesuffix("."),
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


def baseline_info(cls: type) -> MethodInfo:
    """Return the metadata of a model that leaderboards have and no paper."""
    from mtlrun.estimators.baselines import takes_task_id
    from mtlrun.estimators.compare_baselines import LEADERBOARD_NAMES
    from mtlrun.estimators.metadata import MethodInfo
    from mtlrun.estimators.params import sections

    estimator = cls()
    return MethodInfo(
        losses=[],
        multitask=False,
        name=LEADERBOARD_NAMES[cls],
        class_path=f"{cls.__module__}:{cls.__name__}",
        summary=_summary(sections(cls.__doc__)[""]).removesuffix("."),
        kind="classifier" if is_classifier(estimator) else "regressor",
        designs=DESIGNS if takes_task_id(estimator) else DESIGNS[:1],
    )


def _zero_from(cls: type) -> str:
    """Return the method, such as alpha_max, that finds the strength of zero
    coefficients.

    A class that inherits one and has no such strength sets it to None.
    """
    for name in dir(cls):
        if name.endswith("_max") and callable(getattr(cls, name)):
            return name
    return ""


def _summary(docstring: str) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join(docstring.partition("\n\n")[0].split())


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


# ---------------------------------------------------------------- docs/methods.md


def page_text(
    methods: list[MethodInfo], others: list[type], along_paths: list[str]
) -> str:
    """Return the generated part of ``docs/methods.md``."""
    from mtlrun.estimators.params import sections

    by_name = {info.name: info for info in methods}
    classifiers = {info.name: by_name.get(f"{info.name}Classifier") for info in methods}
    twin_of = {name: twin.name for name, twin in classifiers.items() if twin}
    listed_methods = [info for info in methods if info.name not in twin_of.values()]
    overview = [
        (
            ", ".join(
                f"`{name}`" for name in (info.name, twin_of.get(info.name)) if name
            ),
            info.summary,
            f"`{info.objective}`" if info.objective else "",
            _linked(info.source, info.bibtex),
        )
        for info in listed_methods
    ]
    wrappers = [
        (f"`{cls.__module__}:{cls.__name__}`", _summary(sections(cls.__doc__)[""]))
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
        "The [API](api/estimators.md) has a page for each class, with parameters and attributes;\n"
        "`mtlrun list methods NAME` prints its cost, layouts and default grid.\n",
        _table(("Method", "What it does", "Minimizes", "Source"), overview),
        "## Baselines and wrappers of `mtlrun compare`\n",
        "They belong to no paper's experiment. Leaderboards and `mtlrun list methods` write a\nplus in some names, which "
        "classes do not have: `PooledRidge+Task` is\n`PooledRidgeTask` in Python.\n",
        _table(("Class", "What it does"), wrappers),
        "## Strengths chosen by cross-validation\n",
        "These choose their strength along the path of all strengths. Each fit starts\n"
        "from the previous one, so that 50 strengths with five folds take the time of\n"
        "5 to 110 fits, by method and table. They have the other parameters of the\n"
        "model, and `alphas`, `min_ratio`, `cv` and `scoring`:\n",
        ", ".join(f"`{name}CV`" for name in along_paths) + ".\n",
        "## Strengths of other packages\n",
        _table(("There", "Here", "Strengths"), conversions),
        "MALSAR averages its logistic losses over the rows of a task: with n rows in every task, multiply its strengths"
        " by n. Its\n`Least_SparseTrace` bounds the trace norm instead of penalizing it: no counterpart.\n",
        "## References\n",
        "`mtlrun list methods --format bibtex` prints all references.\n",
    ]
    return "\n".join(parts)


def _linked(source: str, entry: str) -> str:
    """Return authors and year of a method, linked to the DOI of its BibTeX entry."""
    doi = re.search(r"doi = {(.*?)}", entry)
    return f"[{source}](https://doi.org/{doi[1]})" if doi else source


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


def with_new_classes(page: str, modules: dict[str, list[str]]) -> str:
    """Return the list of classes with those that it lacks.

    A class is listed behind the others of its module; modules without a listed class
    are left out.

    Parameters
    ----------
    page : str
    modules : dict of str to list of str
        The classes of each module.
    """
    for names in modules.values():
        lines = {name: f"   mtlrun.estimators.{name}\n" for name in names}
        listed = [line for line in lines.values() if line in page]
        if not listed:
            continue  # The place of a new family is chosen by hand.
        last = max(listed, key=page.index)
        new = [line for line in lines.values() if line not in page]
        page = page.replace(last, "".join([last, *new]), 1)
    return page


def generated() -> dict[Path, str]:
    """Return the files to write and their contents."""
    from mtlrun.estimators.base import DegenerateModelWarning
    from mtlrun.estimators.compare_baselines import LEADERBOARD_NAMES
    from mtlrun.estimators.path_base import PathCV

    classes = public_classes()
    methods = [
        method_info(cls)
        for cls in classes
        if hasattr(cls, "metadata") and not issubclass(cls, PathCV)
    ]
    modules: dict[str, list[str]] = {}
    for module, name in sorted(
        (cls.__module__, cls.__name__) for cls in [*classes, DegenerateModelWarning]
    ):
        modules.setdefault(module, []).append(name)
    method_names = {info.name for info in methods}
    others = [cls for cls in classes if cls.__name__ not in method_names]
    baselines = [baseline_info(cls) for cls in LEADERBOARD_NAMES]
    analyses = analysis_paths()
    registry = registry_text(
        modules,
        methods,
        baselines,
        metric_properties(),
        plain_interfaces(analyses.values(), others),
        analyses,
    )
    wrappers = [cls for cls in classes if not hasattr(cls, "metadata")]
    along_paths = [
        cls.__name__.removesuffix("CV") for cls in classes if issubclass(cls, PathCV)
    ]
    written = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    page = f"{written}{MARK}\n{page_text(methods, wrappers, along_paths)}"
    class_list = with_new_classes(CLASS_LIST.read_text(encoding="utf-8"), modules)
    return {REGISTRY: registry, PAGE: page, CLASS_LIST: class_list}


if __name__ == "__main__":
    ensure_readable()
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path}\n")
