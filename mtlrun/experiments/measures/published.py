"""Files of published numbers that measures are taken of. Standard library only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtlrun.core.errors import ConfigError
from mtlrun.core.resources import configs_dir

#: Parameter of measures that names a file of published numbers; the content of the file is part of the key.
PUBLISHED = "published"


def published_path(name: str) -> Path:
    """Return a file of published numbers, named from the folder of the experiments on.

    Raises
    ------
    ConfigError
        If there is no such file.
    """
    path = configs_dir() / name
    if not path.is_file():
        raise ConfigError(f"no file of published numbers {name!r}", "It is named below configs/, with its ending.")
    return path


def published_hash(params: Mapping[str, Any]) -> dict[str, str]:
    """Return ``{name: sha256}`` of the file that the parameter `published` names, {} without it."""
    name = params.get(PUBLISHED)
    if not isinstance(name, str):
        return {}
    return {name: hashlib.sha256(published_path(name).read_bytes()).hexdigest()}
