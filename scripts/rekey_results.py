"""Give results that were made before 0.2 the keys of today, without computing anything.

``python scripts/rekey_results.py results`` in a checkout with its history. Until then the key of a cell covered a
digest of the source of every module that it ran; now it covers the versions of what it names. All of these are 1. The
commit that made a record is the first one of its `provenance.json`, or else of the history, in which all of those
modules have the digests of the record. Reports have to be written anew: ``mtlrun report``.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib.util
import io
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun.data.cards import load_card
from mtlrun.data.files import data_directory
from mtlrun.data.load import source_name
from mtlrun.engine.analysis import analysis_name
from mtlrun.engine.job import SCHEMA, Method, job_from
from mtlrun.engine.methods import method_paths
from mtlrun.engine.record import PACKED, PREDICTIONS, PROTOCOL, Record, pack, unpack
from mtlrun.engine.stored import RUN_FILE
from mtlrun.estimators.registry import short_name
from mtlrun.utils.io import sealed, sha256_json, write_atomic

ROOT = Path(__file__).resolve().parents[1]
#: The last commit whose keys cover digests of the code; how they were made stands in a module of it.
LAST = "2a6b4591"


def git(*words: str) -> bytes:
    """Return what a git command prints."""
    return subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, check=True
    ).stdout


@functools.cache
def old_code() -> Any:
    """Import the module that made digests of the code."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "old_code.py"
        path.write_bytes(git("show", f"{LAST}:mtlrun/runs/code.py"))
        spec = importlib.util.spec_from_file_location("old_code", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["old_code"] = module
        spec.loader.exec_module(module)
    return module


class _NoCache:
    """In the place of the cache of the old module."""

    def get(self, key: str) -> None:
        """Know nothing."""

    def put(self, key: str, value: Any) -> None:
        """Keep nothing."""


@functools.cache
def digest(blob: str) -> str:
    """Return the digest that the old module gave a file."""
    with tempfile.NamedTemporaryFile(suffix=".py") as file:
        file.write(git("cat-file", "blob", blob))
        file.flush()
        return str(old_code()._read(file.name, _NoCache(), 0, 0, int(blob[:12], 16))[0])


@functools.cache
def tree(commit: str) -> dict[str, str]:
    """Return the blobs of the package at a commit by path."""
    lines = git("ls-tree", "-r", commit, "mtlrun").decode().split("\n")
    return {
        line.split("\t")[1]: line.split()[2] for line in lines if line.endswith(".py")
    }


@functools.cache
def made_with(commit: str, code: tuple[tuple[str, str], ...]) -> bool:
    """Whether all modules of mtlrun have these digests at a commit."""
    blobs = tree(commit)
    return all(
        path in blobs and digest(blobs[path]) == value
        for path, value in code
        if path.startswith("mtlrun/")
    )


@functools.cache
def history() -> list[str]:
    """Return all commits, the oldest first."""
    return git("log", "--reverse", "--format=%H", LAST).decode().split()


def renamed(method: dict[str, Any]) -> dict[str, Any]:
    """Return a method as cells have it now: classes and measures of mtlrun by their names."""
    found = {
        **method,
        **(
            {"params": {k: _inside(v) for k, v in method["params"].items()}}
            if "params" in method
            else {}
        ),
    }
    if "estimator" in found:
        found["estimator"] = short_name(found["estimator"])
    if "measure" in found:
        found["measure"] = analysis_name(found["measure"])
    return found


def _inside(value: Any) -> Any:
    return renamed(value) if isinstance(value, dict) and "estimator" in value else value


def versions(
    method: dict[str, Any], dataset: dict[str, Any] | None, code: dict[str, str]
) -> dict[str, int | str]:
    """Return the versions of a record: 1 for all that is ours, packages as they were recorded."""
    found: dict[str, int | str] = {"protocol": 1}
    if dataset:
        found[source_name(load_card(dataset["id"], data_directory(None)))] = 1
    for path in method_paths(Method(**method)):
        top = path.partition(".")[0]
        if top == "mtlrun":
            found[analysis_name(short_name(path))] = 1
        else:
            found[top] = code[top].removeprefix("version ")
    return dict(sorted(found.items()))


def rekeyed(old: dict[str, Any], commits: list[str], version: str) -> Record:
    """Return a record with the key of today; that of its search, too."""
    assert old["key"] == sha256_json([old["inputs"], sha256_json(old["code"])]), (
        "not a key of before"
    )
    inputs = {
        **old["inputs"],
        "schema": SCHEMA,
        "method": renamed(old["inputs"]["method"]),
    }
    if "search" in inputs:
        inputs["search"] = {**inputs["search"]}
        if "method" in inputs["search"]:
            inputs["search"]["method"] = renamed(inputs["search"]["method"])
    found = versions(inputs["method"], inputs.get("dataset"), old["code"])
    searched = inputs.get("search", {}).get("method")
    inner = versions(searched, inputs.get("dataset"), old["code"]) if searched else {}
    job = job_from(inputs, found, inner)
    code = tuple(sorted(old["code"].items()))
    commit = next((c for c in (*commits, *history()) if made_with(c, code)), None)
    rest = {
        name: value
        for name, value in old.items()
        if name not in ("key", "family", "inputs", "code", "protocol")
    }
    selection = dict(rest.pop("selection"))
    if selection.get("key"):
        selection["key"] = hashlib.sha256(
            "".join(fold.key for fold in job.folds).encode()
        ).hexdigest()
    params = renamed({"params": rest.pop("params")})["params"]
    made_by = {
        "commit": commit,
        "dirty": commit and False,
        "mtlrun": version,
        "package": None,
    }
    content = job.content()
    return Record(
        job.key,
        old["family"],
        content,
        found,
        made_by,
        params=params,
        selection=selection,
        **rest,
    )


def rekey(folder: Path) -> Counter[str]:
    """Give the records of a run their new keys, in all its files; return how many were made by which commit."""
    runs = json.loads((folder / "provenance.json").read_text())["runs"]
    commits = list(
        dict.fromkeys(run["commit"] for run in runs if run.get("n_computed"))
    )
    records = {}
    for key, line in unpack(folder / PACKED).items():
        old = json.loads(line)["record"]
        assert old.pop("protocol") == PROTOCOL - 1
        records[key] = rekeyed({**old}, commits, runs[-1]["mtlrun"])
    assert len({record.key for record in records.values()}) == len(records), (
        "two records became one"
    )
    about = json.loads((folder / RUN_FILE).read_text())
    about.pop("digest")
    for job in about["cells"]:
        if job["key"] in records:
            job["key"] = records[job["key"]].key
        job.pop("was", None)
    write_atomic(
        folder / RUN_FILE,
        json.dumps(sealed(about), indent=1, ensure_ascii=False) + "\n",
    )
    write_atomic(
        folder / PACKED,
        pack((record.key, record.line()) for record in records.values()),
    )
    if (folder / PREDICTIONS).exists():
        with np.load(folder / PREDICTIONS) as stored:
            kept = {records[key].key: stored[key] for key in stored.files}
        content = io.BytesIO()
        np.savez_compressed(content, **kept)
        write_atomic(folder / PREDICTIONS, content.getvalue())
    return Counter(str(record.made_by["commit"])[:8] for record in records.values())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root", type=Path, help="folder of results")
    for run in sorted(
        path.parent for path in parser.parse_args().root.glob("*/*/*/run.json")
    ):
        sys.stdout.write(f"{run}: {dict(rekey(run))}\n")
        sys.stdout.flush()
