"""In which order a comparison is computed: what every verdict needs first, on all splits, then the rest by its cost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mtlrun.comparison.candidates import Candidate, core
from mtlrun.comparison.remaining import remaining_seconds
from mtlrun.comparison.verdict import Entry, Evaluation
from mtlrun.metrics import get_metric
from mtlrun.record import NOT_CONVERGED, Record
from mtlrun.runs.cell import Cell
from mtlrun.runs.run import Runner

Place = tuple[str, int]
#: What a comparison tells after every fit: all results so far.
Finished = Callable[[list[Entry]], None]


@dataclass
class CompareSchedule:
    """Computes the cells of a comparison and collects their records.

    Attributes
    ----------
    candidates : sequence of Candidate
        Cheap ones first.
    cells : mapping of (label, split) to Cell
    runner : Runner
    tested : Evaluation
    deadline : float or None
        Of `time.monotonic`: nothing is begun after it, and what runs is stopped. No number depends on it.
    say, finished : callable
    left_out : list of str
        What there was no time for.
    usual : mapping of str to float
        Label -> the seconds of a split, from `usual_seconds`.
    """

    candidates: Sequence[Candidate]
    cells: Mapping[Place, Cell]
    runner: Runner
    tested: Evaluation
    deadline: float | None = None
    say: Callable[[str], None] = lambda _: None
    finished: Finished = lambda _: None
    left_out: list[str] = field(default_factory=list)
    usual: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.entries = {c.label: Entry(c.label, c.family) for c in self.candidates}
        self.places: dict[str, list[Place]] = {}
        for place, cell in self.cells.items():
            self.places.setdefault(cell.key, []).append(place)
        self.open = set(self.cells)
        self.runner.finished = self._add
        self.started, self.worked = time.monotonic(), 0.0

    def remaining(self) -> float | None:
        """Return the seconds until all is computed, None while nothing is known."""
        elapsed = time.monotonic() - self.started
        return remaining_seconds(self.entries, self.usual, len(self.tested.rows), elapsed, self.worked)

    def run(self) -> list[Entry]:
        """Compute everything, or what there is time for; return the results by method."""
        self.started = time.monotonic()
        with self.runner.working():
            pool = replace(self.runner.pool, until=self.deadline, stops=self.deadline is not None)
            for number, wave in enumerate(self._waves()):
                cells = [self.cells[place] for place in wave]
                self._known(cells, done=True)
                # The first is computed in any case, so that there is a board whatever the budget, and in this process,
                # as are others while those of the pool start.
                here = replace(pool, jobs=1, until=self.deadline if number else None, stops=False, workers=())
                here = here if number == 0 or not pool.started else pool
                self.runner.fits([self.cells[place] for place in wave if place in self.open], here)
                self._known(cells, done=False)  # of other processes
        late: dict[int, list[str]] = {}
        for label in self.entries:
            late.setdefault(sum(place[0] == label for place in self.open), []).append(label)
        for missing, labels in late.items():
            if missing:
                of = f"{missing} of {len(self.tested.rows)} splits"
                self.left_out.append(f"no time was left for {of} of {', '.join(labels)}")
        return list(self.entries.values())

    def _waves(self) -> Iterator[list[Place]]:
        """Yield what is computed together: a method on the splits of a repeat, those that come later on all splits.

        Before a deadline every repeat of these is computed for itself, too: half of the splits are better than half of
        the folds of all searches.
        """
        folds = self.tested.folds
        first = [candidate.label for candidate in core(self.candidates)]
        rest = [candidate.label for candidate in self.candidates if candidate.label not in first]
        repeats = [range(r * folds, (r + 1) * folds) for r in range(self.tested.repeats)]
        for splits in repeats:
            yield from ([(label, split) for split in splits] for label in first)
        if self.deadline is None and repeats:
            repeats = [range(repeats[-1].stop)]
        for label in rest:
            yield from ([(label, split) for split in splits] for splits in repeats)

    def _known(self, cells: list[Cell], done: bool) -> None:
        """Take over records that are there already; those of failures only when they were not tried again."""
        for cell in cells:
            if self.open.intersection(self.places[cell.key]):
                record = self.runner.store.load(cell.key)
                if record is not None and (record.done or not done):
                    self._add(record)

    def _add(self, record: Record) -> None:
        """Take over the record of a row, and tell it."""
        if record.key in self.runner.computed:
            self.worked += sum(record.seconds.get(part, 0.0) for part in ("total", "search"))
        for label, split in self.places.get(record.key, ()):
            if (label, split) in self.open:
                self.open.remove((label, split))
                self._enter(self.entries[label], split, record)
                if not any(place[0] == label for place in self.open):
                    self.say(self._line(label, record))
                self.finished(list(self.entries.values()))

    def _line(self, label: str, record: Record) -> str:
        """Say what a method has done on all splits."""
        entry = self.entries[label]
        if entry.score is None:
            return f"{label}: {entry.errors[0] if entry.errors else 'no score'}"
        failed = f", failed in {len(entry.failures)} splits ({entry.errors[0]})" if entry.failures else ""
        before = "" if record.key in self.runner.computed else ", computed before"
        text = f"{label}: {self.tested.metric} {entry.score:.4g} in {len(entry.scores)} splits{failed}"
        return f"{text}, {sum(entry.seconds):.3g} s{before}"

    def _enter(self, entry: Entry, split: int, record: Record) -> None:
        scores = self.runner.store.read_scores(record) if record.done else None
        if scores is None:
            entry.failures[split] = record.error or record.status
            return
        metric = self.tested.metric
        score = record.metrics[metric]
        entry.scores[split] = math.nan if score is None else score
        entry.tasks[split] = [None if v is None or math.isnan(v) else v for v in record.per_task[metric]]
        entry.losses[split] = self.tested.losses(split, scores)
        entry.seconds.append(record.seconds["total"] + record.seconds.get("search", 0.0))
        entry.fit_seconds.append(record.seconds["fit"])
        entry.chosen[split] = record.selection.get("chosen") or {}
        inner = record.selection.get("score")
        if inner is not None:
            entry.inner[split] = -inner if get_metric(metric).greater_is_better else inner
        notes = ["not converged"] * (record.status == NOT_CONVERGED)
        edges = record.selection.get("edges", {}).items()
        notes += [f"{name.rpartition('__')[2]} at the {end} end of its grid" for name, end in edges]
        entry.notes += [note for note in notes if note not in entry.notes]
