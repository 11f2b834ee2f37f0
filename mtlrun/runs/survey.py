"""Which cells of a plan are done, and why the others have to be computed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from mtlrun.errors import counted
from mtlrun.record import FAILED, PROTOCOL, Record, Records
from mtlrun.report.stored import COMPARED, RUN_FILE, read_sound
from mtlrun.runs.code import OWN_CODE
from mtlrun.runs.code import reason as reason_of
from mtlrun.runs.plan import Plan, PlannedCell
from mtlrun.runs.store import Store, settled

#: Packages whose versions may change a number in its last digits; they are recorded and compared, and change no key.
NUMERICAL_PACKAGES = ("numpy", "scipy", "scikit-learn")

#: The file that describes a model, as `mtlrun.models` names it, which takes seconds to import.
MODEL_FILE = "model.json"

#: Files and differences that are named before the rest is counted.
NAMED = 3

StateName = Literal["done", "missing", "outdated", "failed", "damaged"]


@dataclass(frozen=True)
class CellState:
    """What is known of the cell of a row.

    Attributes
    ----------
    name : {"done", "missing", "outdated", "failed", "damaged"}
        `outdated`: the place had another cell before. `damaged`: a file is not as it was written.
    reason : str
        Why it is outdated, failed or damaged.
    versions : dict of str to str
        Numerical packages whose version was another one when the cell was computed.
    commit : str or None
        That made the record of the cell, as far as it is known.
    """

    name: StateName
    reason: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None


def survey(plan: Plan, store: Store | None = None) -> list[CellState]:
    """Return the state of every row as the folders have it now."""
    store = store or plan.store()
    here = _versions()
    return [_state(row, store, plan.limit, here) for row in plan.rows]


def _state(row: PlannedCell, store: Store, limit: float | None, here: Mapping[str, str]) -> CellState:
    try:
        record = store.read(row.cell.key)
    except ValueError as error:
        return CellState("damaged", str(error))
    if record is not None:
        good = settled(record, limit)
        packages = record.environment.get("packages") or {}
        other = {name: str(packages[name]) for name in here if packages.get(name) not in (None, here[name])}
        reason, commit = "" if good else f"{record.status}: {record.error}", record.made_by.get("commit")
        return CellState("done" if good else "failed", reason, other, commit)
    before = store.load(row.was) if row.was else None
    if before is None:
        return CellState("missing")
    if before.protocol != PROTOCOL:
        return CellState("outdated", "made by an earlier version of mtlrun")
    return CellState("outdated", explain(before, row.cell.record()) or "inputs changed")


def rerun_reasons(plan: Plan, states: Sequence[CellState]) -> list[str]:
    """Return one line per (data set, method, reason) for wanted cells that had a result before."""
    grouped: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for row, state in zip(plan.rows, states, strict=True):
        if row.wanted and state.name in ("outdated", FAILED, "damaged"):
            grouped[row.dataset, row.method, state.reason].append(row.trial)
    lines = []
    for (dataset, method, reason), trials in grouped.items():
        which = f"trial {trials[0]}" if len(trials) == 1 else f"{len(trials)} trials"
        lines.append(f"rerun {dataset}/{method}/{which}: {reason}")
    return lines


def other_versions(plan: Plan, states: Sequence[CellState]) -> str | None:
    """Say which cells were computed with other versions of the numerical packages, None when none was."""
    found = [state.versions for row, state in zip(plan.rows, states, strict=True) if row.wanted and state.versions]
    if not found:
        return None
    here = _versions()
    names = sorted({f"{name} {version}" for versions in found for name, version in versions.items()})
    now = ", ".join(f"{name} {here[name]}" for name in here if any(name in versions for versions in found))
    return f"{counted(len(found), 'cell')} computed with {', '.join(names)} (here: {now}); --force computes them again"


def _versions() -> dict[str, str]:
    return {name: version(name) for name in NUMERICAL_PACKAGES}


def unused_cells(output: Path) -> list[str]:
    """Return the keys of cells that no run, comparison or model of an output folder names: they may be deleted."""
    records = Records(output)
    found = {path.stem for path in records.cells.glob("*.json")}
    plans = [*output.glob(f"*/*/*/{RUN_FILE}"), *output.rglob(COMPARED)]
    entries = [entry for plan in plans for entry in read_sound(plan).get("cells") or [] if isinstance(entry, dict)]
    named = {str(entry.get("key")) for entry in entries}
    named |= {str(read_sound(path).get("cell")) for path in output.rglob(MODEL_FILE)}
    for key in named & found:
        record = records.load(key)
        search = record.inputs.get("search") if record is not None else None
        named = named | {str(fold) for fold in (search or {}).get("keys") or ()}
    return sorted(found - named)


def explain(old: Record, new: Record) -> str:
    """Say in a few words why two cells at the same place of a table have different keys."""
    reasons = [text for name in sorted({*old.versions, *new.versions}) if (text := _raised(name, old, new))]
    differences = _differences("", old.inputs, new.inputs)
    reasons += differences[:NAMED]
    if len(differences) > NAMED:
        reasons.append(f"{len(differences) - NAMED} more")
    return "; ".join(reasons)


def _raised(name: str, old: Record, new: Record) -> str:
    """Describe a version that is another one now, empty where it is not."""
    before, now = old.versions.get(name), new.versions.get(name)
    if isinstance(before, int) and isinstance(now, int) and before != now:
        why = reason_of(name, before, now)
        return f"{name} {before} -> {now}" + (f": {why}" if why else "")
    if name.endswith(OWN_CODE) and before != now:
        return f"{name} changed"
    packages = before is not None and now is not None and before != now
    return f"{name} {before} -> {now}" if packages else ""  # else another method or reader: the inputs say so


def _differences(path: str, old: Any, new: Any) -> list[str]:
    """Describe the values that differ; the keys of folds are left out."""
    if old == new or path in ("schema", "search.keys"):
        return []
    if path == "dataset.fingerprint":
        return ["data changed"]
    if not all(value is None or isinstance(value, Mapping) for value in (old, new)):
        return [f"{path} {_short(old)} -> {_short(new)}"]
    before, after = old or {}, new or {}
    names = sorted({*before, *after})
    return [d for n in names for d in _differences(f"{path}.{n}".lstrip("."), before.get(n), after.get(n))]


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 40 else text[:37] + "..."
