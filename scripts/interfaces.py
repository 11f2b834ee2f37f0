"""Derive ``mtlrun/engine/interfaces.json`` from the classes, functions and metrics that a file can name.

``python scripts/interfaces.py`` after a change of a measure, a reader, a generator, a metric or a class that is in no
registry. Classes of other packages that shipped experiments name are described as the installed version has them.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

STORED = Path(__file__).resolve().parents[1] / "mtlrun" / "engine" / "interfaces.json"
EMPTY = {"metrics": {}, "interfaces": {}}
_FOREIGN = re.compile(r"\bsklearn(?:\.\w+)+:\w+")


def generated() -> str:
    """Return the content of the file: one entry per line, so that changes can be compared."""
    from mtlrun.data.load import READERS
    from mtlrun.engine.analysis import ANALYSES
    from mtlrun.engine.interfaces import MetricInfo, inspect_interface
    from mtlrun.metrics import METRICS
    from mtlrun.utils.io import configs_dir

    names = [field.name for field in dataclasses.fields(MetricInfo)]
    metrics = {
        name: {key: getattr(metric, key) for key in names}
        for name, metric in METRICS.items()
    }
    paths = [
        *ANALYSES.values(),
        *(f"mtlrun.data.{path}" for path in READERS.values()),
        *_generators(),
        *_classes(),
    ]
    interfaces = {path: _plain(inspect_interface(path)) for path in paths}
    texts = "\n".join(
        path.read_text(encoding="utf-8")
        for path in sorted(configs_dir().rglob("*.yaml"))
    )
    for path in sorted({*_FOREIGN.findall(texts)}):
        interfaces[path] = {
            "package": {"scikit-learn": version("scikit-learn")},
            **_plain(inspect_interface(path)),
        }
    parts = {"metrics": metrics, "interfaces": interfaces}
    return (
        "{\n"
        + ",\n".join(f'"{name}": {_lines(part)}' for name, part in parts.items())
        + "\n}\n"
    )


def _generators() -> list[str]:
    from mtlrun.data import simulate

    found = inspect.getmembers(simulate, inspect.isfunction)
    return [
        f"{simulate.__name__}:{name}"
        for name, _ in found
        if name.startswith("simulate_")
    ]


def _classes() -> list[str]:
    """Return the public classes of `mtlrun.estimators` that are in no registry."""
    from mtlrun.estimators import HOMES
    from mtlrun.estimators.registry import METHODS, load_class

    others = [
        f"{module}:{name}" for name, module in HOMES.items() if name not in METHODS
    ]
    return [
        path for path in others if not path.endswith("Warning") and load_class(path)
    ]


def _plain(found: Any) -> dict[str, Any]:
    """Return an interface as plain data, without what is empty."""
    given = {
        field.name: getattr(found, field.name) for field in dataclasses.fields(found)
    }
    return {
        name: value
        for name, value in given.items()
        if name == "names" or value not in (None, (), {}, "", False)
    }


def _lines(entries: dict[str, Any]) -> str:
    rows = [
        f"  {json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}"
        for name, entry in entries.items()
    ]
    return "{\n" + ",\n".join(rows) + "\n }" if rows else "{}"


if __name__ == "__main__":
    if not STORED.exists():  # it is read where the package is imported
        STORED.write_text(json.dumps(EMPTY))
    STORED.write_text(generated(), encoding="utf-8")
    sys.stdout.write(f"{STORED}\n")
