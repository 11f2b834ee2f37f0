"""Files of a folder replaced at once: kills at every step, foreign files, two writers,
folders from elsewhere.
"""

import os
import threading
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from mtlrun.errors import UserError
from mtlrun.utils.outputs import INCOMPLETE, is_incomplete, publish
from mtlrun.utils.processes import exclusive_lock

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


STEPS = ("rename", "replace", "unlink", "mkdir", "rmdir", "fsync")


@pytest.mark.slow
def test_a_kill_at_any_step_leaves_old_files_new_files_or_a_mark(tmp_path, killed):
    states = []
    for n in count(1):
        folder = tmp_path / str(n)
        put(folder, OLD | FOREIGN)
        dead = killed(partial(replace_all, folder), n, STEPS)
        visible = {
            name: text
            for name, text in content(folder).items()
            if not name.startswith(".")
        }
        if is_incomplete(folder):
            states.append("marked")
        else:
            assert visible in (OLD | FOREIGN, NEW | FOREIGN), n
            states.append("new" if visible == NEW | FOREIGN else "old")
        replace_all(folder)
        assert content(folder) == NEW | FOREIGN, n
        # Leftovers of the killed process are removed.
        assert not list(folder.rglob(".*")), n
        if not dead:
            break
    assert states == sorted(states, key=["old", "marked", "new"].index)
    assert min(states.count(name) for name in ("old", "marked")) > 2


@pytest.mark.slow
def test_the_mark_stays_if_the_writer_that_would_remove_it_is_killed_too(
    tmp_path, killed
):
    for n in count(1):
        folder = tmp_path / str(n)
        put(folder, OLD | FOREIGN | {INCOMPLETE: ""})
        dead = killed(partial(replace_all, folder), n, STEPS)
        assert is_incomplete(folder) == (INCOMPLETE in content(folder))
        if not is_incomplete(folder):
            visible = content(folder)
            assert {name: visible[name] for name in NEW | FOREIGN} == NEW | FOREIGN
        if not dead:
            break
    assert n > 3


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
    assert not is_incomplete(tmp_path)


def planted(folder):
    """Plant what an earlier version left when it was killed, with names of others."""
    put(folder, {"thesis.txt": "mine", "a.txt": "mine"})
    put(folder / INCOMPLETE, {"files/a.txt": "forged", "files/b.txt": "forged"})
    put(folder / INCOMPLETE, {"obsolete": "thesis.txt\n../outside.txt"})
    put(folder.parent, {"outside.txt": "mine"})


def test_reading_a_folder_with_a_planted_mark_changes_nothing(tmp_path):
    planted(tmp_path / "folder")
    before = content(tmp_path)
    assert is_incomplete(tmp_path / "folder")
    assert content(tmp_path) == before


def test_writing_installs_and_deletes_nothing_that_another_process_has_left(tmp_path):
    planted(tmp_path / "folder")
    with publish(tmp_path / "folder") as new:
        put(new, {"c.txt": "new"})
    assert content(tmp_path) == {
        "folder/thesis.txt": "mine",
        "folder/a.txt": "mine",
        "folder/c.txt": "new",
        "outside.txt": "mine",
    }


@pytest.mark.parametrize("kind", ["link", "pipe", "file"])
def test_a_mark_of_any_kind_is_removed_and_not_followed(tmp_path, kind):
    folder = tmp_path / "folder"
    put(tmp_path, {"outside/key": "secret", "folder/a.txt": "old"})
    mark = folder / INCOMPLETE
    if kind == "link":
        mark.symlink_to(tmp_path / "outside")
    elif kind == "pipe":
        os.mkfifo(mark)
    else:
        mark.write_text("anything")
    replace_all(folder)
    assert content(tmp_path / "outside") == {"key": "secret"}
    assert content(folder) == NEW


@pytest.mark.skipif(os.name != "posix", reason="users are those of POSIX systems")
def test_a_mark_of_another_user_is_ignored(tmp_path, monkeypatch):
    put(tmp_path, {INCOMPLETE: ""})
    assert is_incomplete(tmp_path)
    user = os.getuid() + 1
    status = Path.stat

    def stat_of_a_shared_folder(path, **options):
        result = status(path, **options)
        if path != tmp_path:
            return result
        return os.stat_result((*result[:4], user, *result[5:10]))

    monkeypatch.setattr(Path, "stat", stat_of_a_shared_folder)
    monkeypatch.setattr(os, "getuid", lambda: user)
    assert not is_incomplete(tmp_path)


def test_a_process_that_is_replacing_files_is_waited_for(tmp_path):
    put(tmp_path, {INCOMPLETE: ""})
    answers = []
    reader = threading.Thread(target=lambda: answers.append(is_incomplete(tmp_path)))
    with exclusive_lock(tmp_path):
        reader.start()
        reader.join(0.3)
        assert answers == []
        (tmp_path / INCOMPLETE).unlink()
    reader.join()
    assert answers == [False]


def test_a_link_in_place_of_a_folder_is_not_written_through(tmp_path):
    put(tmp_path, {"outside/key": "secret", "folder/z.txt": "old"})
    folder = tmp_path / "folder"
    (folder / "sub").symlink_to(tmp_path / "outside")
    for obsolete in ((), ("sub/key",)):
        with pytest.raises(UserError, match="sub"), publish(folder, obsolete) as new:
            put(new, {"z.txt": "new"} if obsolete else {"sub/b.txt": "new"})
    assert content(tmp_path / "outside") == {"key": "secret"}
    assert (folder / "z.txt").read_text() == "old"
    assert not is_incomplete(folder)


def test_a_relative_folder_and_the_current_folder_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in (Path("."), Path("here")):
        put(folder, OLD)
        replace_all(folder)
        assert (folder / "sub/b.txt").read_text() == "new"
