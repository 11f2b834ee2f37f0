"""Files of a folder replaced at once: kills at every step, foreign files, two writers,
folders from elsewhere.
"""

import os
import shutil
import socket
import subprocess
import sys
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from mtlrun.utils.outputs import FILES, OBSOLETE, READY, finish, publish

OLD = {"a.txt": "old", "sub/b.txt": "old", "sub/gone.txt": "old"}
NEW = {"a.txt": "new", "sub/b.txt": "new", "more/c.txt": "new"}
FOREIGN = {"notes.txt": "mine", "sub/notes.txt": "mine"}


def put(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def content(folder):
    return {
        str(p.relative_to(folder)): p.read_text()
        for p in folder.rglob("*")
        if p.is_file()
    }


def replace_all(folder):
    with publish(folder, obsolete=["sub/gone.txt", "a.txt", "never/there.txt"]) as new:
        put(new, NEW)


def test_new_files_appear_obsolete_ones_disappear_and_others_stay(tmp_path):
    put(tmp_path / "deep/place", OLD | FOREIGN)
    before = os.stat(tmp_path / "deep/place").st_ino
    replace_all(tmp_path / "deep/place")
    assert content(tmp_path) == {
        f"deep/place/{name}": text for name, text in (NEW | FOREIGN).items()
    }
    assert (
        os.stat(tmp_path / "deep/place").st_ino == before
    )  # A shell or a mount may use it.
    replace_all(tmp_path / "another/place")
    assert content(tmp_path / "another/place") == NEW


def test_a_block_that_raises_changes_nothing(tmp_path):
    put(tmp_path, OLD | FOREIGN)
    with pytest.raises(ZeroDivisionError), publish(tmp_path, obsolete=["a.txt"]) as new:
        put(new, {**NEW, "sub": 1 / 0})
    assert content(tmp_path) == OLD | FOREIGN


@pytest.mark.slow
def test_a_kill_at_any_step_leaves_the_old_files_or_the_new_ones(tmp_path, killed):
    seen = []
    for n in count(1):
        folder = tmp_path / str(n)
        put(folder, OLD | FOREIGN)
        dead = killed(
            partial(replace_all, folder),
            n,
            ("rename", "replace", "unlink", "mkdir", "rmdir", "fsync"),
        )
        finish(folder)
        actual = {
            name: text
            for name, text in content(folder).items()
            if not name.startswith(".")
        }
        assert actual in (OLD | FOREIGN, NEW | FOREIGN), n
        seen.append(actual == NEW | FOREIGN)
        replace_all(folder)
        assert content(folder) == NEW | FOREIGN, n
        # Leftovers of the killed process are removed.
        assert not list(folder.rglob(".*")), n
        if not dead:
            break
    assert seen == sorted(seen)  # A single step decides.
    assert seen.count(False) > 5
    assert seen.count(True) > 5


@pytest.mark.slow
def test_if_a_process_is_killed_while_completing_another_the_next_one_completes_it(
    tmp_path, killed
):
    put(tmp_path / "start", OLD | FOREIGN)
    decided = next(
        n
        for n in count(1)
        if _decided(tmp_path / "start", tmp_path / str(n), killed, n)
    )
    for n in count(1):
        folder = tmp_path / f"again{n}"
        shutil.copytree(tmp_path / str(decided), folder)
        dead = killed(
            partial(finish, folder),
            n,
            ("rename", "replace", "unlink", "mkdir", "rmdir"),
        )
        finish(folder)
        assert content(folder) == NEW | FOREIGN, n
        if not dead:
            break
    assert n > 3


def _decided(start, folder, killed, n):
    shutil.copytree(start, folder)
    assert killed(lambda: replace_all(folder), n, ("rename", "replace"))
    return (folder / READY).is_dir()


def test_of_two_simultaneous_writers_the_later_one_wins_with_all_its_files(tmp_path):
    with publish(tmp_path) as first:
        put(first, {"a": "1", "b": "1"})
        with publish(tmp_path) as second:
            put(second, {"a": "2", "b": "2", "c": "2"})
        assert content(tmp_path) | {"a": "2"} == content(tmp_path)
    assert {k: v for k, v in content(tmp_path).items() if k in "ab"} == {
        "a": "1",
        "b": "1",
    }


@pytest.mark.parametrize("name", ["a.txt", "sub"])
def test_a_folder_or_a_file_in_the_way_is_rejected_before_anything_is_moved(
    tmp_path, name
):
    put(tmp_path, {"z.txt": "old"})
    (tmp_path / "a.txt").mkdir() if name == "a.txt" else (tmp_path / "sub").write_text(
        "a file"
    )
    with pytest.raises(OSError, match=name), publish(tmp_path) as new:
        put(new, {"a.txt": "new", "sub/b.txt": "new", "z.txt": "new"})
    assert (tmp_path / "z.txt").read_text() == "old"
    assert not (tmp_path / READY).exists()


def test_temporary_files_of_living_processes_stay(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead = [
        f".{socket.gethostname()}-{gone.pid}-ab.tmp",
        f"sub/.{socket.gethostname()}-{gone.pid}-cd.tmp",
    ]
    alive = [
        f".{socket.gethostname()}-{os.getpid()}-ab.tmp",
        ".elsewhere-1-ab.tmp",
        "sub/.mine.tmp",
    ]
    put(tmp_path, dict.fromkeys([*dead, *alive], "half"))
    replace_all(tmp_path)
    assert content(tmp_path) == NEW | dict.fromkeys(alive, "half")


@pytest.mark.parametrize("trap", ["ready", "files", "between", "obsolete", "absolute"])
def test_a_folder_from_elsewhere_moves_and_deletes_nothing_outside(tmp_path, trap):
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    put(outside, {"files/key": "secret", "key": "secret"})
    put(folder / READY / FILES, {"sub/key": "forged"})
    ready = folder / READY
    if trap == "ready":
        shutil.rmtree(ready)
        ready.symlink_to(outside)
    elif trap == "files":
        shutil.rmtree(ready / FILES)
        (ready / FILES).symlink_to(outside)
    elif trap == "between":
        (folder / "sub").symlink_to(outside)
    else:
        name = "../outside/key" if trap == "obsolete" else str(outside / "key")
        (ready / OBSOLETE).write_text(name)
    if trap in ("ready", "files"):
        finish(folder)
    else:
        with pytest.raises(OSError, match="a link leads out of the folder"):
            finish(folder)
    assert content(outside) == {"files/key": "secret", "key": "secret"}


def test_a_relative_folder_and_the_current_folder_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in (Path("."), Path("here")):
        put(folder, OLD)
        replace_all(folder)
        assert (folder / "sub/b.txt").read_text() == "new"
