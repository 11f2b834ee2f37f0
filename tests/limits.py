"""Fixtures that limit the memory which the package believes to have, and the modules
that its workers import.
"""

import pytest

from mtlrun.problem import memory


@pytest.fixture
def free_memory(monkeypatch):
    """Return a function that sets the bytes of free memory.

    With ``always=True`` small requests are compared with them, too.
    """

    def set_to(n_bytes, *, always=False):
        monkeypatch.setattr(memory, "free_bytes", lambda: n_bytes)
        if always:
            monkeypatch.setattr(memory, "_SMALL", 0)

    return set_to


@pytest.fixture
def cache_memory(monkeypatch):
    """Return a function that sets the bytes up to which intermediate results are kept."""
    return lambda n_bytes: monkeypatch.setattr(memory, "KEPT", n_bytes)


@pytest.fixture
def preload(monkeypatch):
    """Return a function that sets the modules which workers import when they start."""

    def modules(*names):
        monkeypatch.setattr("mtlrun.parallel.worker.PRELOADED_MODULES", names)

    return modules
