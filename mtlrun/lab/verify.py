"""Verify stored numbers: recompute a sample of finished jobs with the present code.

Stored results are never replaced. The outcome is written to ``verified.json`` in the
folder of the run, and the report of the run shows it.
"""

from __future__ import annotations

import fnmatch
import json
import math
import statistics
import time
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mtlrun.catalog.methods import Method, declared, method_paths, versions_of
from mtlrun.catalog.registry import METHODS
from mtlrun.data.sets.cards import load_card
from mtlrun.data.sets.files import data_directory
from mtlrun.data.sets.load import dataset_fingerprint, source_name
from mtlrun.engine.environment import host_info, made_by, now
from mtlrun.engine.job import DatasetRef, choice_of, job_from
from mtlrun.engine.packed import rounded, stored_digits
from mtlrun.engine.record import JobKind, Record, ResultKey
from mtlrun.engine.run import compute_job
from mtlrun.engine.store import check_folder
from mtlrun.engine.stored import VERIFIED
from mtlrun.errors import DataError, UserError
from mtlrun.lab.report.run import Run, all_planned_jobs, read_run
from mtlrun.lab.stored import read_verified
from mtlrun.utils.io import file_json, jsonable, read_fields, sealed, write_atomic

#: Digits to which equal numbers agree.
ALL_DIGITS = 16.0
#: Digits to which a job must agree if none of its methods promises more or fewer.
DEFAULT_DIGITS = 6
#: Default number of jobs of a run to recompute.
SAMPLE = 20
#: Expected seconds of a job divided by its recorded seconds, which exclude loading
#: data.
SECONDS_FACTOR = 1.5


@dataclass
class Trial:
    """Finished job, and the outcome of recomputing it.

    Attributes
    ----------
    record : Record
        Stored record of the job.
    names : dict of Path to str
        Name of the job by the folder of its run; several runs may share a job.
    refused : str
        Reason why the job cannot be recomputed, such as missing data or a version that
        was raised; empty if it can.
    digits : dict of str to float
        Decimal digits to which each quantity agrees; 16 if it is equal.
    error : str
        Error of the recomputation; empty for none.
    ratio : float or None
        Seconds of the recomputation divided by the recorded seconds.
    """

    record: Record
    names: dict[Path, str]
    refused: str = ""
    digits: dict[str, float] = field(default_factory=dict)
    error: str = ""
    ratio: float | None = None

    @property
    def promised_digits(self) -> int:
        """Digits to which the job must agree: the fewest that its methods promise."""
        method = self.record.inputs["method"]
        if "measure" in method:
            summary_and_declaration = declared(method["measure"])
            if summary_and_declaration:
                _, declaration = summary_and_declaration
                return declaration.digits
        digits = [
            METHODS[name].digits for name in estimator_names(method) if name in METHODS
        ]
        return min(digits, default=DEFAULT_DIGITS)

    @property
    def agreed_digits(self) -> float:
        """Digits to which the worst quantity agrees; 0 after an error."""
        if self.error:
            return 0.0
        return min(self.digits.values(), default=ALL_DIGITS)

    @property
    def agrees(self) -> bool:
        """Whether the job was recomputed and agrees."""
        return not self.error and self.agreed_digits >= self.promised_digits

    @property
    def plain(self) -> dict[str, Any]:
        """Entry of the job in ``verified.json``."""
        worst = None
        if self.digits and self.agreed_digits != ALL_DIGITS:
            worst = min(self.digits, key=self.digits.__getitem__)
        ratio = self.ratio
        if ratio:
            ratio = round(ratio, 3)
        return {
            "key": self.record.key,
            "digits": math.floor(10 * self.agreed_digits) / 10,
            "quantity": worst,
            "agrees": self.agrees,
            "error": self.error or None,
            "seconds_ratio": ratio,
        }


