"""Work done one piece after the other, in parallel processes, on a Dask cluster, or each piece within a time limit.

At the end: what a worker does with a cell.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TextIO

from mtlrun.errors import ConfigError, DataError, UnknownNameError, one_line
from mtlrun.problem.memory import free_bytes, shared_by
from mtlrun.record import DIVERGED, FAILED, FOLD, MEASURE, OK, TIMEOUT, Record
from mtlrun.runs.cell import Cell
from mtlrun.utils.io import canonical_json
from mtlrun.utils.plugins import pathless

Unit = tuple[Any, tuple[Any, ...]]
Result = tuple[Any, "Outcome"]
BACKENDS = ("loky", "threading", "dask")
#: Pieces of work at a time, at the most.
MOST = 1000
#: What a worker process takes before it has any data.
WORKER_BYTES = 300 << 20
#: Bytes by which a worker process may grow before it is replaced.
GROWN = 1 << 30
#: Seconds to wait for the scheduler, and for a first worker.
PATIENCE = 30
#: What is said of a piece of work that Dask has given up.
DIED = "the worker processes that computed it died, one after the other (out of memory?)"
_STARTING = threading.Lock()


@dataclass(frozen=True)
class Outcome:
    """The outcome of a piece of work.

    Attributes
    ----------
    status : str
        ok, failed, diverged or timeout.
    value : object
        What the function returned, None unless ok.
    error : str or None
        One line.
    log : str or None
        Traceback, without the folders of this machine.
    """

    status: str
    value: Any = None
    error: str | None = None
    log: str | None = None


def attempt(function: Callable[..., Any], *arguments: Any) -> Outcome:
    """Call a function; an exception becomes the outcome."""
    try:
        return Outcome(OK, function(*arguments))
    except Exception as error:  # the point of this function: a failure is a row of the table, not the end of the run
        status = DIVERGED if type(error).__name__ == "Diverged" else FAILED
        return Outcome(status, error=one_line(error), log=_without_folders("".join(traceback.format_exception(error))))


def attempt_alone(processes: int, function: Callable[..., Any], *arguments: Any) -> Outcome:
    """Call a function in one of several busy workers: with its share of the memory, and without further parallelism."""
    from joblib import parallel_config

    with parallel_config(backend="sequential"), shared_by(processes):
        return attempt(function, *arguments)


def spread(
    units: Iterable[Unit],
    call: Callable[[tuple[Any, ...]], Outcome],
    width: Callable[[], int],
    cancel: Callable[[], object],
) -> Generator[tuple[Unit, Outcome], None, None]:
    """Yield (unit, outcome) as they are finished, with at most `width()` of them at work, each waited for by a thread.

    With a width of one the next unit is taken when the caller comes back for it; otherwise before, so that nobody waits
    while the caller is busy with an outcome. What is at work when the generator is closed, as after an interrupt, is
    cancelled, so that no thread waits for it.
    """
    from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

    waiting = iter(units)
    flying: dict[Future[Outcome], Unit] = {}

    def fill() -> None:
        while len(flying) < max(1, width()) and (unit := next(waiting, None)) is not None:
            flying[threads.submit(call, unit[1])] = unit

    with ThreadPoolExecutor(MOST) as threads:
        try:
            fill()
            while flying:
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    unit = flying.pop(future)
                    if width() > 1:
                        fill()
                    yield unit, future.result()
                fill()
        finally:
            if flying:
                cancel()


def _without_folders(text: str) -> str:
    for folder in sorted({os.getcwd(), *filter(None, sys.path)}, key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
    return text


@dataclass(frozen=True)
class Pool:
    """How work is spread.

    Attributes
    ----------
    jobs : int or None
        Processes; -1 means all cores. None: one, or with ``backend="dask"`` all workers.
    backend : str or None
        ``loky`` (processes, the default), ``threading``, or ``dask``: the workers of the cluster of `scheduler`, at
        most `jobs` of them at a time.
    scheduler : str or None
        Address for ``backend="dask"``; default a cluster of `jobs` processes on this machine.
    seconds : float or None
        Limit of one piece of work. It runs in a process of its own, which is killed at the limit, in compiled code too.
    until : float or None
        Time, of `time.monotonic`, at which nothing more is begun.
    stops : bool
        Whether what runs at that time is stopped, as at a limit.
    workers : tuple
        Processes that go on living after a run, see `keeping`.
    """

    jobs: int | None = None
    backend: str | None = None
    scheduler: str | None = None
    seconds: float | None = None
    until: float | None = None
    stops: bool = False
    workers: tuple[_Worker, ...] = ()

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1 and self.jobs != -1:
            raise ConfigError(f"--jobs must be at least 1, not {self.jobs}", "Use -1 for all cores.")
        if self.backend not in (None, *BACKENDS):
            raise UnknownNameError("backend", str(self.backend), BACKENDS)
        if self.scheduler and self.backend != "dask":
            raise ConfigError("--scheduler needs --backend dask")
        if self.seconds and self.backend not in (None, "loky"):
            raise ConfigError(f"limits.seconds does not work with --backend {self.backend}", "Leave out --backend.")

    @property
    def serial(self) -> bool:
        """Whether one piece of work runs after the other."""
        return self.jobs in (None, 1) and self.backend is None

    @property
    def started(self) -> bool:
        """Whether no process that is kept is still starting."""
        return all(worker.ready is None or worker.ready.done() for worker in self.workers)

    @property
    def late(self) -> bool:
        """Whether nothing more is begun."""
        return self.until is not None and time.monotonic() >= self.until

    def left(self) -> float | None:
        """Return the seconds that a piece of work which begins now may take."""
        if not self.stops or self.until is None:
            return self.seconds
        left = max(self.until - time.monotonic(), 0.0)
        return left if self.seconds is None else min(left, self.seconds)

    @contextlib.contextmanager
    def keeping(self, most: int | None = None) -> Iterator[Pool]:
        """Yield this pool with processes, at most so many, that several runs share: starting one takes seconds."""
        workers = self._new_workers(most)
        needed = not self.late and not (self.serial and self.left() is None) and self.backend in (None, "loky")
        if needed and _can_fork():
            for worker in workers:  # all of them before the threads that wait for them
                worker.fork()
        for worker in workers if needed else ():
            worker.begin()
        try:
            yield replace(self, workers=workers)
        finally:
            for worker in workers:
                worker.end()

    def _new_workers(self, most: int | None = None) -> tuple[_Worker, ...]:
        """Return workers whose processes are started when they are needed.

        There are no more than pieces of work, cores (but two, so that one can wait for the disk) and memory for them.
        """
        from joblib import cpu_count, effective_n_jobs

        room = int(min(free_bytes() / WORKER_BYTES, MOST))
        limits = [effective_n_jobs(self.jobs or 1), max(cpu_count(), 2), room, MOST if most is None else most]
        return tuple(_Worker() for _ in range(max(min(limits), 1)))

    def run(self, function: Callable[..., Any], units: Iterable[Unit]) -> Generator[Result, None, None]:
        """Yield (tag, Outcome) for every (tag, arguments), as they are finished.

        Parameters
        ----------
        function : callable
            Defined at the top of a module, so that other processes can import it.
        units : iterable
            Taken from one by one, while earlier ones run.
        """
        if self.backend == "dask":
            yield from run_on_dask(function, units, self.scheduler, self.jobs)
        elif self.serial and self.left() is None:
            yield from ((tag, attempt(function, *arguments)) for tag, arguments in units)
        else:
            yield from self._parallel(function, units)

    def _parallel(self, function: Callable[..., Any], units: Iterable[Unit]) -> Generator[Result, None, None]:
        """Run in processes, or in threads."""
        workers = self.workers or self._new_workers()
        free = list(workers)
        work = (attempt,) if len(workers) == 1 else (attempt_alone, len(workers))

        def call(arguments: tuple[Any, ...]) -> Outcome:
            if self.backend == "threading":
                # Threads are one process: what is set for one of them would hold for all.
                return attempt_alone(1, function, *arguments)
            worker = free.pop()  # there are as many units at work as workers
            try:
                return worker.call(self, *work, function, *arguments)
            finally:
                free.append(worker)

        def end() -> None:
            for worker in workers:
                worker.end()

        try:
            for unit, outcome in spread(units, call, lambda: len(workers), end):
                yield unit[0], outcome
        finally:
            if not self.workers:
                end()


class _Worker:
    """A process that does one piece of work at a time and is killed when one takes too long."""

    def __init__(self) -> None:
        self.executor: Any = None
        self.ready: Any = None
        self.ended = False

    def call(self, pool: Pool, work: Callable[..., Outcome], *arguments: Any) -> Outcome:
        """Do a piece of work within the time that a pool has left when the process has started."""
        from concurrent.futures import BrokenExecutor

        started, limit = time.perf_counter(), None
        try:
            executor = self._start(replace(pool, seconds=None).left())
            if self.ended:  # meanwhile
                self.stop()
            started, limit = time.perf_counter(), pool.left()
            if limit is not None and limit <= 0:
                raise TimeoutError
            return executor.submit(work, *arguments).result(timeout=limit)
        except TimeoutError:
            self.stop()
            spent = time.perf_counter() - started
            return Outcome(TIMEOUT, error=f"stopped after {spent:.0f} s (limits.seconds: {limit or 0:g})")
        except BrokenExecutor as error:
            self.stop()
            return Outcome(FAILED, error=f"the worker process died (out of memory?): {error}"[:200])

    def stop(self) -> None:
        """Kill the process."""
        executor, self.executor = self.executor, None
        if executor is not None:
            executor.shutdown(wait=True, kill_workers=True)

    def end(self) -> None:
        """Stop for good, whatever the thread that calls is doing."""
        self.ended = True
        self.stop()

    def begin(self) -> None:
        """Start the process, and do not wait for it."""
        if self.executor is None:
            self.executor, self.ready = _executor(), None
        if self.ready is None:
            with _pathless():
                self.ready = self.executor.submit(os.getpid)

    def fork(self) -> None:
        """Start the process as a copy of this one, which need not import anything; those that replace it are new."""
        self.executor, self.ready = _executor(), None
        context = self.executor._context
        self.executor._context = get_context("fork")
        try:
            with warnings.catch_warnings():  # Python counts threads of BLAS too, which stop while a process is copied
                warnings.simplefilter("ignore", DeprecationWarning)
                self.executor._adjust_process_count()
        finally:
            self.executor._context = context

    def _start(self, patience: float | None) -> Any:
        """Wait for the process: starting and importing count for nobody's limit, but end with the time of the pool."""
        self.begin()
        self.ready.result(timeout=patience)
        return self.executor


