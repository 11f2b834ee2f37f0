"""Take the words of the present experiments into stored runs.

``python scripts/restate.py fetr/school/quick`` replaces claims, deviations, titles and
the reasons of interpretations in the stored plan of a run by those of its experiment.
Records stay as they are. It is for corrected texts and checks of claims; whoever changes
what is computed runs the experiment again. ``make pages`` then writes the pages.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mtlrun.engine.store import Store
from mtlrun.engine.stored import RUN_FILE
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.report.run import read_run
from mtlrun.lab.results import pack_with_plan
from mtlrun.lab.stored import read_plan
from mtlrun.utils.io import file_json, jsonable, sealed

ROOT = Path(__file__).resolve().parents[1]
#: Parts of an experiment that say how numbers are judged, but not how they are computed.
WORDS = ("claims", "deviations", "title")
REASONS = ("why", "because", "plausible", "main")


def plain(content: Any) -> Any:
    """Return content as a JSON file would hold it."""
    return json.loads(json.dumps(jsonable(content)))


def restate(name: str) -> None:
    """Write the words of an experiment into its stored run, ``<paper>/<item>/<profile>``."""
    folder = ROOT / "results" / name
    target, _, profile = name.rpartition("/")
    info = read_plan(folder, Store.of_run(folder))
    info.pop("plan", None)
    info.pop("digest", None)
    experiment = load_experiment(
        target, profile=profile, overrides=info.get("overrides") or []
    )
    config = plain(experiment.config)
    for key in WORDS:
        if key in config:
            info["config"][key] = config[key]
    info["title"] = experiment.spec.title
    others = {other.interpretation: other for other in experiment.others}
    for reading, entry in info.get("readings", {}).items():
        if reading not in experiment.spec.readings:
            sys.stderr.write(f"{name}: the experiment has no reading {reading!r}\n")
            continue
        stated = plain(experiment.spec.readings[reading].model_dump(exclude_unset=True))
        for key in REASONS:
            entry.pop(key, None)
            if key in stated:
                entry[key] = stated[key]
        other = others.get(reading)
        if other is None:
            continue
        changed = entry.setdefault("config", {})
        for key in WORDS:
            changed.pop(key, None)
            if plain(other.config.get(key)) != config.get(key):
                changed[key] = plain(other.config.get(key))
    (folder / RUN_FILE).write_text(file_json(sealed(jsonable(info))))
    pack_with_plan(folder, folder, read_run(folder), None)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        restate(argument)
        sys.stdout.write(f"{argument}\n")
