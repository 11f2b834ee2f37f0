"""Whether stored numbers are still what the present code computes: a sample of finished jobs is computed again.

Nothing that is stored is replaced. What was found lies in ``verified.json`` beside the run; its report shows it.
"""

from __future__ import annotations

import fnmatch
import json
import math
import statistics
import time
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mtlrun.data.cards import load_card
from mtlrun.data.files import data_directory
from mtlrun.data.load import dataset_fingerprint, source_name
from mtlrun.engine.compute import compute_job
from mtlrun.engine.job import Job, Method, choice_of, job_from
from mtlrun.engine.methods import declared, method_paths, versions_of
from mtlrun.engine.packed import rounded, stored_digits
from mtlrun.engine.record import JobKind, Record, host_info, made_by, now
from mtlrun.engine.store import check_folder
from mtlrun.engine.stored import VERIFIED
from mtlrun.errors import DataError, UserError
from mtlrun.estimators.registry import METHODS
from mtlrun.lab.report.cells import Run, read_run
from mtlrun.lab.stored import read_sound
from mtlrun.utils.io import file_json, sealed, write_atomic

#: Digits of numbers that are equal.
ALL_DIGITS = 16.0
#: Jobs of a run that are tried where nothing is said.
SAMPLE = 20
#: A job is begun only where its recorded seconds, times this, are left: data are loaded, too.
ALLOWANCE = 1.5


@dataclass
class Trial:
    """A finished job, and what came of computing it again.

    Attributes
    ----------
    record : Record
    names : dict of Path to str
        Folder of a run -> name of the job there; several runs may share it.
    refused : str
        Why it cannot be tried: its data are not here, or a version was raised since.
    digits : dict of str to float
        Quantity -> decimal digits that agree, 16 where they are equal.
    error : str
        What went wrong while it was computed again.
    ratio : float or None
        Seconds of now divided by those recorded.
    """

    record: Record
    names: dict[Path, str]
    refused: str = ""
    digits: dict[str, float] = field(default_factory=dict)
    error: str = ""
    ratio: float | None = None

    @property
    def asked(self) -> int:
        """Digits to which it has to agree: of its methods those that promise least."""
        method = self.record.inputs["method"]
        known = declared(method["measure"]) if "measure" in method else None
        digits = [METHODS[name].digits for name in _names(method) if name in METHODS]
        return known[1].digits if known else min(digits, default=6)

    @property
    def least(self) -> float:
        """Digits to which its worst quantity agrees; 0 where it could not be computed."""
        return 0.0 if self.error else min(self.digits.values(), default=ALL_DIGITS)

    @property
    def agrees(self) -> bool:
        """Whether it could be computed again, and agrees."""
        return not self.error and self.least >= self.asked

    @property
    def plain(self) -> dict[str, Any]:
        """What is written of it."""
        worst = (
            min(self.digits, key=lambda name: self.digits[name])
            if self.digits
            else None
        )
        return {
            "key": self.record.key,
            "digits": math.floor(10 * self.least) / 10,
            "quantity": None if self.least == ALL_DIGITS else worst,
            "agrees": self.agrees,
            "error": self.error or None,
            "seconds_ratio": self.ratio and round(self.ratio, 3),
        }


def verify(
    folders: Sequence[Path],
    *,
    sample: int | None = None,
    seconds: float | None = None,
    search: bool = False,
    data_dir: Path | None = None,
) -> Generator[Trial, None, None]:
    """Compute finished jobs of some runs again, and write in the end what was found beside each run.

    Of every data set and method the cheapest job comes first. What cannot be tried is yielded, too. When the
    generator is closed early, or interrupted, the jobs that were computed until then are written.

    Parameters
    ----------
    folders : sequence of Path
        Of runs.
    sample : int, optional
        Jobs of every run; None: as many as there are.
    seconds : float, optional
        No job is begun that would take longer than what is left of them.
    search : bool, default False
        Repeat the search for parameters, too; otherwise the chosen ones are taken from the record.
    data_dir : Path, optional

    Yields
    ------
    Trial

    Raises
    ------
    DataError
        If a folder is not that of a run.
    UserError
        If a folder cannot be written; found out before anything is computed.
    """
    begun = time.monotonic()
    trials = _trials(folders, data_dir)
    for folder in folders:
        _check_writable(folder)
    possible = [trial for trial in trials if not trial.refused]
    chosen = _sampled(possible, sample, seconds, search)
    yield from (trial for trial in trials if trial.refused)
    done: list[Trial] = []
    try:
        for trial in sorted(
            chosen,
            key=lambda trial: json.dumps(
                trial.record.inputs.get("dataset"), sort_keys=True
            ),
        ):
            if seconds is None or _cost(trial.record, search) <= seconds - (
                time.monotonic() - begun
            ):
                _try(trial, search, data_dir)
                done.append(trial)
                yield trial
    finally:
        # Also after an interrupt: hours of computing may be behind it.
        for folder in folders:
            mine = [trial for trial in done if folder in trial.names]
            if mine:
                in_folder = [trial for trial in trials if folder in trial.names]
                _write(folder, mine, in_folder)


