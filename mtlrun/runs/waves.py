"""What a comparison computes, in which order, and how much of it within a time budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from threadpoolctl import threadpool_limits

from mtlrun.data.dataset import Dataset
from mtlrun.errors import ConfigError, counted, one_line
from mtlrun.estimators.registry import build
from mtlrun.evaluation import Part
from mtlrun.record import NOT_CONVERGED, Record
from mtlrun.report.leaderboard import Entry
from mtlrun.runs.candidates import INDEPENDENT, MULTITASK, TRIVIAL, Candidate
from mtlrun.runs.cell import Cell, Features
from mtlrun.runs.fit import with_features
from mtlrun.runs.methods import resolved
from mtlrun.runs.run import Runner
from mtlrun.runs.settings import FEATURES, Protocol

#: Rows that a pilot fit takes to estimate what a method costs.
PILOT_ROWS = 2000
#: Part of the budget that the plan may fill; the rest is for the last fit, and for estimates that are too low.
FILL = 0.75
#: Part of the budget that the estimates themselves may take.
PILOT_PART = 0.2
MAX_SPLITS = 10
#: A method whose split is estimated to take at most so many seconds is not worth a process of its own.
CHEAP = 10.0


@dataclass
class Schedule:
    """What is run: methods (some with smaller grids), number of splits, estimates, and what is left out."""

    candidates: list[Candidate]
    n_splits: int
    seconds: dict[str, float] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    shrunk: dict[str, str] = field(default_factory=dict)


Place = tuple[str, int]
#: What a comparison tells after every fit: all results so far.
Finished = Callable[[list[Entry]], None]


@dataclass
class Waves:
    """Computes the cells of a comparison and collects their records.

    Attributes
    ----------
    schedule : Schedule
    cells : mapping of (label, split) to Cell
    runner : Runner
    protocol : Protocol
    deadline : float or None
        Of `time.monotonic`: what would not be done by then is not begun, and what takes too long is stopped. No number
        depends on it.
    say, finished : callable
    """

    schedule: Schedule
    cells: Mapping[Place, Cell]
    runner: Runner
    protocol: Protocol
    deadline: float | None = None
    say: Callable[[str], None] = lambda _: None
    finished: Finished = lambda _: None

    def __post_init__(self) -> None:
        self.entries = {c.label: Entry(c.label, c.family) for c in self.schedule.candidates}
        for label, note in self.schedule.shrunk.items():
            self.entries[label].searched = note
        self.places: dict[str, list[Place]] = {}
        for place, cell in self.cells.items():
            self.places.setdefault(cell.key, []).append(place)
        self.open = set(self.cells)
        self.runner.told = self._add

    def run(self) -> list[Entry]:
        """Compute everything, or what there is time for; return the results by method."""
        pool = self.runner.pool
        with self.runner.working():
            for wave in self._waves(pool.jobs or 1):
                cells = [self.cells[place] for place in wave]
                self._known(cells, done=True)
                waiting = [place for place in wave if place in self.open and not self._too_late(place)]
                dear = self.deadline is not None and any(self._seconds(place) > CHEAP for place in waiting)
                self.runner.fits(
                    [self.cells[place] for place in waiting], replace(pool, until=self.deadline, stops=dear)
                )
                self._known(cells, done=False)  # of other processes
                left = [
                    f"{label}, split {trial + 1}: no time was left"
                    for label, trial in wave
                    if (label, trial) in self.open
                ]
                self.schedule.left_out += left
        for entry in self.entries.values():
            entry.errors = list(dict.fromkeys(entry.errors))
        return list(self.entries.values())

    def _waves(self, jobs: int) -> Iterator[list[Place]]:
        """Yield what is computed together; cheap methods come first, so that there is a result whatever happens."""
        labels = [candidate.label for candidate in self.schedule.candidates]
        size = 1 if jobs == 1 else len(labels) if self.deadline is None else jobs
        n_splits = self.schedule.n_splits
        for trial in range(n_splits):
            places = [(label, trial) for label in labels]
            if trial and self.deadline is not None:
                seconds = sum(self._seconds(place) for place in places) / jobs
                if time.monotonic() + seconds > self.deadline:
                    if trial < self.protocol.n_splits:
                        few = f"{self.protocol.n_splits - trial} of {counted(self.protocol.n_splits, 'split')}"
                        self.schedule.left_out.append(f"{few}: the budget was spent")
                    return
            for start in range(0, len(places), size):
                yield places[start : start + size]

    def _seconds(self, place: Place) -> float:
        """Return what a row will cost; nothing if it was computed before."""
        record = self.runner.store.load(self.cells[place].key)
        return 0.0 if record is not None and record.done else self.schedule.seconds.get(place[0], 0.0)

    def _too_late(self, place: Place) -> bool:
        return self.deadline is not None and time.monotonic() + self._seconds(place) > self.deadline

    def _known(self, cells: list[Cell], done: bool) -> None:
        """Take over records that are there already; those of failures only when they were not tried again."""
        for cell in cells:
            if self.open.intersection(self.places[cell.key]):
                record = self.runner.store.load(cell.key)
                if record is not None and (record.done or not done):
                    self._add(record)

    def _add(self, record: Record) -> None:
        """Take over the record of a row, and tell it."""
        for label, trial in self.places.get(record.key, ()):
            if (label, trial) in self.open:
                self.open.remove((label, trial))
                enter(self.entries[label], trial, record, self.protocol.metric)
                if record.done:
                    self.schedule.seconds[label] = self.entries[label].seconds[-1]  # no estimate is needed any more
                self.say(self._line(label, trial, record))
                self.finished(list(self.entries.values()))

    def _line(self, label: str, trial: int, record: Record) -> str:
        start = f"split {trial + 1}/{self.schedule.n_splits}  {label}"
        if not record.done:
            return f"{start}: {record.error or record.status}"
        entry = self.entries[label]
        before = "" if record.key in self.runner.computed else ", computed before"
        score = f"{self.protocol.metric} {entry.scores[trial]:.4g}"
        return f"{start}: {score}, {entry.seconds[-1]:.3g} s{before}"


def enter(entry: Entry, trial: int, record: Record, metric: str) -> None:
    """Add the record of a split to the results of a method."""
    if not record.done:
        entry.errors.append(record.error or record.status)
        return
    score = record.metrics[metric]
    entry.scores[trial] = math.nan if score is None else score
    entry.tasks[trial] = [None if value is None or math.isnan(value) else value for value in record.per_task[metric]]
    entry.seconds.append(record.seconds["total"] + record.seconds.get("search", 0.0))
    entry.fit_seconds.append(record.seconds["fit"])
    entry.chosen[trial] = record.selection.get("chosen") or {}
    edges = record.selection.get("edges", {}).items()
    notes = ["not converged"] * (record.status == NOT_CONVERGED)
    notes += [f"{name.rpartition('__')[2]} at the {end} end of its grid" for name, end in edges]
    entry.notes += [note for note in notes if note not in entry.notes]


def make_schedule(
    candidates: list[Candidate],
    dataset: Dataset,
    protocol: Protocol,
    *,
    budget: float | None,
    started: float,
    jobs: int,
    done: Callable[[Candidate], bool] = lambda _: False,
    say: Callable[[str], None] = lambda _: None,
) -> Schedule:
    """Decide what is run.

    Without a budget everything. With one, a pilot fit on at most 2000 rows estimates what every method costs; the
    trivial and an independent baseline come first, then other baselines and multi-task methods in turn. Where the whole
    grid is too expensive, a smaller one is used, and what does not fit even then is left out. Time that remains
    is spent on more splits.

    Parameters
    ----------
    budget : float or None
        Seconds.
    started : float
        When the budget began to be spent, by `time.monotonic`.
    jobs : int
        Processes (not -1).
    done : callable
        Whether the first split of a method was computed before, and so costs nothing.

    Raises
    ------
    ConfigError
        If the budget does not suffice for a baseline and a multi-task method on one split; says what would do.
    """
    if budget is None:
        return Schedule(candidates, protocol.n_splits)
    pilots = time.monotonic()
    rows = protocol.rows(dataset, 0)[0]
    whole: dict[str, float] = {}
    order: list[Candidate] = []
    left_out = []
    for candidate in _in_turn(candidates):
        if order and time.monotonic() - pilots > PILOT_PART * budget and len(order) >= 3:
            left_out.append(f"{candidate.label}: no time to estimate its cost")
            continue
        try:
            seconds = 0.0 if done(candidate) else _pilot(candidate, dataset, rows)
        except Exception as error:  # a method that cannot be fitted here is left out, and the report says so
            left_out.append(f"{candidate.label}: failed in a trial fit ({one_line(error)})")
            continue
        whole[candidate.label] = seconds
        order.append(candidate)
    capacity = max(budget - (time.monotonic() - started), 0.0) * FILL * jobs
    schedule = _fill(order, whole, capacity, protocol, done)
    schedule.left_out += left_out
    families = {c.family for c in schedule.candidates}
    wanted = {c.family for c in candidates} & {MULTITASK}  # none, when only baselines are compared
    if not wanted <= families or not families & {INDEPENDENT, TRIVIAL}:
        if not wanted <= {c.family for c in order}:
            remedy = "Choose other --methods, or fix what the messages say."
            raise ConfigError(f"no multi-task method could be tried: {'; '.join(left_out[:3])}", remedy)
        _too_small(order, whole, budget, jobs, time.monotonic() - started)
    # The splits after the first are planned by what the first one took.
    schedule.n_splits = (
        protocol.n_splits if protocol.split["kind"] == "published" else max(protocol.n_splits, MAX_SPLITS)
    )
    spent = sum(schedule.seconds.values()) / jobs
    say(
        f"estimated: {counted(len(schedule.candidates), 'method')}, at most {spent:.3g} s for one split, "
        f"budget {budget:.3g} s"
    )
    return schedule


def _in_turn(candidates: list[Candidate]) -> list[Candidate]:
    """Return trivial and independent methods, then baselines and multi-task methods in turn."""
    first = [c for c in candidates if c.family == TRIVIAL][:1] + [c for c in candidates if c.family == INDEPENDENT][:1]
    joint = [c for c in candidates if c.family == MULTITASK]
    rest = [c for c in candidates if c not in first and c not in joint]
    for k in range(max(len(joint), len(rest))):
        first += joint[k : k + 1] + rest[k : k + 1]
    return first


def _pilot(candidate: Candidate, dataset: Dataset, rows: np.ndarray) -> float:
    """Return the seconds of one fit on the training rows, extrapolated from a part of them."""
    part = rows if len(rows) <= PILOT_ROWS else np.sort(np.random.default_rng(0).permutation(rows)[:PILOT_ROWS])
    if dataset.task_id is not None:  # every task needs rows, of both sides
        part = np.union1d(part, np.concatenate([rows[dataset.task_id[rows] == t][:2] for t in range(dataset.n_tasks)]))
    one = candidate.shrunk(1)
    started = time.perf_counter()
    with threadpool_limits(limits=1):
        prepared, _ = with_features(Part.of(dataset, part, part[: max(len(part) // 10, 2)]), Features(FEATURES))
        prepared.predict(prepared.fit(build(resolved(one.estimator, one.params, 0))))
    return (time.perf_counter() - started) * max(len(rows) / len(part), 1.0)


def _unit_seconds(candidate: Candidate, fit: float, folds: int) -> float:
    """Return the seconds of search and fit, from those of one fit; a fold trains on its part of the rows."""
    if not candidate.grid:
        return fit
    return fit * (1 + candidate.n_candidates * (folds - 1))


def _fill(
    order: list[Candidate],
    fit: dict[str, float],
    capacity: float,
    protocol: Protocol,
    done: Callable[[Candidate], bool],
) -> Schedule:
    """Take methods in their order while they fit, with smaller grids where that helps."""
    schedule = Schedule([], 1)
    share = capacity / max(len(order), 1)
    for candidate in order:
        left = capacity - sum(schedule.seconds.values())
        for option in candidate.options():
            seconds = 0.0 if done(option) else _unit_seconds(option, fit[candidate.label], protocol.folds)
            # Beyond its share a method may not take what the ones behind it need.
            if seconds <= min(left, max(share * 2, left / 3)):
                schedule.candidates.append(option)
                schedule.seconds[candidate.label] = seconds
                if option.n_candidates < candidate.n_candidates:
                    schedule.shrunk[candidate.label] = f"{option.n_candidates} of {candidate.n_candidates} combinations"
                break
        else:
            schedule.left_out.append(
                f"{candidate.label}: one split would take about {seconds:.3g} s, even without a search"
            )
    return schedule


def _too_small(order: list[Candidate], fit: dict[str, float], budget: float, jobs: int, spent: float) -> None:
    """Refuse the budget and say what would do."""
    joint = [c for c in order if c.family == MULTITASK]
    least = [c for c in order if c.family in (TRIVIAL, INDEPENDENT)]
    least += sorted(joint, key=lambda c: fit[c.label])[:1]
    need = spent + sum(fit[c.label] for c in least) / FILL / jobs
    minutes = float(f"{1.3 * need / 60 + 0.05:.1g}")
    what = "a baseline and a multi-task method on one split do not fit" if joint else "no baseline fits on one split"
    raise ConfigError(
        f"--budget {budget / 60:g} minutes is too small: {what}",
        f"--budget {minutes:g} would be enough for {', '.join(c.label for c in least)} on one split.",
    )
