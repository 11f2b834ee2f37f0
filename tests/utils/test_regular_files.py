"""Only regular files are opened: no reader waits for a pipe or reads a device."""

import ast
import os
import re
import threading
from pathlib import Path

import pytest

import mtlrun
from mtlrun.engine.store import MAX_LOCK_BYTES, Store
from mtlrun.engine.stored import read_raw
from mtlrun.errors import DataError
from mtlrun.utils.io import IrregularFileError, open_regular, read_file, read_text_file
from mtlrun.utils.outputs import write_output
from mtlrun.utils.processes import exclusive_lock, is_locked

PACKAGE = Path(str(mtlrun.__file__)).parent
posix = pytest.mark.skipif(os.name != "posix", reason="files of POSIX systems")

#: Calls that open a file without checking its type
METHODS = ("read_text", "read_bytes", "resolve")
FUNCTIONS = ("open", "np.load", "np.loadtxt", "np.fromfile", "json.load")
#: Text of such a call; most files have none, and need not be parsed.
NAMES = {name.rpartition(".")[2] for name in (*METHODS, *FUNCTIONS)}
OPENING = re.compile(rf"\b(?:{'|'.join(NAMES)})\(")
#: Modules that may use them, and the reason
EXCEPTIONS = {
    "__main__.py": "the null device for standard streams that are closed",
    "cli/plot.py": "`Path.resolve`, for the name of a folder",
    "cli/train.py": "a file of the package",
    "model/task_lines.py": "`Path.resolve`, for the folder next to a model",
    "estimators/metadata.py": "a file of the package",
    "problem/memory.py": "files of /proc and /sys",
    "engine/environment.py": "/proc/cpuinfo",
    "show/page.py": "files of the package",
    "catalog/methods.py": "the list of files of an installed package",
    "comparison/result.py": "`DataFile.read_bytes`",
    "utils/outputs.py": "pipes and devices that the user named as outputs, and an example",
    "penalties/coupled.py": "`resolve` of a quadratic form",
    # Below data/ files are `DataFile`, which opens only regular files.
    "chunks/table.py": "`DataFile.open`",
    "chunks/stored.py": "files of this run, in a temporary folder of its own",
    "chunks/sums.py": "files of this run, in a temporary folder of its own",
    "chunks/predict.py": "new files of `replacing`",
    "chunks/summed.py": "new files of `replacing`",
    "utils/jitcache.py": "machine code in a folder that is private to the user",
    "data/sets/fetch.py": "`DataFile.open`, and a new file in a folder of its own",
}


def _last_name(function: ast.expr) -> str:
    """Return the part of a called name behind its last dot."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _calls(tree: ast.AST) -> list[str]:
    """Return the calls that open files, as source text."""
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _last_name(node.func) in NAMES
    ]
    names = [ast.unparse(call.func) for call in calls]
    opened_by_mode = [
        ast.unparse(call)
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "open"
        and any(isinstance(word, ast.Constant) for word in call.args)
        and not ast.unparse(call.func).startswith(("gzip.", "os.", "tarfile."))
    ]
    return opened_by_mode + [
        name
        for name in names
        if name in FUNCTIONS or ("." in name and name.rpartition(".")[2] in METHODS)
    ]


@pytest.mark.slow
def test_files_are_opened_by_open_regular():
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        in_data = name.startswith("data/")
        text = path.read_text(encoding="utf-8")
        if not OPENING.search(text):
            continue
        calls = _calls(ast.parse(text))
        if in_data:
            calls = [call for call in calls if not call.endswith(".read_bytes")]
        if name not in EXCEPTIONS:
            wrong += [f"{name}: {call}" for call in calls]
    assert not wrong


def test_the_check_above_detects_calls():
    tree = ast.parse('p.read_text(); open("a"); p.open("rb"); np.load(p); f.open()')
    assert len(_calls(tree)) == 4


@posix
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_device_is_rejected_at_once(tmp_path, kind):
    path = tmp_path / "a.json"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(IrregularFileError):
        open_regular(path)
    with pytest.raises(DataError, match=r"a\.json"):
        read_raw(path)


def test_a_folder_is_rejected(tmp_path):
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)


def test_text_is_read_with_plain_line_ends(tmp_path):
    (tmp_path / "a").write_bytes(b"1\r\n2\r3\n")
    assert read_text_file(tmp_path / "a") == "1\n2\n3\n"


@posix
def test_a_link_loop_is_not_a_valid_output(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="loop"):
        write_output(tmp_path / "loop", "text")


@posix
def test_a_pipe_is_not_a_valid_lock(tmp_path):
    os.mkfifo(tmp_path / "a.lock")
    assert not is_locked(tmp_path / "a.lock")
    with pytest.raises(IrregularFileError), exclusive_lock(tmp_path / "a.lock"):
        pass


@posix
def test_a_record_that_is_a_pipe_is_damaged(tmp_path):
    records = Store(tmp_path)
    records.cells_folder.mkdir()
    os.mkfifo(records.path("k"))
    with pytest.raises(ValueError, match=r"k\.json is damaged"):
        records.read("k")


def test_locks_for_long_names_are_short_and_different(tmp_path):
    folders = [tmp_path / ("a" * 125) / ("b" * 125) / end for end in ("full", "demo")]
    names = [Store(tmp_path, folder).lock.name for folder in folders]
    assert max(map(len, names)) <= MAX_LOCK_BYTES + len(".lock")
    assert len(set(names)) == 2
    assert Store(tmp_path, tmp_path / "a" / "b" / "c").lock.name == "a-b-c.lock"


@posix
def test_reading_a_pipe_with_a_writer_is_rejected_too(tmp_path):
    path = tmp_path / "p"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: os.close(os.open(path, os.O_RDWR)))
    writer.start()
    writer.join()
    with pytest.raises(IrregularFileError):
        read_file(path)