def _check_writable(folder: Path) -> None:
    """Refuse a folder of a run into which the result cannot be written.

    Raises
    ------
    UserError
    """
    check_folder(folder)
    path = folder / VERIFIED
    if path.is_dir():
        raise UserError(
            f"{path} is a folder, but the result is written there", "Move it away."
        )


def _trials(folders: Iterable[Path], data_dir: Path | None) -> list[Trial]:
    """Return the finished jobs of runs, each once, in the order in which they are tried: of every run one in turn."""
    found: dict[str, Trial] = {}
    ranked: list[tuple[int, float, Trial]] = []
    sources: dict[str, str] = {}
    for folder in folders:
        own = _by_turns(read_run(folder))
        for position, (name, record) in enumerate(own):
            if record.key not in found:
                found[record.key] = Trial(
                    record, {}, _refusal(record, sources, data_dir)
                )
                ranked.append((position, _cost(record, False), found[record.key]))
            found[record.key].names.setdefault(folder, name)
    return [trial for *_, trial in sorted(ranked, key=lambda entry: entry[:2])]


def _by_turns(run: Run) -> list[tuple[str, Record]]:
    """Return names and records of the finished jobs of a run: the cheapest of every data set and method, then more."""
    planned = {
        job.key: job
        for job in run.all_planned
        if job.key in run.cells and run.cells[job.key].done
    }
    seen: Counter[tuple[str, str]] = Counter()
    ranked = []
    for job in sorted(
        planned.values(), key=lambda job: _cost(run.cells[job.key], False)
    ):
        record = run.cells[job.key]
        ranked.append(
            (seen[job.dataset, job.method], _cost(record, False), job.name, record)
        )
        seen[job.dataset, job.method] += 1
    return [
        (name, record)
        for *_, name, record in sorted(ranked, key=lambda entry: entry[:2])
    ]


def _sampled(
    trials: Sequence[Trial], sample: int | None, seconds: float | None, search: bool
) -> list[Trial]:
    """Return those of the sample of every run that the seconds suffice for."""
    taken: Counter[Path] = Counter()
    left = math.inf if seconds is None else seconds
    chosen = []
    for trial in trials:
        wanted = sample is None or any(taken[folder] < sample for folder in trial.names)
        cost = _cost(trial.record, search)
        if wanted and cost <= left:
            left -= cost
            chosen.append(trial)
            taken.update([*trial.names])
    return chosen


def _cost(record: Record, search: bool) -> float:
    """Return the seconds that computing a job again takes, about."""
    own = record.seconds.get("total") or 0.0
    repeated = record.seconds.get("fit_all") or []
    if len(repeated) > 1:
        # A timed job is fitted once, see `_fitted_once`.
        own -= math.fsum(repeated) - statistics.median(repeated)
    return ALLOWANCE * (
        own + (record.selection.get("seconds") or 0.0 if search else 0.0)
    )


def _refusal(record: Record, sources: dict[str, str], data_dir: Path | None) -> str:
    """Say why a job cannot be computed again, empty where it can; `sources` keeps what was found of data sets."""
    method = record.inputs.get("method")
    if not isinstance(method, Mapping) or not ({"estimator", "measure"} & set(method)):
        return "its record names no method"  # it was altered
    dataset = record.inputs.get("dataset")
    source = ""
    if dataset:
        name = json.dumps([dataset["id"], dataset.get("options", {})], sort_keys=True)
        if name not in sources:
            sources[name] = _source(dataset, data_dir)
        source = sources[name]
        if source.startswith("!"):
            return source[1:]
    try:
        present = versions_of(method_paths(Method(**method)), source)
    except UserError as error:
        return error.message.splitlines()[0]
    raised = [
        name
        for name, version in present.items()
        if record.versions.get(name) != version
    ]
    return f"{', '.join(raised)} changed since" if raised else ""


