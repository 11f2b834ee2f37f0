"""Configurations as text: mappings, values and grids of parameters in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mtlrun.errors import counted
from mtlrun.tables.report_table import plain
from mtlrun.utils.io import as_list, is_json_number


def format_mapping(mapping: object) -> str:
    """Format a mapping in one line, for example ``random, train 0.4, trials 5``.

    The key `kind` is left out, and so are values that are None. Nested mappings are in
    parentheses. Anything but a mapping is formatted by `format_value`, and None is
    empty.
    """
    if mapping is None:
        return ""
    if not isinstance(mapping, Mapping):
        return format_value(mapping)
    parts = []
    for key, value in mapping.items():
        if value is None:
            continue
        text = format_value(value)
        if key != "kind":
            text = f"{key} {text}"
        parts.append(text)
    return ", ".join(parts)


def format_value(value: object) -> str:
    """Format one value of a configuration."""
    if isinstance(value, Mapping):
        return f"({format_mapping(value)})"
    if isinstance(value, list | tuple):
        texts = [format_value(item) for item in value]
        return f"[{', '.join(texts)}]"
    # A bool is an int, too, so it comes first.
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return plain(value)
    return str(value)


def format_grid(grid: Mapping[str, Any] | None) -> str:
    """Format a grid of parameters, for example ``lam: 6 values 0.14..1``.

    More than two numbers are given by their count and range, other values one by one.
    """
    parts = []
    for name, values in (grid or {}).items():
        items = as_list(values)
        if len(items) > 2 and all(map(is_json_number, items)):
            count = counted(len(items), "value")
            text = f"{count} {plain(min(items))}..{plain(max(items))}"
        elif isinstance(values, list | tuple):
            text = format_value(items)
        else:
            text = str(values)
        parts.append(f"{name}: {text}")
    return "; ".join(parts)


def format_entry(value: object) -> str:
    """Format an entry of a table: lists with semicolons, ``-`` if empty or None."""
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return "; ".join(map(format_value, value)) or "-"
    return format_value(value)