def verify(
    folders: Sequence[Path],
    *,
    sample: int | None = None,
    seconds: float | None = None,
    search: bool = False,
    data_dir: Path | None = None,
) -> Generator[Trial, None, None]:
    """Recompute finished jobs of some runs, and write the outcome into their folders.

    The cheapest job of each data set and method comes first. Jobs that cannot be
    recomputed are yielded, too. The outcome so far is also written if the generator is
    closed early or interrupted.

    Parameters
    ----------
    folders : sequence of Path
        Folders of runs.
    sample : int, default=None
        Number of jobs of each run; None for all.
    seconds : float, default=None
        Time limit: no job is started that is expected to exceed it. None for no limit.
    search : bool, default=False
        Whether to repeat the search for parameters. By default the selected parameters
        are taken from the record.
    data_dir : Path, default=None

    Yields
    ------
    Trial

    Raises
    ------
    DataError
        If a folder holds no run.
    UserError
        If a folder cannot be written, before anything is computed.
    """
    start = time.monotonic()
    trials = _find_trials(folders, data_dir)
    for folder in folders:
        check_folder(folder)
        if (folder / VERIFIED).is_dir():
            raise UserError(
                f"{folder / VERIFIED} is a folder, but the result is written there",
                "Move it away.",
            )
    possible = [trial for trial in trials if not trial.refused]
    selected = _select(possible, sample, seconds, search)

    # Jobs with the same data are neighbors, because loaded data are kept.
    selected.sort(
        key=lambda trial: json.dumps(trial.record.inputs.get("dataset"), sort_keys=True)
    )
    yield from (trial for trial in trials if trial.refused)
    finished: list[Trial] = []
    try:
        for trial in selected:
            if seconds is not None:
                remaining = seconds - (time.monotonic() - start)
                if not _expected_seconds(trial.record, search) <= remaining:
                    continue
            _recompute(trial, search, data_dir)
            finished.append(trial)
            yield trial
    finally:
        # An interrupt must not lose what may have taken hours.
        for folder in folders:
            recomputed = [trial for trial in finished if folder in trial.names]
            if recomputed:
                all_trials = [trial for trial in trials if folder in trial.names]
                _write(folder, recomputed, all_trials)


def _find_trials(folders: Iterable[Path], data_dir: Path | None) -> list[Trial]:
    """Return the finished jobs of some runs, each once.

    They are sorted in the order in which they are tried: the first job of each run,
    then the second of each, and so on.
    """
    trials: dict[str, Trial] = {}
    ranked: list[tuple[int, float, Trial]] = []
    sources: dict[str, _Source] = {}
    for folder in folders:
        for position, (name, record) in enumerate(_jobs_in_turn(read_run(folder))):
            if record.key not in trials:
                reason = _reason_to_refuse(record, sources, data_dir)
                trial = Trial(record, {}, reason)
                trials[record.key] = trial
                ranked.append((position, _expected_seconds(record, False), trial))
            trials[record.key].names.setdefault(folder, name)
    ranked.sort(key=lambda entry: entry[:2])
    return [trial for _, _, trial in ranked]


def _jobs_in_turn(run: Run) -> list[tuple[str, Record]]:
    """Return names and records of the finished jobs of a run.

    The cheapest job of each data set and method comes first, then the second cheapest
    of each, and so on.
    """
    finished = {}
    for job in all_planned_jobs(run):
        record = run.records.get(job.key)
        if record is not None and record.done:
            finished[job.key] = job

    def cost(job: ResultKey) -> float:
        return _expected_seconds(run.records[job.key], False)

    n_seen: Counter[tuple[str, str]] = Counter()
    ranked = []
    for job in sorted(finished.values(), key=cost):
        record = run.records[job.key]
        turn = n_seen[job.dataset, job.method]
        n_seen[job.dataset, job.method] += 1
        ranked.append((turn, cost(job), job.name, record))
    ranked.sort(key=lambda entry: entry[:2])
    return [(name, record) for _, _, name, record in ranked]


