"""Temporary files of dead processes are removed, and those of living ones are not."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mtlrun.utils.temporary import (
    PROCESS_TOKEN,
    is_leftover,
    temporary_file,
    temporary_folder,
    tidy_folders,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pids of POSIX systems")

HOST = socket.gethostname()[:64]
#: Writes a file and a folder until its input ends.
WRITER = """
import sys
from pathlib import Path
from mtlrun.utils.temporary import temporary_file, temporary_folder
folder = Path(sys.argv[1])
with temporary_file(folder) as file, temporary_folder(folder) as subfolder:
    print(file.name, subfolder.name, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def dead_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def writer(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    names = process.stdout.readline().split()
    yield process, [tmp_path / name for name in names]
    process.kill()
    process.communicate()


def test_files_of_a_killed_process_are_removed(tmp_path, writer):
    process, paths = writer
    tidy_folders(tmp_path)
    assert all(path.exists() for path in paths)
    process.kill()
    process.communicate()
    tidy_folders(tmp_path)
    assert not any(path.exists() for path in paths)


def test_files_of_a_process_in_another_container_stay(tmp_path, writer, dead_pid):
    # A container with the same host name does not see the process: for it, the pid of
    # the file is that of no process.
    process, paths = writer
    renamed = []
    for path in paths:
        name = path.name.replace(f"-{process.pid}-", f"-{dead_pid}-")
        renamed.append(path.rename(path.with_name(name)))
    tidy_folders(tmp_path)
    assert all(path.exists() for path in renamed)
    process.kill()
    process.communicate()
    tidy_folders(tmp_path)
    assert not any(path.exists() for path in renamed)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("{host}-{dead}-t0123456789ab-x", True),
        ("{host}-{dead}-x", True),  # Earlier versions wrote no token.
        ("{host}-{self}-t0123456789ab-x", True),  # An earlier process with this pid.
        ("{host}-{self}-{token}-x", False),
        ("{host}-{self}-x", False),
        ("elsewhere-{dead}-t0123456789ab-x", False),
        ("{host}-99999999999999999999-x", True),
        ("mine", False),
    ],
)
def test_leftovers_are_recognized_by_their_names(tmp_path, dead_pid, name, expected):
    values = {"self": os.getpid(), "dead": dead_pid, "token": PROCESS_TOKEN}
    path = tmp_path / f".{name.format(host=HOST, **values)}.tmp"
    path.write_text("half")
    assert is_leftover(path) == expected


def test_two_processes_never_use_the_same_name(tmp_path):
    code = "from mtlrun.utils.temporary import PROCESS_TOKEN as t; print(t)"
    command = [sys.executable, "-c", code]
    other = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    with temporary_file(tmp_path) as file, temporary_folder(tmp_path) as folder:
        assert PROCESS_TOKEN in file.name
        assert PROCESS_TOKEN in folder.name
        assert other.strip() not in (file.name, folder.name)
        os.replace(file, tmp_path / "result")
    assert os.listdir(tmp_path) == ["result"]


def test_a_link_among_temporary_files_is_removed_and_not_followed(tmp_path, dead_pid):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/key").write_text("secret")
    (tmp_path / "folder").mkdir()
    link = tmp_path / f"folder/.{HOST}-{dead_pid}-x.tmp"
    link.symlink_to(tmp_path / "outside")
    tidy_folders(tmp_path / "folder")
    assert not link.is_symlink()
    assert Path(tmp_path / "outside/key").read_text() == "secret"