def _source(dataset: Mapping[str, Any], data_dir: Path | None) -> str:
    """Return the name of the reader or generator of a data set, or after ``!`` why it cannot be read."""
    try:
        options = dataset.get("options", {})
        if (
            dataset_fingerprint(dataset["id"], data_dir=data_dir, **options)
            != dataset["fingerprint"]
        ):
            return f"!{dataset['id']} is another data set than it was"
        return source_name(load_card(dataset["id"], data_directory(data_dir)))
    except DataError:
        return f"!the files of {dataset['id']} are not here"
    except (UserError, TypeError) as error:
        return f"!{dataset['id']}: {str(error).splitlines()[0]}"


def _fitted_once(job: Job) -> Job:
    """Return a timed job without a first untimed fit and without repeats.

    What it predicts does not depend on them, and seconds are not compared.
    """
    timing = job.scoring.timing
    if timing is None:
        return job
    once = replace(timing, repeats=1, warmup=False)
    return replace(job, scoring=replace(job.scoring, timing=once))


def _try(trial: Trial, search: bool, data_dir: Path | None) -> None:
    """Compute a job again, with the parameters of its record unless the search is to be repeated, too."""
    record = trial.record
    folder = None if data_dir is None else str(data_dir)
    chosen = record.selection.get("chosen") or {}
    try:
        job = job_from(record.inputs, record.versions, record.versions)
        if search and job.search is not None:
            again = choice_of(
                job, [compute_job(fold, None, folder)[0] for fold in job.folds]
            )
            trial.digits["chosen parameters"] = ALL_DIGITS * (
                again["chosen"] == record.selection.get("chosen")
            )
        found, _ = compute_job(_fitted_once(job), chosen, folder)
    except Exception as error:  # whatever the code raises now where it did not
        trial.error = f"{type(error).__name__}: {error}"
        return
    trial.digits |= _agreement(record, found)
    before, after = (
        one.seconds.get("fit") or one.seconds.get("total") for one in (record, found)
    )
    trial.ratio = after / before if before and after else None


def _agreement(record: Record, found: Record) -> dict[str, float]:
    """Return by quantity the digits to which two records agree; clocks and rounding are left out."""
    known = (
        declared(record.inputs["method"]["measure"])
        if record.family == JobKind.ANALYSIS
        else None
    )
    varies, differences = (known[1].varies, known[1].differences) if known else ((), ())
    digits = {
        name: digits_of(
            value,
            found.metrics.get(name),
            scale=1.0 if _among(name, differences) else 0.0,
        )
        for name, value in record.metrics.items()
        if not _among(name, varies)
    }
    for name, values in record.per_task.items():
        again = found.per_task.get(name) or [None] * len(values)
        n_digits = stored_digits(values)
        if n_digits is not None:
            again = rounded(again, n_digits)
        if len(again) == len(values):
            digits[f"{name} per task"] = min(
                map(digits_of, values, again), default=ALL_DIGITS
            )
        else:
            digits[f"{name} per task"] = 0.0
    return digits


def _among(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def digits_of(
    before: float | None, after: float | None, *, scale: float = 0.0
) -> float:
    """Return the decimal digits to which two numbers agree, 16 where they are equal.

    Relative to the larger one, or to `scale` where that is larger still.
    """
    values = [math.nan if value is None else float(value) for value in (before, after)]
    if values[0] == values[1] or all(map(math.isnan, values)):
        return ALL_DIGITS
    if not all(map(math.isfinite, values)):
        return 0.0
    return min(
        ALL_DIGITS,
        max(
            0.0, -math.log10(abs(values[0] - values[1]) / max(scale, *map(abs, values)))
        ),
    )


def _names(method: Mapping[str, Any]) -> list[str]:
    inner = [
        value
        for value in (method.get("params") or {}).values()
        if isinstance(value, dict) and "estimator" in value
    ]
    return [
        str(method.get("estimator")),
        *(name for value in inner for name in _names(value)),
    ]


def _write(folder: Path, done: Sequence[Trial], known: Sequence[Trial]) -> None:
    """Write what was found beside a run; what was found with the same code before is kept."""
    before = read_sound(folder / VERIFIED)
    same = before.get("made_by") == made_by()
    cells = {
        entry["key"]: entry for entry in (before.get("cells") or [] if same else [])
    }
    cells |= {trial.record.key: trial.plain for trial in done}
    refused = Counter(trial.refused for trial in known if trial.refused)
    content = {
        "schema": 1,
        "made_by": made_by(),
        "date": now(),
        "host": {
            name: host_info()[name] for name in ("cpu", "cores", "python", "packages")
        },
        "finished": len(known),
        "not_tried": dict(sorted(refused.items())),
        "cells": [cells[key] for key in sorted(cells)],
    }
    write_atomic(folder / VERIFIED, file_json(sealed(content)))
