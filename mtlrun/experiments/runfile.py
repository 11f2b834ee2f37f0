"""The plan of a run on disk, and whether it is that of another start."""

from __future__ import annotations

import json
from collections.abc import Iterable

from mtlrun.core.records import jsonable, write_atomic
from mtlrun.experiments.plan import Plan
from mtlrun.experiments.resolved import resolved_yaml

RUN_FILE = "run.json"
RESOLVED_FILE = "config.resolved.yaml"


def write_plan(plan: Plan) -> None:
    """Write `run.json` and `config.resolved.yaml`, where they differ from what is there.

    Raises
    ------
    OSError
        If the run folder cannot be written.
    """
    texts = {
        RUN_FILE: json.dumps(jsonable(plan.run_json()), indent=1, ensure_ascii=False) + "\n",
        RESOLVED_FILE: resolved_yaml(plan.experiment),
    }
    for name, text in texts.items():
        path = plan.folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_atomic(path, text)


def other_settings(plan: Plan) -> str | None:
    """Return the settings with which `run.json` was written, None when they are those of the plan."""
    try:
        before = json.loads((plan.folder / RUN_FILE).read_text(encoding="utf-8"))
        overrides = [str(text) for text in before["overrides"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # there is none, or it is damaged and will be written anew
    if overrides == list(plan.experiment.overrides):
        return None
    return settings_text(overrides)


def settings_text(overrides: Iterable[str]) -> str:
    """Write settings as they are given on the command line."""
    return " ".join(f"--set {text}" for text in overrides) or "no --set"
