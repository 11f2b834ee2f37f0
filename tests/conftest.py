"""What holds for all tests."""

import itertools
import os
import shutil
import signal
import subprocess
import warnings
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import settings

# Tests are never timed: on a busy machine an example may take any time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# A shell starts programs in the background deaf to Ctrl-C, and those that they start inherit it: the tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# So does nohup with the signal of a closed terminal.
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option for thoroughness."""
    parser.addoption("--all-pairs", action="store_true", help="every method with every form of data and every check")


@pytest.fixture(autouse=True, scope="session")
def own_timing_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let timed cells of the tests wait for no other run on this machine, nor the other way round."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        yield


@pytest.fixture(scope="session")
def lacking() -> Callable[..., list[str]]:
    """Return those of the words that a message lacks: place, argument and remedy are asserted, not the prose."""
    return lambda message, *words: [word for word in words if word not in str(message)]


@pytest.fixture(scope="session")
def works() -> Callable[..., bool]:
    """Say whether a command is there and succeeds."""

    def run(*command: str) -> bool:
        found = shutil.which(command[0]) is not None
        return found and subprocess.run(command, capture_output=True, check=False).returncode == 0

    return run


@pytest.fixture(scope="session")
def own_mounts(works: Callable[..., bool]) -> list[str]:
    """Return what has to stand before a command so that it may mount, seen by nobody else."""
    for command in (["unshare", "-m"], ["unshare", "-Urm"]):
        if works(*command, "sh", "-c", "mount -t tmpfs tmpfs /mnt"):
            return command
    pytest.skip("no mount namespaces here: no disk can be made that is full")


@pytest.fixture
def killed() -> Callable[..., bool]:
    """Call a function in a process that is killed (SIGKILL) before its n-th call of some functions of `os`.

    ``killed(function, n, names)`` returns whether the process lived to see its n-th call.
    """

    def run(function: Callable[[], object], n: int, names: Sequence[str] = ("rename", "replace")) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads that a forked process lacks
            child = os.fork()
        if not child:
            try:
                _die_at(n, names)
                function()
                os._exit(0)
            finally:
                os._exit(1)
        status = os.waitpid(child, 0)[1]
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
        return os.WIFSIGNALED(status)

    return run


def _die_at(n: int, names: Sequence[str]) -> None:
    calls = itertools.count(1)

    def dying(call: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **options: object) -> object:
            if next(calls) == n:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **options)

        return step

    for name in names:
        setattr(os, name, dying(getattr(os, name)))