def _can_fork() -> bool:
    """Whether processes may start as copies of this one: on Linux, and not while another thread may hold a lock."""
    return sys.platform == "linux" and threading.active_count() == 1


def _executor() -> Any:
    """Return an executor of one process, which is not started yet."""
    from joblib.externals.loky import ProcessPoolExecutor

    # A process that has grown is replaced, which does no harm but is said in a warning.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
    with _pathless():
        return ProcessPoolExecutor(max_workers=1, initializer=_prepare, initargs=(os.getpid(),), env=pathless())


@contextlib.contextmanager
def _pathless() -> Iterator[None]:
    """Keep the current folder off the path of the process that loky starts beside the workers, too."""
    with _STARTING:
        before = {name: os.environ.get(name) for name in pathless()}
        os.environ.update(pathless())
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


@cache
def end_with(parent: int) -> None:
    """End this process when its parent has died, which a killed parent cannot do itself.

    A thread looks every second. Linux could send a signal instead (PR_SET_PDEATHSIG), but it counts the end of the
    thread that started the process as the death of the parent.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _prepare(parent: int) -> None:
    from joblib.externals.loky import process_executor

    # loky replaces a process that has grown by 100 MB since its first piece of work, which compiled code alone takes.
    process_executor._MAX_MEMORY_LEAK_SIZE = GROWN
    for name in ("SIGTERM", "SIGHUP"):  # a copy of the command would raise an exception, as the command does
        if callable(signal.getsignal(number := getattr(signal, name, signal.SIGTERM))):
            signal.signal(number, signal.SIG_DFL)
    end_with(parent)
    import mtlrun.data.load
    import mtlrun.runs.fit  # noqa: F401


def run_on_dask(
    function: Callable[..., Any], units: Iterable[Unit], scheduler: str | None, jobs: int | None = None
) -> Generator[Result, None, None]:
    """Yield (tag, Outcome) for every (tag, arguments), as they are finished.

    joblib's own Dask backend is not used here: it waits for ever for a piece of work that Dask has given up.

    Parameters
    ----------
    function : callable
        Importable on the workers.
    units : iterable
        Taken from one by one, while earlier ones run. What a dead worker had in hand is done by another one. A piece
        with which more workers died than Dask allows (``distributed.scheduler.allowed-failures``) is tried once more
        with nothing beside it, at the end: it may have been the victim of its neighbour. Then it is a failed outcome.
    scheduler : str or None
        Address; None starts a cluster of processes on this machine, for this call only.
    jobs : int, optional
        Pieces in flight, or processes of the cluster on this machine; None or -1: as many as there are workers, or
        cores.

    Raises
    ------
    ConfigError
        If distributed is not installed, no scheduler answers or it is lost on the way, it has no worker, a worker runs
        several threads or has other sources of mtlrun: one that is there at the start, or that joins later.
    """
    ours = sources()
    limit = MOST if jobs in (None, -1) else jobs
    flying: set[Any] = set()

    def call(arguments: tuple[Any, ...]) -> Outcome:
        future = client.submit(_on_worker, ours, function, arguments, pure=False)
        flying.add(future)
        try:
            result = future.result()
        except Exception as error:
            return _outcome(error)
        finally:
            flying.discard(future)
        if isinstance(result, str):
            raise _other_sources(result)
        return result

    def cancel() -> None:
        client.cancel([*flying])

    with _client(scheduler, jobs) as client:
        suspects: list[Unit] = []
        try:
            for unit, outcome in spread(units, call, lambda: min(_workers(client), limit or 1), cancel):
                if outcome.error == DIED:
                    suspects.append(unit)
                else:
                    yield unit[0], outcome
            for unit, outcome in spread(suspects, call, lambda: 1, cancel):
                yield unit[0], outcome
        except OSError:
            remedy = "Finished cells are kept. Restart the scheduler and its workers, then run the command again."
            raise ConfigError(f"the connection to the Dask scheduler {scheduler or ''} was lost", remedy) from None


def _on_worker(ours: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome | str:
    """Do a piece of work, or return the address of this worker, which has other sources: it may have joined late."""
    from distributed import get_worker

    return attempt_alone(1, function, *arguments) if sources() == ours else str(get_worker().address)


def _other_sources(worker: str) -> ConfigError:
    remedy = "Install the same version there and restart the worker. Finished cells are kept."
    return ConfigError(f"the Dask worker {worker} has a different version of the mtlrun sources", remedy)


def _outcome(error: Exception) -> Outcome:
    """Return the outcome of a piece of work that Dask could not do; what `attempt` meets are outcomes already.

    Raises
    ------
    ConfigError
        If a worker does not know our functions: its mtlrun is another one.
    OSError
        If the scheduler is gone.
    """
    kind = type(error).__name__
    if isinstance(error, ImportError | AttributeError):
        raise _other_sources(f"({kind}: {error})")
    if "Cancelled" in kind or isinstance(error, OSError | TimeoutError):
        raise OSError(str(error))
    return Outcome(FAILED, error=DIED if kind == "KilledWorker" else f"Dask: {kind}: {error}"[:200])


@contextlib.contextmanager
def _client(scheduler: str | None, jobs: int | None) -> Iterator[Any]:
    try:
        from distributed import Client  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise ConfigError(
            "--backend dask needs the package distributed", "Install it with: pip install '.[distributed]'"
        ) from None
    n_workers = None if jobs == -1 else jobs
    local = {} if scheduler else {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None}
    try:
        client = Client(scheduler, timeout=PATIENCE, **local)
    except (OSError, ValueError) as error:
        if scheduler is None:
            raise ConfigError(f"--backend dask: no workers could be started on this machine ({error})") from None
        remedy = "Start one with: dask scheduler, or correct the address"
        raise ConfigError(f"--scheduler {scheduler}: no Dask scheduler answered ({error})", remedy) from None
    with client:
        _check(client, scheduler)
        yield client


def _check(client: Any, scheduler: str | None) -> None:
    """Refuse a cluster that would compute other numbers than this machine."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        remedy = f"Start one on any machine: dask worker {scheduler} --nthreads 1"
        raise ConfigError(f"the Dask scheduler {scheduler} has no worker", remedy) from None
    ours = sources()
    for worker, theirs in client.run(sources, on_error="return").items():
        if theirs != ours and not isinstance(theirs, OSError):  # an OSError: it has just died
            raise _other_sources(worker)


