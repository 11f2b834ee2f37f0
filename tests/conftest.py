"""Fixtures and markers of all tests."""

import ctypes
import faulthandler
import functools
import gc
import html
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
import types
import warnings
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer.main
import typer.testing
from hypothesis import settings
from matplotlib.figure import Figure

# Fixtures for several folders of tests, because pytest's import mode has no modules of
# tests.
sys.path.insert(0, str(Path(__file__).parent))
from covering import covering_combinations, spread_combinations
from installation import install  # noqa: F401
from internet import internet  # noqa: F401
from laboratory import lab  # noqa: F401
from limits import cache_memory, free_memory, preload  # noqa: F401
from run_folders import folder_maker, maker  # noqa: F401

from mtlrun.show import drawing

# Property tests use the same few examples in each run; with --all-pairs they use many,
# and different ones each time. They have no deadline: on a busy machine an example may
# take any time.
settings.register_profile("few", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("many", deadline=None, max_examples=400)

# As in `mtlrun.__main__`: the collected tests are 100,000 objects that live until the
# end.
gc.set_threshold(10_000, 20, 50)

RESULTS = Path(__file__).parents[1] / "results"
#: Stored solutions of all methods, with the versions that computed them.
STORED_SOLUTIONS = Path(__file__).parent / "estimators" / "frozen.json"

#: A test of all methods runs with one in so many of the methods whose stored solutions
#: have not changed, and with as many as its other arguments have values; the next test
#: with others. With ``--all-pairs``, with all.
SETTLED_PER_TEST = 3

#: Time limit for a process to end, in seconds.
PATIENCE = 240

# A shell starts background programs with Ctrl-C ignored, and their children inherit
# this; the tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# nohup ignores the signal of a closed terminal in the same way.
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--all-pairs``, ``--fuzz-examples`` and ``--shuffle``."""
    text = "combine all forms of data and checks with all methods; more examples"
    parser.addoption("--all-pairs", action="store_true", help=text)
    text = "inputs per reader in tests/fuzz"
    parser.addoption("--fuzz-examples", type=int, default=10, help=text)
    text = "run the files in random order, and the tests of each file, with this seed"
    parser.addoption("--shuffle", type=int, metavar="SEED", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the number of examples of property tests, and find the settled methods."""
    settings.load_profile("many" if config.getoption("all_pairs") else "few")
    config.settled_methods = settled_methods(json.loads(STORED_SOLUTIONS.read_text()))


def settled_methods(stored: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the methods whose stored solutions have the current version."""
    from mtlrun.catalog.registry import METHODS

    present = {name: 1 + len(info.changes) for name, info in METHODS.items()}

    def is_current(case: str) -> bool:
        versions = stored.get(case, {}).get("versions", {})
        return bool(versions) and versions.items() <= present.items()

    return {
        name
        for name, info in METHODS.items()
        if all(is_current(f"{name}, {layout}") for layout in info.designs)
    }


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave the collected tests out of every later search for garbage."""
    gc.freeze()


@pytest.fixture(scope="module")
def few_trees() -> Iterator[None]:
    """Use 30 trees instead of 150 in the random forests of smooth models.

    For tests of the interface that all methods share: the trees take nine tenths of the
    time of a fit to a few rows. With 30 trees, each row is still out of bag in some.
    """
    number = "mtlrun.solvers.hierarchical.smooth_targets.N_TREES"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(number, 30)
        yield


@pytest.fixture
def watch_calls() -> Iterator[Callable[..., Callable[[], None]]]:
    """Return a function that passes the arguments of the calls of a function on.

    It watches this thread, and returns a function that ends this. The watched function
    runs as always, wherever it was imported.
    """
    actions = {}

    def note(frame: types.FrameType, event: str, _: object) -> None:
        if event == "call" and id(frame.f_code) in actions:
            actions[id(frame.f_code)](dict(frame.f_locals))

    def watch(
        function: Callable[..., Any], action: Callable[..., object]
    ) -> Callable[[], None]:
        actions[id(function.__code__)] = action
        sys.setprofile(note)
        return functools.partial(sys.setprofile, None)

    yield watch
    sys.setprofile(None)


def empty_svg(picture: Any, name: str) -> str:
    """Return a picture of a page without lines, with the text for screen readers."""
    return f'<svg role="img" aria-label="{html.escape(picture.alt)}"></svg>'


def empty_panels(picture: Any, name: str) -> list[str]:
    """Return the panels of a picture of a page without lines."""
    return [empty_svg(picture, name) for _ in picture.panels]


#: What draws, as the owner, the name and what most tests have in its place.
BLANK: list[tuple[Any, str, Callable[..., Any]]] = [
    (Figure, "draw", lambda figure, renderer: None),
    (drawing, "inline_svg", empty_svg),
    (drawing, "panel_svgs", empty_panels),
]
DRAWN = [(owner, name, getattr(owner, name)) for owner, name, _ in BLANK]


@pytest.fixture(autouse=True, scope="module")
def blank_figures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave figures blank, except in modules and tests with the marker ``rendered``.

    Rendering the figures of its page took half of the time of a comparison, and making
    their axes half of the rest. Other figures are made with all lines and texts, so
    that an error in making them is noticed.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("rendered") is None:
            for part in BLANK:
                patch.setattr(*part)
        yield


@pytest.fixture(autouse=True)
def rendered_figures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Render the figures of a test with the marker ``rendered``."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("rendered") is not None:
            for part in DRAWN:
                patch.setattr(*part)
        yield


@pytest.fixture(scope="session")
def find_settled_methods() -> Callable[..., set[str]]:
    """Return `settled_methods`."""
    return settled_methods


def methods_among(values: Iterable[object]) -> set[str]:
    """Return the methods among the arguments of a test: names, classes or models."""
    from mtlrun.catalog.registry import METHODS

    names = set()
    for value in values:
        if isinstance(value, str):
            names.add(value)
        elif isinstance(value, type):
            names.add(value.__name__)
        else:
            names.add(type(value).__name__)
    return names & set(METHODS)


def _names_of_arguments(marker: pytest.Mark) -> list[str]:
    """Return the arguments of a marker ``parametrize``."""
    names = marker.args[0]
    return names.replace(",", " ").split() if isinstance(names, str) else list(names)


def _left_out_combinations(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return the tests that the marker ``cover`` without arguments leaves out.

    It stands above several ``parametrize``, each of whose values stays.
    """
    tests: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        marker = item.get_closest_marker("cover")
        if marker is not None and not marker.kwargs:
            tests[item.nodeid.partition("[")[0]].append(item)
    left_out = set()
    for cases in tests.values():
        positions = []
        for marker in cases[0].iter_markers("parametrize"):
            names = _names_of_arguments(marker)
            # The same objects in all combinations, which need not be hashable.
            objects = [
                tuple(id(case.callspec.params[n]) for n in names) for case in cases
            ]
            numbers = {key: i for i, key in enumerate(dict.fromkeys(objects))}
            positions.append([numbers[key] for key in objects])
        combinations = list(zip(*positions, strict=True))
        n_times = cases[0].get_closest_marker("cover").args
        kept = spread_combinations(combinations, *n_times)
        for case, combination in zip(cases, combinations, strict=True):
            if combination not in kept:
                left_out.add(case)
    return left_out


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out what the marker ``every(n)`` leaves out, unless ``--all-pairs``.

    The first of every n combinations of a test's arguments stay, and all combinations
    of a method that is not settled. With ``every(n, others="slow")``, the others are
    slow tests: each of them may find what no other one does.
    """
    n_combinations: Counter[str] = Counter()
    kept = []
    left_out = []
    uncovered = set()
    if not config.getoption("all_pairs"):
        uncovered = _left_out_combinations(items)
    for item in items:
        if item in uncovered:
            left_out.append(item)
            continue
        marker = item.get_closest_marker("every")
        if marker is None or config.getoption("all_pairs"):
            kept.append(item)
            continue
        (n,) = marker.args
        test = item.nodeid.partition("[")[0]
        is_sampled = n_combinations[test] % n == 0
        n_combinations[test] += 1
        # Only tests with arguments have a callspec.
        callspec = getattr(item, "callspec", None)
        methods = methods_among(callspec.params.values() if callspec else ())
        is_kept = is_sampled or not methods <= config.settled_methods
        if not is_kept and marker.kwargs:
            item.add_marker(marker.kwargs["others"])
            is_kept = True
        (kept if is_kept else left_out).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)
    # Includes slow tests and tests deselected by -k.
    config.collected_tests = list(items)
    seed = config.getoption("shuffle")
    if seed is not None:
        # Tests of a file stay together, because they share fixtures.
        rng = random.Random(seed)
        paths = list(dict.fromkeys(item.path for item in items))
        rng.shuffle(paths)
        files = {path: position for position, path in enumerate(paths)}
        rng.shuffle(items)
        items.sort(key=lambda item: files[item.path])


def _committed() -> list[Path]:
    folders = (path.parent for path in RESULTS.glob("*/*/*/run.json"))
    return sorted(
        folder for folder in folders if "runs" not in folder.relative_to(RESULTS).parts
    )


def _name_of(value: object) -> str | None:
    """Return the class of an object; None for values that pytest names."""
    has_name = isinstance(value, str | int | float | type | None) or callable(value)
    return None if has_name else type(value).__name__


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize tests with the marker ``cover``, and with ``runs_together``:
    committed runs for `check_each`, by name.

    One fast case has all small runs. The other cases are slow: one per paper, and one
    for each of the largest runs. A full run is left out if there is a quick one, which
    has the same claims, methods and readers.
    """
    for marker in metafunc.definition.iter_markers("cover"):
        _parametrize_covering(metafunc, marker)
    if "runs_together" not in metafunc.fixturenames:
        return
    from mtlrun.engine.packed import PACKED

    groups: defaultdict[str, dict[str, dict[str, Path]]] = defaultdict(dict)
    for folder in _committed():
        if folder.name == "full" and folder.with_name("quick").exists():
            continue
        name = folder.relative_to(RESULTS).as_posix()
        size = (folder / PACKED).stat().st_size
        if size <= 10_000:
            group = "small"
        elif size <= 150_000:
            group = name.partition("/")[0]
        else:
            group = name
        groups[group][name] = {"committed_run": folder}
    cases = [
        pytest.param(runs, id=name, marks=[pytest.mark.slow] * (name != "small"))
        for name, runs in groups.items()
    ]
    metafunc.parametrize("runs_together", cases)


def _parametrize_covering(metafunc: pytest.Metafunc, marker: pytest.Mark) -> None:
    """Parametrize a test with ``cover(n_times, argument=values, ...)``.

    Methods that are new or have changed are combined with all values of the other
    arguments; with ``--all-pairs``, all are. Of settled methods, one in
    `SETTLED_PER_TEST` runs; each test begins with another one.
    """
    if not marker.kwargs:
        return  # Chosen among the combinations of several ``parametrize``, later.
    has_all = metafunc.config.getoption("all_pairs")
    settled = metafunc.config.settled_methods

    def is_complete(value: object) -> bool:
        return has_all or not methods_among([value]) <= settled

    values = {argument: list(options) for argument, options in marker.kwargs.items()}
    combinations = covering_combinations(values, *marker.args, is_complete=is_complete)
    cases = []
    occurring: set[tuple[str, str]] = set()
    n_settled = zlib.crc32(metafunc.function.__name__.encode())
    for combination in combinations:
        methods = methods_among(combination)
        is_settled = bool(methods) and methods <= settled
        others = {
            (argument, str(value))
            for argument, value in zip(values, combination, strict=True)
            if not methods_among([value])
        }
        is_sampled = n_settled % SETTLED_PER_TEST == 0 or not others <= occurring
        if not is_settled or has_all or is_sampled:
            cases.append(pytest.param(*combination))
            occurring |= others
        n_settled += is_settled
    metafunc.parametrize(tuple(values), cases, ids=_name_of)


@pytest.fixture(scope="session")
def committed_runs() -> list[Path]:
    """Return the folders of the committed runs."""
    return _committed()


@pytest.fixture(autouse=True, scope="session")
def own_timing_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make timed jobs of the tests independent of other runs on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        yield


@pytest.fixture(autouse=True, scope="session")
def commands_built_once() -> Iterator[None]:
    """Let `CliRunner` put the commands of an application together once.

    It did so in each of a thousand calls, which took nine tenths of most of them.
    Typer 0.29 has no public way; under another name each call does it again.
    """
    build_once = functools.cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", build_once, raising=False)
        yield


@pytest.fixture(scope="session")
def lacking() -> Callable[..., list[str]]:
    """Return the words that a message lacks: tests check location, argument and remedy,
    not the wording.
    """
    return lambda message, *words: [word for word in words if word not in str(message)]


@pytest.fixture(scope="session")
def works() -> Callable[..., bool]:
    """Return whether a command exists and succeeds."""

    def run(*command: str) -> bool:
        exists = shutil.which(command[0]) is not None
        return (
            exists
            and subprocess.run(command, capture_output=True, check=False).returncode
            == 0
        )

    return run


class Forked:
    """A forked process that calls a function, used like `subprocess.Popen`; it need not
    import anything again.
    """

    #: Folder in which tests write modules, which the process has to import itself.
    folder_of_tests = ""

    def __init__(
        self,
        function: Callable[[], object],
        cwd: Path,
        environment: Mapping[str, str],
        own_group: bool = False,
    ) -> None:
        self.returncode: int | None = None
        self.streams = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115
        self.pid = _fork()
        if not self.pid:
            self._live(function, cwd, environment, own_group)

    def _live(
        self,
        function: Callable[[], object],
        cwd: Path,
        environment: Mapping[str, str],
        own_group: bool,
    ) -> NoReturn:
        """Imitate a new process: call the function and exit with its code."""
        code = 1
        try:
            signal.signal(
                signal.SIGINT, signal.default_int_handler
            )  # Undo what earlier tests have set.
            if own_group:
                os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number, stream in enumerate(self.streams, 1):
                os.dup2(stream.fileno(), number)
            sys.stdin = open(0, closefd=False)  # noqa: SIM115
            sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(environment)
            _forget_modules_below(self.folder_of_tests)
            faulthandler.dump_traceback_later(
                PATIENCE - 20, file=sys.stderr
            )  # Shows where a process hangs.
            function()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            for written in (sys.stdout, sys.stderr):
                written.flush()
            os._exit(code)

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self) -> int:
        """Wait for the process to end."""
        end = time.monotonic() + PATIENCE
        while (code := self.poll()) is None:
            assert time.monotonic() < end, self.said()
            time.sleep(0.01)
        return code

    def communicate(self) -> tuple[str, str]:
        """Wait for the process to end; return its stdout and stderr."""
        self.wait()
        return self.said()

    def said(self) -> tuple[str, str]:
        """Return stdout and stderr so far."""
        files = [stream.fileno() for stream in self.streams]
        # The process writes at the end of these files, so reading must not move the
        # position.
        out, err = (
            os.pread(file, os.fstat(file).st_size, 0).decode() for file in files
        )
        return out, err

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        self.send_signal(signal.SIGKILL)


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Threads do not exist in a forked process.
        return os.fork()


def _forget_modules_below(folder: str) -> None:
    """Forget the modules of a folder and the workers of the parent process."""
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(folder):
            del sys.modules[name]
    sys.path[:] = [path for path in sys.path if path and not path.startswith(folder)]
    loky = "joblib.externals.loky"
    if f"{loky}.reusable_executor" in sys.modules:
        sys.modules[f"{loky}.reusable_executor"]._executor = None
        tracker = sys.modules[f"{loky}.backend.resource_tracker"]._resource_tracker
        tracker._fd = tracker._pid = None


@pytest.fixture(scope="session")
def forked(tmp_path_factory: pytest.TempPathFactory) -> type[Forked]:
    """Return a function that forks: ``forked(function, cwd, environment)``."""

    Forked.folder_of_tests = str(tmp_path_factory.getbasetemp())
    return Forked


@pytest.fixture(scope="session")
def own_mounts(forked: Callable[..., Forked]) -> Callable[[], None]:
    """Return a function that lets a forked process mount file systems in private."""
    here = Path.cwd()

    def try_it() -> None:
        _enter_own_mounts()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=True)

    if sys.platform != "linux" or forked(try_it, here, os.environ).wait():
        pytest.skip("no mount namespaces here: no disk can be made that is full")
    return _enter_own_mounts


def _enter_own_mounts() -> None:
    libc, new_mounts, new_user = ctypes.CDLL(None, use_errno=True), 0x20000, 0x10000000
    if libc.unshare(new_mounts):
        maps = {
            "setgroups": "deny",
            "uid_map": f"0 {os.getuid()} 1",
            "gid_map": f"0 {os.getgid()} 1",
        }
        if libc.unshare(new_mounts | new_user):
            raise OSError(ctypes.get_errno(), "unshare")
        for name, content in maps.items():
            Path("/proc/self", name).write_text(content)
    if libc.mount(None, b"/", None, 0x44000, None):  # Makes all mounts below private
        raise OSError(ctypes.get_errno(), "mount")


@pytest.fixture
def killed() -> Callable[..., bool]:
    """Call a function in a process that is killed (SIGKILL) before its n-th call of
    some functions of `os`.
    """

    def run(
        function: Callable[[], object],
        n: int,
        names: Sequence[str] = ("rename", "replace"),
    ) -> bool:
        child = _fork()
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


class Package:
    """Create the package `own` in a folder on the path."""

    def __init__(self, root):
        self.root = root
        self.write("__init__.py", "")

    def write(self, name, text):
        """Write a file of the package and forget its imported modules."""
        path = self.root / "own" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        forget()
        return path


def forget():
    for name in [n for n in sys.modules if n.partition(".")[0] == "own"]:
        del sys.modules[name]


@pytest.fixture
def own_package(tmp_path, monkeypatch):
    """Create a package `own` whose module `models` imports `helper`."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    package = Package(tmp_path)
    package.write(
        "models.py",
        '''
        """Models of the user."""
        from own.helper import shrink

        class Ridge:
            """A model."""

            def __init__(self, alpha=1.0, *, slow=False):
                self.alpha, self.slow = alpha, slow

            def fit(self, X, y):
                """Solve."""
                return shrink(self.alpha)
        ''',
    )
    package.write("helper.py", "def shrink(alpha):\n    return 1.0 * alpha\n")
    yield package
    forget()


@pytest.fixture
def judge() -> Callable[..., None]:
    """Fail if numbers change without the versions of their code, or the reverse."""
    from mtlrun.lab.verify import ALL_DIGITS, digits_of

    def compare(name, stored, present, asked=6, agrees=None):
        before, after = stored["numbers"], present["numbers"]
        if agrees is None:
            digits = {
                key: digits_of(before.get(key), after.get(key))
                for key in {**before, **after}
            }
            worst = min(digits, key=digits.get, default="")
            agrees, seen = (
                digits.get(worst, ALL_DIGITS) >= asked,
                f"{digits.get(worst, 0):.1f} digits of {worst} agree",
            )
        else:
            seen = "other numbers than those stored"
        if stored["versions"] == present["versions"]:
            remedy = "raise the version of what changed, with a reason (`changes`), or mend the change"
            assert agrees, (
                f"{name}: {seen}, and all versions are still {present['versions']}: {remedy}"
            )
        else:
            remedy = (
                "take the raised version back"
                if agrees
                else "store its numbers: run this file with --write"
            )
            pytest.fail(
                f"{name}: {stored['versions']} became {present['versions']}, {seen}: {remedy}"
            )

    return compare
