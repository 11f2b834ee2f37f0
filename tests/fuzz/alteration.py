"""Ways to alter stored models and records, as a disk, a bad copy or an attacker would;
deterministic by seed.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mtlrun.utils.io import DIGEST, sealed, sha256_json

#: Replacement values for JSON, of all types and sizes
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**31, -(2**63), 10**30, 0.5, -1e308, 1e-320),
    *(float("nan"), float("inf"), "", "x", "\x1b[2J", "../../x", "9" * 500),
    *([], [1], [[]], [None] * 40, {}, {"a": 1}, ["a", "a"], {"": []}),
]
#: Replacement names for classes in the schema of an archive
CLASSES = [
    ("builtins", "eval"),
    ("builtins", "list"),
    ("collections", "OrderedDict"),
    ("numpy", "ndarray"),
    ("os", "system"),
    ("sklearn.linear_model._ridge", "Ridge"),
    ("sklearn.tree._tree", "Tree"),
    ("mtlrun.estimators.graph", "GraphMTL"),
    ("nowhere", "Nothing"),
]


def alter_bytes(rng: random.Random, content: bytes) -> bytes:
    """Flip a bit, truncate, or change, insert, remove or repeat a piece."""
    if not content:
        return b"\0"
    data = bytearray(content)
    start = rng.randrange(len(data))
    length = rng.choice([1, 2, 8, 64, 1024])
    action = rng.randrange(6)
    if action == 0:
        data[start] ^= 1 << rng.randrange(8)
    elif action == 1:
        del data[start:]
    elif action == 2:
        data[start : start + length] = bytes(length)
    elif action == 3:
        data[start:start] = rng.randbytes(length)
    elif action == 4:
        del data[start : start + length]
    else:
        data[start:start] = data[start : start + length]
    return bytes(data)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container in a JSON value with each of its keys or indices."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    for key in keys:
        yield value, key
        yield from _places(value[key])


def alter_json(rng: random.Random, value: Any) -> Any:
    """Change up to three parts of a JSON value: type, size, missing or swapped keys."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        locations = list(_places(value))
        if not locations:
            return rng.choice(VALUES)
        container, key = rng.choice(locations)
        action = rng.randrange(6)
        if action == 0:
            del container[key]
        elif action == 1:
            other, name = rng.choice(locations)
            if len(other) and (name in other if isinstance(other, dict) else True):
                container[key] = copy.deepcopy(
                    other[min(name, len(other) - 1)]
                    if isinstance(other, list)
                    else other[name]
                )
        elif action == 2 and isinstance(container[key], int | float):
            container[key] *= rng.choice([-1, 2, 1000, 1e9])
        else:
            container[key] = copy.deepcopy(rng.choice(VALUES))
    return value


def _alter_classes(rng: random.Random, schema: Any) -> Any:
    """Replace a class named in an archive, or swap two members."""
    schema = copy.deepcopy(schema)
    nodes = [
        container[key]
        for container, key in _places({"": schema})
        if isinstance(container[key], dict) and "__class__" in container[key]
    ]
    if not nodes:
        return alter_json(rng, schema)
    node = rng.choice(nodes)
    if rng.random() < 0.5:
        node["__module__"], node["__class__"] = rng.choice(CLASSES)
        return schema
    other = rng.choice(nodes)
    for name in ("__module__", "__class__", "__loader__", "file"):
        if name in other and rng.random() < 0.7:
            node[name] = other[name]
    return schema


def alter_array(rng: random.Random, content: bytes) -> bytes:
    """Change the shape, the type or some numbers of a stored array."""
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except ValueError:
        return alter_bytes(rng, content)
    action = rng.randrange(6)
    if action == 0:
        array = array.ravel()[: rng.randrange(array.size + 1)]
    elif action == 1:
        array = array[None] if rng.random() < 0.5 else array.T
    elif action == 2:
        kinds = ["<f4", "<f8", "<i8", "<i4", "|b1", "<U3", "<c16", ">f8", "|S2"]
        # Arrays of trees and texts cannot have any type.
        with np.errstate(all="ignore"), contextlib.suppress(TypeError, ValueError):
            array = array.astype(rng.choice(kinds))
    elif action == 3 and array.size and array.dtype.kind in "fiu":
        values = [0, 1, -1, 2**31 - 1, -(2**31), 10**6]
        values += [np.nan, np.inf, 1e308] if array.dtype.kind == "f" else []
        array = array.copy()
        with np.errstate(all="ignore"):
            chosen = np.asarray(rng.choice(values)).astype(array.dtype)
            array.ravel()[rng.randrange(array.size)] = chosen
    elif action == 4:
        array = np.concatenate([array.ravel(), array.ravel()])
    else:
        array = np.zeros((0, *array.shape[1:]), array.dtype)
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def alter_zip(rng: random.Random, content: bytes) -> bytes:
    """Change, swap or remove members of an archive; the archive stays valid."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        compression = archive.infolist()[0].compress_type
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(members))
    action = rng.randrange(8)
    if action == 0:
        other = rng.choice(list(members))
        members[name], members[other] = members[other], members[name]
    elif action == 1:
        del members[name]
    elif "schema.json" in members and action < 5:
        schema = json.loads(members["schema.json"])
        change: Callable[[random.Random, Any], Any] = rng.choice(
            [alter_json, _alter_classes]
        )
        members["schema.json"] = json.dumps(change(rng, schema)).encode()
    elif name.endswith(".npy") and action < 7:
        members[name] = alter_array(rng, members[name])
    elif name.endswith(".npz"):
        members[name] = alter_zip(rng, members[name])
    else:
        members[name] = alter_bytes(rng, members[name])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return buffer.getvalue()


def alter_sealed(rng: random.Random, content: bytes) -> bytes:
    """Change a JSON object, usually with a matching digest."""
    value = json.loads(content)
    altered = alter_json(rng, value)
    if isinstance(altered, dict) and DIGEST in value and rng.random() < 0.8:
        altered.pop(DIGEST, None)
        with contextlib.suppress(ValueError):  # NaN has no digest.
            altered = sealed(altered)
    return json.dumps(altered).encode()


def alter_record(rng: random.Random, content: bytes) -> bytes:
    """Change the record of a job, usually with a matching digest."""
    line = json.loads(content)
    if rng.random() < 0.1:
        return json.dumps(alter_json(rng, line)).encode()
    line["record"] = alter_json(rng, line["record"])
    if rng.random() < 0.9:
        with contextlib.suppress(ValueError):
            line["sha256"] = sha256_json(line["record"])
    return json.dumps(line).encode()


def alter_file(rng: random.Random, name: str, content: bytes) -> bytes:
    """Return altered content for a stored file, depending on its name and folder.

    Parameters
    ----------
    rng : random.Random
    name : str
        Path of the file, with ``/``.
    content : bytes
    """
    if rng.random() < 0.25:
        return alter_bytes(rng, content)
    if name.endswith((".skops", ".npz")):
        return alter_zip(rng, content)
    if "cells/" in name:
        return alter_record(rng, content)
    if name.endswith(".json"):
        return alter_sealed(rng, content)
    return alter_bytes(rng, content)