def _workers(client: Any) -> int:
    """Return how many workers there are now, each of one thread."""
    threads = client.nthreads().values()
    if max(threads, default=1) > 1:
        # BLAS threads and warnings are set for a whole process, not for a thread.
        remedy = "Start the workers with: dask worker ADDRESS --nthreads 1 --nworkers N"
        raise ConfigError(f"a Dask worker runs {max(threads)} threads, but must run one", remedy)
    return len(threads)


@cache
def sources() -> str:
    """Return a sha256 of all modules of the package, as they were when a process was first asked.

    What the key of a cell says of the code then holds on workers, too.
    """
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()


# ---------------------------------------------------------------------- what a worker does with a cell


def compute_cells(cells: Sequence[tuple[Cell, dict[str, Any] | None]], data_dir: str | None) -> list[Outcome]:
    """Compute cells, with the parameters that their searches chose, one after the other."""
    return [attempt(compute_cell, cell, chosen, data_dir) for cell, chosen in cells]


def compute_cell(cell: Cell, chosen: dict[str, Any] | None, data_dir: str | None) -> tuple[Record, Any]:
    """Compute a cell in a worker; return its record, and the test scores where the cell keeps them."""
    data = None
    if cell.dataset is not None:
        data = loaded(cell.dataset.id, canonical_json(cell.dataset.options), cell.dataset.fingerprint, data_dir)
    from mtlrun.runs.fit import fit_cell, measure_cell, score_candidates  # with all of scikit-learn

    if cell.family == MEASURE:
        return measure_cell(cell, data), None
    assert data is not None
    if cell.family == FOLD:
        return score_candidates(cell, data), None
    fitted = fit_cell(cell, data, chosen)
    return fitted.record, fitted.scores if "predictions" in cell.scoring.keep else None


