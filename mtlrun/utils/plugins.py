"""What installed packages add: methods and data sets that they declare as entry points. Standard library only.

``[project.entry-points."mtlrun.methods"]`` has lines ``Name = "package.module:Class"``, and
``[project.entry-points."mtlrun.datasets"]`` lines ``name = "package"``, the package whose folder holds data cards.
"""

from __future__ import annotations

import functools
import importlib.machinery
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

METHODS_GROUP, DATASETS_GROUP = "mtlrun.methods", "mtlrun.datasets"


@dataclass(frozen=True)
class Plugin:
    """A line of entry points: its name, what it points to, and the distribution that declares it."""

    name: str
    value: str
    source: str


@functools.cache
def plugins(group: str) -> tuple[Plugin, ...]:
    """Return what installed packages declare for a group, sorted by name, each name once; nothing is imported."""
    found: dict[str, Plugin] = {}
    for point in metadata.entry_points(group=group):
        source = f"{point.dist.name} {point.dist.version}" if point.dist else "an installed package"
        found.setdefault(point.name, Plugin(point.name, point.value.replace(" ", ""), source))
    return tuple(found[name] for name in sorted(found))


def card_folders() -> list[Path]:
    """Return the folders of the packages that bring data cards."""
    return [folder for plugin in plugins(DATASETS_GROUP) if (folder := _folder(plugin.value)) is not None]


def _folder(package: str) -> Path | None:
    """Return the folder of a package without importing it or its parents, None where there is none."""
    places: list[str] | None = None
    for part in package.split("."):
        spec = importlib.machinery.PathFinder.find_spec(part, places)
        if spec is None or spec.submodule_search_locations is None:
            return None
        places = list(spec.submodule_search_locations)
    return Path(places[0]) if places else None