def _select(
    trials: Sequence[Trial], sample: int | None, seconds: float | None, search: bool
) -> list[Trial]:
    """Return the sample of each run, as far as the seconds suffice."""
    n_selected: Counter[Path] = Counter()
    remaining = math.inf
    if seconds is not None:
        remaining = seconds
    max_selected = math.inf
    if sample is not None:
        max_selected = sample
    selected = []
    for trial in trials:
        if all(n_selected[folder] >= max_selected for folder in trial.names):
            continue
        cost = _expected_seconds(trial.record, search)
        if cost <= remaining:
            remaining -= cost
            selected.append(trial)
            n_selected.update(trial.names.keys())
    return selected


def _expected_seconds(record: Record, search: bool) -> float:
    """Estimate the seconds that recomputing a job takes."""
    expected = record.seconds.total or 0.0
    repeated = record.seconds.fit_all or []
    if len(repeated) > 1:
        # A timed job is fitted only once, see `_recompute`.
        expected -= math.fsum(repeated) - statistics.median(repeated)
    if search:
        expected += record.selection.seconds or 0.0
    return SECONDS_FACTOR * expected


class _Source(NamedTuple):
    """Reader or generator of a data set.

    Attributes
    ----------
    name : str
    problem : str
        Reason why the data set cannot be read; empty if it can.
    """

    name: str = ""
    problem: str = ""


def _reason_to_refuse(
    record: Record, sources: dict[str, _Source], data_dir: Path | None
) -> str:
    """Return the reason why a job cannot be recomputed; empty if it can.

    `sources` caches the results of `_source` by data set.
    """
    method = record.inputs.get("method")
    if not isinstance(method, Mapping) or not ({"estimator", "measure"} & set(method)):
        # Only an altered record lacks its method.
        return "its record names no method"
    dataset = record.inputs.get("dataset")
    source = _Source()
    if dataset:
        reference = read_fields(DatasetRef, dataset)
        name = json.dumps([reference.id, reference.options], sort_keys=True)
        if name not in sources:
            sources[name] = _source(reference, data_dir)
        source = sources[name]
        if source.problem:
            return source.problem
    try:
        versions = versions_of(method_paths(Method(**method)), source.name)
    except UserError as error:
        return error.message.splitlines()[0]
    changed = []
    for name, version in versions.items():
        if record.versions.get(name) != version:
            changed.append(name)
    if changed:
        return f"{', '.join(changed)} changed since"
    return ""


def _source(dataset: DatasetRef, data_dir: Path | None) -> _Source:
    """Return the reader or generator of a data set if its data are unchanged."""
    id = dataset.id
    try:
        fingerprint = dataset_fingerprint(id, data_dir=data_dir, **dataset.options)
        if fingerprint != dataset.fingerprint:
            return _Source(problem=f"{id} is another data set than it was")
        return _Source(source_name(load_card(id, data_directory(data_dir))))
    except DataError:
        return _Source(problem=f"the files of {id} are not here")
    except (UserError, TypeError) as error:
        return _Source(problem=f"{id}: {str(error).splitlines()[0]}")


def _recompute(trial: Trial, search: bool, data_dir: Path | None) -> None:
    """Recompute a job and store the outcome in the trial.

    The selected parameters come from the record, unless `search` repeats the search.
    """
    record = trial.record
    folder = None
    if data_dir is not None:
        folder = str(data_dir)
    selected = record.selection.chosen or {}
    try:
        job = job_from(record.inputs, record.versions, record.versions)
        if search and job.search is not None:
            folds = [compute_job(fold, None, folder)[0] for fold in job.folds]
            choice = choice_of(job, folds)
            digits = 0.0
            if choice.chosen == record.selection.chosen:
                digits = ALL_DIGITS
            trial.digits["chosen parameters"] = digits
        # Seconds are not compared.
        recomputed, _ = compute_job(job.fitted_once(), selected, folder)
    except Exception as error:
        # Any error counts as a disagreement: the stored job had none.
        trial.error = f"{type(error).__name__}: {error}"
        return
    trial.digits |= agreement_of(record, recomputed)
    before = _fit_seconds(record)
    after = _fit_seconds(recomputed)
    if before and after:
        trial.ratio = after / before


