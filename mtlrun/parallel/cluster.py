"""Run work items on the workers of a Dask cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from mtlrun.errors import ConfigError
from mtlrun.parallel.outcome import (
    MAX_PENDING_ITEMS,
    Outcome,
    Result,
    WorkItem,
    attempt_in_worker,
    run_concurrently,
)
from mtlrun.parallel.status import FAILED
from mtlrun.utils.io import sources

if TYPE_CHECKING:
    from distributed import (  # type: ignore[import-not-found,unused-ignore]
        Client,
        Future,
    )

#: Seconds to wait for the scheduler, and again for its first worker.
SCHEDULER_TIMEOUT_S = 30
#: Error message of a work item that Dask has given up.
WORKER_DIED_MESSAGE = (
    "the worker processes that computed it died, one after the other (out of memory?)"
)
#: Longest error message about Dask.
MAX_MESSAGE_LENGTH = 200


def run_on_dask(
    function: Callable[..., Any],
    items: Iterable[WorkItem],
    scheduler: str | None,
    n_jobs: int | None = None,
) -> Generator[Result, None, None]:
    """Run work items on a Dask cluster; yield (tag, Outcome) when an item has finished.

    The Dask backend of joblib is not used, because it waits forever for an item that
    Dask has given up.

    Another worker runs the item of a worker that died. Dask gives an item up when more
    workers died of it than ``distributed.scheduler.allowed-failures``. It may only have
    been the neighbor of the item that used up the memory, so it runs once more, alone,
    at the end. If its worker dies again, it has failed.

    Parameters
    ----------
    function : callable
        Importable on the workers.
    items : iterable
        Read one by one, while earlier items run.
    scheduler : str or None
        Address; None starts a cluster of processes on this machine for this call.
    n_jobs : int, optional
        Largest number of running items, or processes of the cluster on this machine.
        None or -1: as many as there are workers, or cores.

    Raises
    ------
    ConfigError
        If distributed is not installed, no scheduler answers, the connection to it is
        lost, it has no worker, or a worker runs several threads or other sources of
        mtlrun. Workers that join during the run are checked as well.
    """
    # The key of a job depends on the sources: workers must compute with the same ones.
    local_sources = sources()
    running: set[Future] = set()

    def call(arguments: tuple[Any, ...]) -> Outcome:
        future = client.submit(
            _attempt_on_dask, local_sources, function, arguments, pure=False
        )
        running.add(future)
        try:
            result = future.result()
        except Exception as error:
            # Dask could not run the item: `attempt` catches exceptions of the function.
            error_type = type(error).__name__
            if isinstance(error, ImportError | AttributeError):
                # The worker cannot import our functions: its mtlrun is another version.
                raise _source_mismatch_error(f"({error_type}: {error})") from error
            if "Cancelled" in error_type or isinstance(error, OSError | TimeoutError):
                # The connection to the scheduler is lost.
                raise OSError(str(error)) from error
            message = WORKER_DIED_MESSAGE
            if error_type != "KilledWorker":
                message = f"Dask: {error_type}: {error}"[:MAX_MESSAGE_LENGTH]
            return Outcome(FAILED, error=message)
        finally:
            running.discard(future)
        if isinstance(result, str):
            raise _source_mismatch_error(result)
        return result

    def cancel() -> None:
        client.cancel(list(running))

    def max_running() -> int:
        n_threads_by_worker = client.nthreads()
        max_threads = max(n_threads_by_worker.values(), default=1)
        if max_threads > 1:
            # Warning filters and the number of BLAS threads are settings of a process.
            raise ConfigError(
                f"a Dask worker runs {max_threads} threads, but must run one",
                "Start the workers with: dask worker ADDRESS --nthreads 1 --nworkers N",
            )
        n_workers = len(n_threads_by_worker)
        if n_jobs in (None, -1):
            return min(n_workers, MAX_PENDING_ITEMS)
        return min(n_workers, n_jobs or 1)

    with _dask_client(scheduler, n_jobs) as client:
        given_up: list[WorkItem] = []
        try:
            for item, outcome in run_concurrently(items, call, max_running, cancel):
                if outcome.error == WORKER_DIED_MESSAGE:
                    given_up.append(item)
                else:
                    yield item[0], outcome
            for item, outcome in run_concurrently(given_up, call, lambda: 1, cancel):
                yield item[0], outcome
        except OSError:
            raise ConfigError(
                f"the connection to the Dask scheduler {scheduler or ''} was lost",
                "Finished results are kept. Restart the scheduler and its workers, then "
                "run the command again.",
            ) from None


def _attempt_on_dask(
    expected_sources: str, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Outcome | str:
    """Run an item on a worker, or return the worker's address if its sources differ.

    `_check_cluster` cannot see workers that join after the start.
    """
    from distributed import get_worker

    if sources() != expected_sources:
        return str(get_worker().address)
    return attempt_in_worker(1, function, *arguments)


def _source_mismatch_error(worker: str) -> ConfigError:
    return ConfigError(
        f"the Dask worker {worker} has a different version of the mtlrun sources",
        "Install the same version there and restart the worker. "
        "Finished results are kept.",
    )


@contextlib.contextmanager
def _dask_client(scheduler: str | None, n_jobs: int | None) -> Iterator[Client]:
    """Connect to a cluster whose workers compute the same numbers as this machine."""
    try:
        from distributed import Client
    except ImportError:
        raise ConfigError(
            "--backend dask needs the package distributed",
            "Install it with: pip install '.[distributed]'",
        ) from None
    cluster_options: dict[str, int | None] = {}
    if not scheduler:
        cluster_options = {
            "n_workers": None if n_jobs == -1 else n_jobs,
            "threads_per_worker": 1,
            "dashboard_address": None,
        }
    try:
        client = Client(scheduler, timeout=SCHEDULER_TIMEOUT_S, **cluster_options)
    except (OSError, ValueError) as error:
        if scheduler is None:
            raise ConfigError(
                f"--backend dask: no workers could be started on this machine ({error})"
            ) from None
        raise ConfigError(
            f"--scheduler {scheduler}: no Dask scheduler answered ({error})",
            "Start one with: dask scheduler, or correct the address",
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=SCHEDULER_TIMEOUT_S)
        except TimeoutError:
            raise ConfigError(
                f"the Dask scheduler {scheduler} has no worker",
                f"Start one on any machine: dask worker {scheduler} --nthreads 1",
            ) from None
        local_sources = sources()
        sources_by_worker = client.run(sources, on_error="return")
        for worker, worker_sources in sources_by_worker.items():
            # The result of a worker that has just died is an OSError.
            has_died = isinstance(worker_sources, OSError)
            if worker_sources != local_sources and not has_died:
                raise _source_mismatch_error(worker)
        yield client
