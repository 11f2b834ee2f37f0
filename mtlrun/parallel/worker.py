"""Worker processes on this machine: started early, limited in time, never orphaned.

These processes run `mtlrun.parallel.serving`.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from mtlrun.parallel.outcome import Outcome, seconds_left
from mtlrun.parallel.serving import FORK, WAIT, dumps, receive, send
from mtlrun.parallel.status import FAILED, TIMEOUT
from mtlrun.utils.plugins import pathless

#: Modules that processes import before they are ready: everything that jobs need.
PRELOADED_MODULES = ("mtlrun.data.sets.load", "mtlrun.engine.fit")
#: Ctrl-C reaches all processes of a terminal. The command that started them ends them.
_START = """
import json, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
path, function, *modules = json.loads(sys.argv.pop())
sys.path[:] = path
import mtlrun.parallel.serving
getattr(mtlrun.parallel.serving, function)(modules)
"""


class Process:
    """A running worker process.

    Attributes
    ----------
    is_ready : threading.Event
        Set when the process can work, or has ended.
    """

    def __init__(self, requests: IO[bytes], replies: IO[bytes]) -> None:
        self.requests = requests
        self.replies = replies
        self.is_ready = threading.Event()
        self.pid: int | None = None
        self._kill_lock = threading.Lock()
        self._is_killed = False

        def receive_pid() -> None:
            with contextlib.suppress(EOFError, OSError, ValueError):
                self.pid = pickle.loads(receive(replies))
            self.is_ready.set()

        threading.Thread(target=receive_pid, daemon=True).start()

    def exchange(self, request: bytes) -> tuple[Outcome, bool]:
        """Send a work item; return its outcome and whether the process has grown.

        Raises
        ------
        EOFError, OSError
            If the process ends before it replies.
        """
        send(self.requests, request)
        reply: tuple[Outcome, bool] = pickle.loads(receive(self.replies))
        return reply

    def kill(self) -> None:
        """Kill the process. It need not be ready; another thread may wait for it."""
        with self._kill_lock:
            if not self._is_killed:
                self._is_killed = True
                self._kill()

    def wait(self) -> int | None:
        """Wait for the end of a killed process.

        Returns
        -------
        int or None
            Exit code; negative: number of the signal that ended it; None: unknown.
        """
        raise NotImplementedError

    def _kill(self) -> None:
        raise NotImplementedError


class ForkedProcess(Process):
    """A worker that a `ForkServer` has forked."""

    def __init__(
        self, server: ForkServer, server_pid: int, connection: socket.socket
    ) -> None:
        self._server = server
        self._server_pid = server_pid
        self._connection = connection
        super().__init__(connection.makefile("wb"), connection.makefile("rb"))

    def _kill(self) -> None:
        # The process id stays reserved until the server waits for it. A process without
        # a known id has not started to work, and ends when it finds this end of the
        # connection closed.
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def wait(self) -> int | None:
        """Wait for the end of a killed process; return its exit code."""
        self.is_ready.wait()
        exit_code = None
        if self.pid is not None:
            exit_code = self._server.wait_for(self.pid, self._server_pid)
            self.pid = None
        with contextlib.suppress(OSError):
            self.requests.close()
        self.replies.close()
        self._connection.close()
        return exit_code


class ForkServer:
    """A process that imports the package once, and forks workers (on Linux).

    It starts with the first worker.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start_worker(self) -> Process:
        """Start a worker, without waiting for it."""
        here, there = socket.socketpair()
        with there, self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            assert self._process is not None
            assert self._control is not None
            server_pid = self._process.pid
            # If the server dies now, the worker counts as dead, too.
            with contextlib.suppress(OSError):
                socket.send_fds(self._control, [FORK], [there.fileno()])
        return ForkedProcess(self, server_pid, here)

    def wait_for(self, pid: int, server_pid: int) -> int | None:
        """Wait for the end of a worker; return its exit code.

        It is None where it is unknown: when the server that forked it has ended.
        """
        with self._lock, contextlib.suppress(OSError):
            is_running = self._process is not None and self._process.pid == server_pid
            if is_running and self._control is not None:
                self._control.sendall(WAIT + pid.to_bytes(8, "big"))
                answer = self._control.recv(8)
                if len(answer) == 8:
                    return int.from_bytes(answer, "big", signed=True)
        return None

    def close(self) -> None:
        """End the server, after its workers."""
        with self._lock:
            if self._process is not None and self._control is not None:
                self._process.kill()
                self._process.wait()
                self._control.close()
            self._process = None
            self._control = None

    def _start(self) -> None:
        if self._control is not None:
            self._control.close()
        # Packets keep requests apart.
        self._control, there = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with there:
            self._process = _start_python("serve_forks", stdin=there.fileno())


class SeparateProcess(Process):
    """A worker that has imported the package itself (where processes are not
    forked).
    """

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self._process = _start_python("serve_pipes", stdin=pipe, stdout=pipe)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        super().__init__(self._process.stdin, self._process.stdout)

    def _kill(self) -> None:
        self._process.kill()

    def wait(self) -> int | None:
        """Wait for the end of a killed process; return its exit code."""
        exit_code = self._process.wait()
        self.is_ready.wait()
        with contextlib.suppress(OSError):
            self.requests.close()
        self.replies.close()
        return exit_code


