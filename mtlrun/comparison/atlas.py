"""Gains of multi-task learning on the tables of the atlas, as a csv file."""

from __future__ import annotations

import csv
import re

from mtlrun.engine.analysis import published_path
from mtlrun.errors import ConfigError
from mtlrun.utils.io import read_text_file

#: Gains of the first edition on all tables.
GAINS = "atlas/gains.csv"
#: Gains of the second edition, which a comparison shows for similar tables.
SIMILAR = "atlas/similar.csv"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def read_lines(name: str) -> tuple[list[dict[str, str]], str]:
    """Return the lines of a table of the atlas, and the day on which it was made.

    Raises
    ------
    ConfigError
        If there is no such file, or it is none of the atlas.
    """
    lines = read_text_file(published_path(name)).split("\n")
    day = _DATE.search(lines[0]) if lines else None
    if day is None:
        raise ConfigError(
            f"{name}:1: no date",
            "Make the file with scripts/atlas_tables.py or scripts/atlas_pairs.py.",
        )
    return list(csv.DictReader(lines[1:])), day.group()
