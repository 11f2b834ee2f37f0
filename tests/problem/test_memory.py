"""Memory limits: granted and rejected sizes, and how free memory is determined."""

import pickle
from pathlib import Path

import pytest

from mtlrun.errors import MemoryLimitError, UserError
from mtlrun.problem import memory


def test_oversized_requests_are_rejected_with_size_and_remedy(free_memory):
    free_memory(8e9)
    memory.require(7.9e9, "a matrix", "Use a smaller one.")
    with pytest.raises(MemoryLimitError) as caught:
        memory.require(80e9, "a matrix of 100000 rows", "Use a smaller one.")
    error = caught.value
    assert "a matrix of 100000 rows" in error.message
    assert "80 GB" in error.message
    assert error.remedy == "Use a smaller one."
    assert error.exit_code == 2
    assert isinstance(error, UserError)
    assert isinstance(error, ValueError)
    assert (
        pickle.loads(pickle.dumps(error)).remedy == error.remedy
    )  # Workers send it back.


def test_simultaneous_processes_share_the_memory(free_memory):
    free_memory(8e9)
    with memory.shared_by(4):
        memory.require(1.9e9, "a matrix", "")
        with pytest.raises(MemoryLimitError):
            memory.require(2.1e9, "a matrix", "")
    memory.require(2.1e9, "a matrix", "")


def test_small_requests_and_the_size_of_caches_do_not_query_the_machine(monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(
        resource, "getrlimit", lambda which: pytest.fail("limits are read")
    )
    memory.require(1e6, "a matrix", "")
    assert memory.fits(memory.KEPT)
    assert not memory.fits(memory.KEPT + 1)


def test_free_memory_is_read_from_the_machine():
    assert 1e6 < memory.free_bytes() < 1e15


def test_a_container_has_its_own_limit(tmp_path, monkeypatch):
    read_text = Path.read_text

    def of_the_container(file, *args, **options):
        if file.parent == Path("/sys/fs/cgroup"):
            file = tmp_path / file.name
        return read_text(file, *args, **options)

    monkeypatch.setattr(Path, "read_text", of_the_container)
    without = memory.free_bytes()
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_bytes() == pytest.approx(without, rel=0.5)
    (tmp_path / "memory.max").write_text("3000000\n")
    (tmp_path / "memory.stat").write_text("anon 1000000\nfile 500000\n")
    assert memory.free_bytes() == 2e6


def test_a_limited_process_has_less_memory(monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1 << 60, 1 << 60))
    assert memory.free_bytes() < 1 << 60
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1, 1))
    assert memory.free_bytes() == 0