class Worker:
    """A process that runs one work item at a time and is killed at its time limit.

    The process starts with the first item, or earlier with `start`. After it was
    killed, died, or has taken too much memory, the next item starts a new one.

    Parameters
    ----------
    server : ForkServer or None
        Forks the process; None: it is a separate one.
    """

    def __init__(self, server: ForkServer | None = None) -> None:
        self.server = server
        self._process: Process | None = None
        self._lock = threading.Lock()
        self._has_ended = False

    @property
    def is_starting(self) -> bool:
        """Whether the process has been started and is not ready yet."""
        process = self._process
        return process is not None and not process.is_ready.is_set()

    def call(
        self,
        function: Callable[..., Outcome],
        *arguments: object,
        deadline: float | None = None,
        limit: float | None = None,
    ) -> Outcome:
        """Run a work item, and kill the process at its time limit or at a deadline.

        Parameters
        ----------
        function : callable
        *arguments
            Arguments of the function.
        deadline : float, optional
            Time of `time.monotonic` at which the process is killed.
        limit : float, optional
            Seconds that the item may take, once the process is ready. Only the deadline
            limits how long the process may take to start.
        """
        request = dumps((function, arguments))
        start_time = time.perf_counter()
        remaining = seconds_left(deadline)
        process = self.start()
        if process is None:
            return Outcome(FAILED, error="the worker process has been stopped")
        is_ready = process.is_ready.wait(remaining)
        if is_ready:
            start_time = time.perf_counter()
            remaining = seconds_left(deadline, limit)
        if not is_ready or (remaining is not None and remaining <= 0):
            self.kill()
            return _timeout(start_time, remaining)
        with _alarm(remaining, process.kill) as has_rung:
            try:
                outcome, has_grown = process.exchange(request)
            except (EOFError, OSError, ValueError):
                outcome = None
        if has_rung.is_set():
            self.kill()
            return _timeout(start_time, remaining)
        if outcome is None:
            exit_code = self.kill()
            cause = "how it ended is unknown"
            if exit_code is not None and exit_code >= 0:
                cause = f"it ended with exit code {exit_code}"
            elif exit_code is not None:
                name = f"signal {-exit_code}"
                with contextlib.suppress(ValueError):
                    name = signal.Signals(-exit_code).name
                cause = f"it was ended by {name}"
            error_message = f"the worker process died (out of memory?): {cause}"
            return Outcome(FAILED, error=error_message)
        if has_grown:
            self.kill()
        return outcome

    def kill(self) -> int | None:
        """Kill the process; return its exit code, None if it is unknown."""
        with self._lock:
            process = self._process
            self._process = None
        if process is None:
            return None
        process.kill()
        return process.wait()

    def close(self) -> None:
        """Kill the process for good, even while a thread waits for an item."""
        self._has_ended = True
        self.kill()

    def start(self) -> Process | None:
        """Start the process without waiting for it; return None after `close`."""
        with self._lock:
            if self._process is None and not self._has_ended:
                self._process = (
                    SeparateProcess()
                    if self.server is None
                    else self.server.start_worker()
                )
            return self._process


@contextlib.contextmanager
def _alarm(
    seconds: float | None, function: Callable[[], None]
) -> Iterator[threading.Event]:
    """Call a function, in a thread, unless the block ends within some seconds.

    Yields an event that is set when the function is called; final after the block.
    """
    has_rung = threading.Event()
    if seconds is None:
        yield has_rung
        return

    def ring() -> None:
        has_rung.set()
        function()

    timer = threading.Timer(seconds, ring)
    timer.start()
    try:
        yield has_rung
    finally:
        timer.cancel()
        timer.join()


def create_workers(n_workers: int) -> tuple[Worker, ...]:
    """Return workers whose processes start when they are needed."""
    server = None
    if sys.platform == "linux":
        server = ForkServer()
    return tuple(Worker(server) for _ in range(n_workers))


def close_workers(workers: Iterable[Worker]) -> None:
    """End workers, and the servers that forked them."""
    servers = set()
    for worker in workers:
        worker.close()
        servers.add(worker.server)
    for server in servers:
        if server is not None:
            server.close()


def _start_python(
    function: str, *, stdin: int, stdout: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a function of `mtlrun.parallel.serving` in a new process.

    It finds the modules that this process finds, but nothing in the current folder
    unless this process does: ``joblib.py`` there would be what it imports first.
    """
    path = []
    for folder in sys.path:
        with contextlib.suppress(FileNotFoundError):
            path.append(folder or os.getcwd())
    argument = json.dumps([path, function, *PRELOADED_MODULES])
    return subprocess.Popen(
        [sys.executable, "-c", _START, argument],
        stdin=stdin,
        stdout=stdout,
        env={**os.environ, **pathless()},
    )


def _timeout(start_time: float, limit: float | None) -> Outcome:
    elapsed_seconds = time.perf_counter() - start_time
    error_message = (
        f"stopped after {elapsed_seconds:.0f} s (limits.seconds: {limit or 0:g})"
    )
    return Outcome(TIMEOUT, error=error_message)
