"""The inside of a worker process: receive work items, call their functions, send
outcomes.

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
import os
import pickle
import select
import socket
import sys
import threading
import time
import warnings
from functools import cache
from typing import IO

from mtlrun.parallel.outcome import Outcome, attempt
from mtlrun.problem.memory import resident_bytes

#: A worker process that has grown by more bytes than this is replaced.
WORKER_MAX_GROWTH_BYTES = 1 << 30
#: Seconds between looks at whether the parent process still exists.
PARENT_CHECK_S = 1
#: Requests to the server: fork a worker for the socket that comes with the request, or
#: wait for the end of the worker whose process id follows in 8 bytes.
FORK = b"F"
WAIT = b"W"


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
