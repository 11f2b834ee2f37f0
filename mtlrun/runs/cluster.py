"""Pieces of work on a Dask cluster: workers may die or come later, nothing is lost."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from mtlrun.errors import ConfigError
from mtlrun.record import FAILED
from mtlrun.runs.outcome import Outcome, Result, Unit, attempt_alone, in_flight

#: Seconds to wait for the scheduler, and for a first worker.
PATIENCE = 30
#: What is said of a piece of work that Dask has given up.
DIED = "the worker processes that did it died, one after the other (out of memory?)"


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
    limit = float("inf") if jobs in (None, -1) else jobs

    def width() -> int:
        return int(min(_workers(client), limit))

    with _client(scheduler, jobs) as client:
        suspects: list[Unit] = []
        try:
            for unit, outcome in _spread(client, function, iter(units), width):
                if outcome.error == DIED:
                    suspects.append(unit)
                else:
                    yield unit[0], outcome
            for unit, outcome in _spread(client, function, iter(suspects), lambda: 1):
                yield unit[0], outcome
        except OSError:
            remedy = "What is finished is kept. Start the scheduler and its workers again, then run the command again."
            raise ConfigError(f"the connection to the Dask scheduler {scheduler or ''} was lost", remedy) from None


def _spread(
    client: Any, function: Callable[..., Any], units: Iterator[Unit], width: Callable[[], int]
) -> Generator[tuple[Unit, Outcome], None, None]:
    """Yield (unit, Outcome), with at most `width()` of them in flight; OSError when the scheduler is gone."""
    from distributed import as_completed

    finished = as_completed([], raise_errors=False, with_results=True)
    ours = sources()

    def submit(unit: Unit) -> Any:
        future = client.submit(_on_worker, ours, function, unit[1], pure=False)
        finished.add(future)
        return future

    def wait(flying: Iterable[Any]) -> Iterable[tuple[Any, Any]]:
        return [next(finished)]

    for unit, future, result in in_flight(units, width, submit, wait, client.cancel):
        if future.status == "error":
            yield unit, Outcome(FAILED, error=_why(future.exception()))
        elif future.status != "finished":
            raise OSError(future.status)
        elif isinstance(result, str):
            raise _other_sources(result)
        else:
            yield unit, result


def _on_worker(ours: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome | str:
    """Do a piece of work, or return the address of this worker, which has other sources: it may have joined late."""
    from distributed import get_worker

    return attempt_alone(1, function, *arguments) if sources() == ours else str(get_worker().address)


def _other_sources(worker: str) -> ConfigError:
    remedy = "Install the same version there, and start the worker again. What is finished is kept."
    return ConfigError(f"the Dask worker {worker} has other sources of mtlrun", remedy)


def _why(error: Exception) -> str:
    """Return what is said of a piece of work that Dask could not do; that of `attempt` are outcomes.

    Raises
    ------
    ConfigError
        If a worker does not know our functions: its mtlrun is another one.
    """
    if isinstance(error, ImportError | AttributeError):
        raise _other_sources(f"({type(error).__name__}: {error})")
    return DIED if type(error).__name__ == "KilledWorker" else f"Dask: {type(error).__name__}: {error}"[:200]


@contextlib.contextmanager
def _client(scheduler: str | None, jobs: int | None) -> Iterator[Any]:
    try:
        from distributed import Client  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise ConfigError("--backend dask needs the package distributed", "pip install 'mtlrun[distributed]'") from None
    n_workers = None if jobs == -1 else jobs
    local = {} if scheduler else {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None}
    try:
        client = Client(scheduler, timeout=PATIENCE, **local)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--scheduler {scheduler}: no Dask scheduler answers ({error})") from None
    with client:
        _check(client, scheduler)
        yield client


def _check(client: Any, scheduler: str | None) -> None:
    """Refuse a cluster whose numbers would not be those of this machine."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        remedy = f"Start some, on any machine: dask worker {scheduler} --nthreads 1"
        raise ConfigError(f"the Dask scheduler {scheduler} has no worker", remedy) from None
    ours = sources()
    for worker, theirs in client.run(sources, on_error="return").items():
        if theirs != ours and not isinstance(theirs, OSError):  # an OSError: it has just died
            raise _other_sources(worker)


def _workers(client: Any) -> int:
    """Return how many workers there are now, each of one thread."""
    threads = client.nthreads().values()
    if max(threads, default=1) > 1:
        # Limits of BLAS threads and the collection of warnings belong to a process, not to a thread.
        remedy = "Start them with: dask worker ADDRESS --nthreads 1 --nworkers N"
        raise ConfigError(f"a Dask worker runs {max(threads)} threads; one is needed", remedy)
    return len(threads)


@lru_cache
def sources() -> str:
    """Return a sha256 of all modules of the package, as they were when a process was first asked.

    What the key of a cell says of the code then holds on workers, too.
    """
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()
