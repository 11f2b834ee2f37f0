"""Run as plain data: its plan, its records, and lookups in both.

Reports read runs from their folders only; nothing here computes a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from mtlrun.engine.packed import PACKED
from mtlrun.engine.record import (
    JobKind,
    Record,
    ResultKey,
    SearchResult,
    name_candidates,
)
from mtlrun.engine.store import Store
from mtlrun.engine.stored import AGAIN, PROVENANCE, RUN_FILE, read_json
from mtlrun.errors import DataError
from mtlrun.lab.experiment.spec import PUBLISHED, Spec
from mtlrun.lab.stored import (
    Invocation,
    Provenance,
    StoredDataset,
    StoredExperiment,
    Verified,
    experiments_of,
    read_plan,
    read_verified,
    validated,
)
from mtlrun.parallel.status import FAILED, TIMEOUT
from mtlrun.stats import PairedTest
from mtlrun.utils.io import jsonable, unsealed
from mtlrun.utils.text import cleaned

#: Outcomes of planned jobs, besides `FAILED` (see `outcome_of`).
COMPLETE = "done"
MISSING = "missing"
STOPPED = "stopped"
#: Keys of two records, kind of a paired test of their test scores, and the difference
#: up to which two scores are equal.
TestKey = tuple[str, str, str, float]


@dataclass
class Run:
    """Content of a run folder, under one interpretation.

    Attributes
    ----------
    folder : Path
    experiment : StoredExperiment
        The experiment with its data sets and methods, also of planned jobs alone.
    planned : list of ResultKey
        Planned jobs.
    records : dict of str to Record
        Readable records by key, of finished and failed jobs.
    selections : dict of str to Record
        Key of a parameter search -> record of a job whose parameters it selected.
    provenance : list of Invocation
        One entry per invocation that computed something, the newest last.
    verified : Verified or None
    unreadable : list of str
        Names of planned jobs whose file cannot be read.
    unsound : list of str
        Names of jobs whose test scores are missing or damaged; no test uses them.
    others : list of Run
        The same run under the other interpretations, with the same records.
    altered : bool
        Whether run.json was modified after it was written.
    paired : dict of TestKey to PairedTest
        Paired tests on test scores, from the packed records and from claims that have
        been judged since.
    jobs_by_row : dict of (str, str) to list of ResultKey
        Planned jobs by data set and method, in the order of the trials.
    spec : Spec
        Experiment file with the profile and all overrides applied.
    datasets : dict of str to StoredDataset
        By label, in the order of the experiment.
    methods : list of str
        Labels of the methods, in the order of the experiment.
    baseline : str or None
        Label of the method to which speed-ups refer.
    """

    folder: Path
    experiment: StoredExperiment
    planned: list[ResultKey]
    records: dict[str, Record] = field(default_factory=dict)
    selections: dict[str, Record] = field(default_factory=dict)
    provenance: list[Invocation] = field(default_factory=list)
    verified: Verified | None = None
    unreadable: list[str] = field(default_factory=list)
    unsound: list[str] = field(default_factory=list)
    others: list[Run] = field(default_factory=list)
    altered: bool = False
    paired: dict[TestKey, PairedTest] = field(default_factory=dict)
    jobs_by_row: dict[tuple[str, str], list[ResultKey]] = field(init=False)
    spec: Spec = field(init=False)
    datasets: dict[str, StoredDataset] = field(init=False)
    methods: list[str] = field(init=False)
    baseline: str | None = field(init=False)

    def __post_init__(self) -> None:
        """Sort the planned jobs, and name what only they have."""
        self.spec = self.experiment.spec
        self.datasets = self.experiment.datasets
        self.methods = self.experiment.methods
        self.baseline = None
        if self.spec.timing is not None:
            self.baseline = self.spec.timing.baseline
        methods = dict.fromkeys(self.methods)
        self.jobs_by_row = {}
        for job in self.planned:
            # Labels and methods of run.json come first, in their order there.
            self.datasets.setdefault(job.dataset, StoredDataset())
            methods.setdefault(job.method)
            self.jobs_by_row.setdefault((job.dataset, job.method), []).append(job)
        self.methods[:] = methods


# ------------------------------------------------------------ labels of data sets


def axis_of(run: Run, label: str) -> str:
    """Return the label of a data set without the value of the axis of a sweep."""
    dataset = run.datasets.get(label)
    if dataset is None or dataset.axis is None:
        return label
    return dataset.axis.of


def data_names(run: Run) -> str:
    """Return the labels of the data sets in one line, without values of an axis."""
    labels = dict.fromkeys(axis_of(run, label) for label in run.datasets)
    return ", ".join(labels) or "nothing"


def label_of(run: Run, name: str) -> str | None:
    """Return the label of a data set, given its label or id; None if the run lacks
    it.
    """
    if name in run.datasets:
        return name
    for label, dataset in run.datasets.items():
        if dataset.id == name:
            return label
    return None


def has_data(run: Run, label: str) -> bool:
    """Return whether a label belongs to a data set, and is not `PUBLISHED`."""
    dataset = run.datasets.get(label)
    return label != PUBLISHED and (dataset is None or dataset.id != PUBLISHED)


def title_of(run: Run, label: str) -> str:
    """Return the label of a data set, marked if it is simulated.

    In a sweep it may be the label without the value of the axis.
    """
    for name, dataset in run.datasets.items():
        if label in (name, axis_of(run, name)):
            return dataset.marked(label)
    return label


# ------------------------------------------------------------ jobs and records


def all_planned_jobs(run: Run) -> list[ResultKey]:
    """Return the planned jobs of all interpretations."""
    jobs = list(run.planned)
    for other in run.others:
        jobs += other.planned
    return jobs


def started_others(run: Run) -> list[tuple[Run, list[ResultKey]]]:
    """Return the other interpretations of which a job was computed.

    Returns
    -------
    list of (Run, list of ResultKey)
        Interpretation, and its planned jobs that no interpretation before it has.
    """
    started = []
    seen_keys = {job.key for job in run.planned}
    for other in run.others:
        unshared = [job for job in other.planned if job.key not in seen_keys]
        # An interpretation without jobs of its own has started with the jobs it shares.
        decisive = unshared or other.planned
        if any(job.key in run.records for job in decisive):
            started.append((other, unshared))
            seen_keys.update(job.key for job in unshared)
    return started


def outcome_of(run: Run, job: ResultKey) -> str:
    """Return the outcome of a planned job.

    It is ``done``, ``missing``, ``failed``, or ``stopped`` for an analysis that reached
    its limit of seconds.
    """
    record = run.records.get(job.key)
    if record is None:
        return MISSING
    if record.done:
        return COMPLETE
    if record.family == JobKind.ANALYSIS and record.status == TIMEOUT:
        return STOPPED
    return FAILED


def jobs_with_outcome(run: Run, outcome: str) -> list[ResultKey]:
    """Return the planned jobs with an outcome."""
    return [job for job in run.planned if outcome_of(run, job) == outcome]


def jobs_of(run: Run, dataset: str, method: str) -> list[ResultKey]:
    """Return the planned jobs of a method on a data set, in the order of the trials."""
    return run.jobs_by_row.get((dataset, method), [])


def results_of(run: Run, dataset: str, method: str) -> list[Record]:
    """Return the finished records of a method on a data set, in the order of trials."""
    records = []
    for job in jobs_of(run, dataset, method):
        record = run.records.get(job.key)
        if record is not None and record.done:
            records.append(record)
    return records


def first_results(run: Run, name: str) -> Iterator[tuple[str, str, Any]]:
    """Yield data set, method, and an entry of the first finished repeat that has it.

    Parameters
    ----------
    run : Run
    name : str
        Key of `Record.result`.
    """
    for dataset, method in product(run.datasets, run.methods):
        for record in results_of(run, dataset, method):
            content = record.result.get(name)
            if content:
                yield dataset, method, content
                break


# ------------------------------------------------------------ reading


def read_run(folder: Path) -> Run:
    """Read a run folder.

    A damaged record is only noted, since its job will be computed again.

    Parameters
    ----------
    folder : Path
        ``<output>/<paper>/<item>/<profile>`` with run.json, and possibly with packed
        records and provenance.json.

    Raises
    ------
    DataError
        If there is no run.json, if it is damaged, or if all records are lost with a
        damaged file of packed records.
    """
    folder = Path(folder)
    stored = Store.of_run(folder)
    raw = read_plan(folder, stored)
    if raw is None:
        raise DataError(
            f"{folder}: no {RUN_FILE} here, so this is not the folder of a run",
            "Run the experiment first (mtlrun reproduce TARGET), or give <output>/<paper>/<artifact>/<profile>.",
        )
    altered = False
    try:
        unsealed(raw)
    except ValueError:
        altered = True
    main, *others = experiments_of(raw, folder / RUN_FILE)
    path = folder / PROVENANCE
    # The newest invocation is the last one.
    provenance = validated(Provenance, read_json(path) or {}, path)
    run = Run(
        folder=folder,
        experiment=main,
        planned=[job for job in main.cells if not job.reading],
        provenance=provenance.runs or [],
        verified=read_verified(folder),
        altered=altered,
        paired=stored_tests(stored.packed.paired),
    )
    for experiment in others:
        name = experiment.reading
        planned = [job for job in main.cells if job.reading == name]
        other = replace(run, experiment=experiment, planned=planned, others=[])
        run.others.append(other)
    for job in all_planned_jobs(run):
        if job.key in run.records:
            continue
        try:
            record = stored.read(job.key)
            if record is None:
                continue
            run.records[job.key] = cleaned_record(record)
        except ValueError:
            # A damaged pack concerns all its records, so it is noted once, below.
            if stored.packed.damage is None or stored.path(job.key).is_file():
                run.unreadable.append(job.name)
            continue
        try:
            stored.scores(record)
        except ValueError:
            run.unsound.append(job.name)
    # A damaged pack does no harm if all records are in the folder of jobs, too.
    damage = stored.packed.damage
    if damage is not None and jobs_with_outcome(run, MISSING):
        if not run.records:
            raise DataError(f"{folder / PACKED}: {damage}", AGAIN)
        run.unreadable.append(PACKED)
    for key in sorted(run.records):
        record = run.records[key]
        if record.selection.is_search:
            run.selections.setdefault(str(record.selection.key), record)
    name_candidates(record.selection for record in run.selections.values())
    return run


def stored_tests(entries: Iterable[dict[str, Any]]) -> dict[TestKey, PairedTest]:
    """Return the paired tests of packed records; other formats are left out."""
    tests = {}
    for entry in entries:
        try:
            key = (entry["of"], entry["over"], entry["test"], float(entry["equal_to"]))
            tests[key] = PairedTest(**entry["result"])
        except (LookupError, TypeError, ValueError):
            continue
    return tests


def storable_tests(tests: dict[TestKey, PairedTest]) -> list[dict[str, Any]]:
    """Return paired tests in the format that `stored_tests` reads."""
    entries = []
    for (of, over, test, equal_to), result in tests.items():
        numbers = {
            "kind": result.kind,
            "n": result.n,
            "mean_difference": result.mean_difference,
            "statistic": result.statistic,
            "pvalue": result.pvalue,
            "wins": result.wins,
            "losses": result.losses,
            "ties": result.ties,
        }
        entries.append(
            {
                "of": of,
                "over": over,
                "test": test,
                "equal_to": equal_to,
                "result": jsonable(numbers),
            }
        )
    return entries


# ------------------------------------------------------------ texts of records


def cleaned_record(record: Record) -> Record:
    """Return a record without control characters in its texts."""
    selection = SearchResult(**cleaned(vars(record.selection)))
    return replace(Record(**cleaned(vars(record))), selection=selection)
