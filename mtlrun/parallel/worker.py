"""Worker processes on this machine: started early, limited in time, never orphaned.

On Linux, a server process imports the package once and forks a worker at each request
(`serve_forks`): a worker is ready within milliseconds. The server has no other threads
of Python and nothing of the user's program, so a fork is safe, whatever the program
does. On other systems, every worker is a process that imports the package
(`serve_pipes`).

A message is its length, in 8 bytes, and a pickled object. The first message of a worker
is its process id; it says that the worker is ready.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import IO

from mtlrun.parallel.outcome import Outcome, attempt, seconds_left
from mtlrun.parallel.status import FAILED, TIMEOUT
from mtlrun.problem.memory import resident_bytes
from mtlrun.utils.plugins import pathless

#: Modules that processes import before they are ready: everything that jobs need.
PRELOADED_MODULES = ("mtlrun.data.sets.load", "mtlrun.engine.fit")
#: Ctrl-C reaches all processes of a terminal. The command that started them ends them.
_START = """
import json, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
path, function, *modules = json.loads(sys.argv.pop())
sys.path[:] = path
import mtlrun.parallel.worker
getattr(mtlrun.parallel.worker, function)(modules)
"""
#: A worker process that has grown by more bytes than this is replaced.
WORKER_MAX_GROWTH_BYTES = 1 << 30
#: Seconds between looks at whether the parent process still exists.
PARENT_CHECK_S = 1
#: Requests to the server: fork a worker for the socket that comes with the request, or
#: wait for the end of the worker whose process id follows in 8 bytes.
FORK = b"F"
WAIT = b"W"


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
    """Start a function of this module in a new process.

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


# ------------------------------------------------------- inside a worker process


def dumps(value: object) -> bytes:
    """Pickle an object, even if it is defined in a script or a notebook."""
    from joblib import wrap_non_picklable_objects

    return pickle.dumps(wrap_non_picklable_objects(value, keep_wrapper=False))


def send(stream: IO[bytes], payload: bytes) -> None:
    """Send a message."""
    stream.write(len(payload).to_bytes(8, "big"))
    stream.write(payload)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """Return the next message.

    Raises
    ------
    EOFError
        If the other process has ended.
    """
    header = stream.read(8)
    length = int.from_bytes(header, "big")
    payload = stream.read(length)
    if len(header) < 8 or len(payload) < length:
        raise EOFError
    return payload


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Work as a worker until the requests end.

    A reply is the outcome, and whether the process should be replaced: it has grown too
    much since its first item.
    """
    end_with(os.getppid())
    send(replies, dumps(os.getpid()))
    first_size: int | None = None
    while True:
        try:
            request = receive(requests)
        except EOFError:
            return
        outcome = attempt(_call, request)
        if isinstance(outcome.value, Outcome):
            outcome = outcome.value
        # The request may hold a table, which the next one need not find in memory.
        del request
        size = resident_bytes()
        if first_size is None:
            first_size = size
        has_grown = size - first_size > WORKER_MAX_GROWTH_BYTES
        reply = attempt(dumps, (outcome, has_grown))
        # An outcome that cannot be pickled is a failure of this item only.
        payload = reply.value or dumps((reply, has_grown))
        send(replies, payload)


def _call(request: bytes) -> Outcome:
    function, arguments = pickle.loads(request)
    return function(*arguments)


def serve_pipes(modules: list[str]) -> None:
    """Import modules, then work as a worker on standard input and standard output."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    # Text that a job prints must not end up among the replies.
    os.dup2(2, 1)
    _prepare(modules)
    serve(requests, replies)


def serve_forks(modules: list[str]) -> None:
    """Import modules, then fork a worker at each request on standard input, a socket.

    Ends when the process that started it has ended.
    """
    parent_pid = os.getppid()
    control = socket.socket(fileno=os.dup(0))
    _prepare(modules)
    # The memory that workers share with this process stays shared.
    gc.freeze()
    while os.getppid() == parent_pid:
        if not select.select([control], [], [], PARENT_CHECK_S)[0]:
            continue
        request, descriptors, _, _ = socket.recv_fds(control, 9, 1)
        if not request:
            return
        if request == FORK:
            _fork_worker(control, descriptors[0])
        else:
            pid = int.from_bytes(request[len(WAIT) :], "big")
            _, status = os.waitpid(pid, 0)
            exit_code = os.waitstatus_to_exitcode(status)
            control.sendall(exit_code.to_bytes(8, "big", signed=True))


def _fork_worker(control: socket.socket, descriptor: int) -> None:
    """Start a worker that serves a socket."""
    with warnings.catch_warnings():
        # Python warns of other threads. These are threads of BLAS, which pause while a
        # process is copied.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(descriptor)
        return
    try:
        control.close()
        connection = socket.socket(fileno=descriptor)
        with contextlib.suppress(BrokenPipeError):
            serve(connection.makefile("rb"), connection.makefile("wb"))
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(0)


def _prepare(modules: list[str]) -> None:
    """Close standard input to what is imported, then import modules."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    for name in modules:
        importlib.import_module(name)


@cache
def end_with(parent_pid: int) -> None:
    """End this process when its parent has died.

    A killed parent cannot end its children, so a thread looks for the parent every
    second. A signal of Linux (PR_SET_PDEATHSIG) does not replace it: it is also sent
    when only the thread that started this process ends.
    """

    def watch() -> None:
        while os.getppid() == parent_pid:
            time.sleep(PARENT_CHECK_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