def _fit_seconds(record: Record) -> float | None:
    return record.seconds.fit or record.seconds.total


def agreement_of(record: Record, recomputed: Record) -> dict[str, float]:
    """Return the digits to which the quantities of two records agree.

    Quantities that vary by nature, such as seconds, are left out. Per-task values are
    compared after the rounding with which they were stored.
    """
    varying: Sequence[str] = ()
    differences: Sequence[str] = ()
    if record.family == JobKind.ANALYSIS:
        summary_and_declaration = declared(record.inputs["method"]["measure"])
        if summary_and_declaration:
            _, declaration = summary_and_declaration
            varying = declaration.varies
            differences = declaration.differences
    digits = {}
    for name, value in record.metrics.items():
        if _matches(name, varying):
            continue
        scale = 0.0
        if _matches(name, differences):
            # A difference of two numbers near 1 has no more digits than the numbers.
            scale = 1.0
        digits[name] = digits_of(value, recomputed.metrics.get(name), scale=scale)
    for name, values in record.per_task.items():
        new_values = recomputed.per_task.get(name) or [None] * len(values)
        n_digits = stored_digits(values)
        if n_digits is not None:
            new_values = rounded(new_values, n_digits)
        fewest = 0.0
        if len(new_values) == len(values):
            pairs = zip(values, new_values, strict=True)
            fewest = min((digits_of(*pair) for pair in pairs), default=ALL_DIGITS)
        digits[f"{name} per task"] = fewest
    return digits


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def digits_of(
    before: float | None, after: float | None, *, scale: float = 0.0
) -> float:
    """Return the decimal digits to which two numbers agree; 16 if they are equal.

    The difference is relative to the larger number, or to `scale` if that is larger.
    None and NaN agree with each other only.
    """
    x = _number_or_nan(before)
    y = _number_or_nan(after)
    if x == y or (math.isnan(x) and math.isnan(y)):
        return ALL_DIGITS
    if not (math.isfinite(x) and math.isfinite(y)):
        return 0.0
    relative = abs(x - y) / max(scale, abs(x), abs(y))
    return min(ALL_DIGITS, max(0.0, -math.log10(relative)))


def _number_or_nan(value: float | None) -> float:
    if value is None:
        return math.nan
    return float(value)


def estimator_names(method: Mapping[str, Any]) -> list[str]:
    """Return the estimator of a method and the estimators nested in its parameters."""
    names = [str(method.get("estimator"))]
    for value in (method.get("params") or {}).values():
        if isinstance(value, dict) and "estimator" in value:
            names += estimator_names(value)
    return names


def _write(
    folder: Path, recomputed: Sequence[Trial], all_trials: Sequence[Trial]
) -> None:
    """Write the outcome for a run, and keep earlier outcomes of the same code."""
    cells: dict[str, dict[str, Any]] = {}
    before = read_verified(folder)
    if before is not None and before.made_by.model_dump() == made_by():
        for job in before.cells:
            cells[job.key] = job.model_dump()
    for trial in recomputed:
        cells[trial.record.key] = trial.plain
    refused = Counter(trial.refused for trial in all_trials if trial.refused)
    host = host_info()
    content = {
        "schema": 1,
        "made_by": made_by(),
        "date": now(),
        "host": {
            "cpu": host.cpu,
            "cores": host.cores,
            "python": host.python,
            "packages": host.packages,
        },
        "finished": len(all_trials),
        "not_tried": dict(sorted(refused.items())),
        "cells": [cells[key] for key in sorted(cells)],
    }
    write_atomic(folder / VERIFIED, file_json(sealed(jsonable(content))))