@lru_cache(maxsize=2)
def loaded(name: str, options: str, fingerprint: str, data_dir: str | None) -> Any:
    """Return a data set, `options` being canonical JSON; the last two stay in memory.

    Raises
    ------
    DataError
        If it is another one than that of the fingerprint.
    """
    from mtlrun.data.load import load_dataset

    found = load_dataset(name, data_dir=data_dir, **json.loads(options))
    if found.fingerprint != fingerprint:
        raise DataError(f"the files of {name} changed since the cells were planned", "Run the command again.")
    return found


# ---------------------------------------------------------------------- progress


class Progress:
    """What `run` tells while it computes; this one passes messages on, and shows nothing else.

    Parameters
    ----------
    say : callable, optional
        Called with every message.
    """

    def __init__(self, say: Callable[[str], object] = lambda _: None) -> None:
        self.say = say

    def start(self, total: int) -> None:
        """Begin the work: so many cells will be computed."""

    def message(self, text: str) -> None:
        """Show a line of text."""
        self.say(text)

    def begin(self, name: str) -> None:
        """Begin a cell."""

    def cell(self, name: str, status: str, seconds: float | None, note: str) -> None:
        """Finish a cell."""

    def stop(self) -> None:
        """End the work."""


class Plain(Progress):
    """One line per cell, without control characters.

    Parameters
    ----------
    stream : text file, default stderr
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(lambda text: print(text, file=self.stream, flush=True))
        self.stream = stream or sys.stderr
        self.total = self.done = 0

    def start(self, total: int) -> None:
        """Remember how many cells there are."""
        self.total, self.done = total, 0

    def cell(self, name: str, status: str, seconds: float | None, note: str) -> None:
        """Print the line of a finished cell."""
        self.done += 1
        self.message(cell_line(self.done, self.total, name, status, seconds, note))


class Live(Plain):
    """A progress bar with the current cell and the time left; above it, only failures and messages.

    Parameters
    ----------
    stream : text file, default stderr
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        super().__init__(stream)
        columns = (
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
        )
        self.bar = Bar(*columns, console=Console(file=self.stream), transient=True)
        self.task = self.bar.add_task("", total=None)

    def start(self, total: int) -> None:
        """Show the bar."""
        super().start(total)
        self.bar.reset(self.task, total=total)
        self.bar.start()

    def message(self, text: str) -> None:
        """Print a line above the bar."""
        self.bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, name: str) -> None:
        """Show which cell is being computed."""
        self.bar.update(self.task, description=name)

    def cell(self, name: str, status: str, seconds: float | None, note: str) -> None:
        """Move the bar, and print the line of a cell that did not go well."""
        self.bar.advance(self.task)
        if status in ("ok", "done"):
            self.done += 1
        else:
            super().cell(name, status, seconds, note)

    def stop(self) -> None:
        """Take the bar away."""
        self.bar.stop()


def make_progress(*, quiet: bool = False, stream: TextIO | None = None) -> Progress:
    """Return a suitable display: live on a terminal, plain for pipes, CI, NO_COLOR and dumb terminals."""
    if quiet:
        return Progress()
    target = stream or sys.stderr
    plain = os.environ.get("NO_COLOR") or os.environ.get("CI") or os.environ.get("TERM") == "dumb"
    return Plain(target) if plain or not target.isatty() else Live(target)


def cell_line(done: int, total: int, name: str, status: str, seconds: float | None, note: str) -> str:
    """Return ``[ 3/50] enron/APG-RMTL/trial 0  ok  1.24 s``."""
    width = len(str(total))
    took = "" if seconds is None else f"  {seconds:.2f} s" if seconds < 100 else f"  {seconds:.0f} s"
    return f"[{done:>{width}}/{total}] {name}  {status}{took}{f'  {note}' if note else ''}"
