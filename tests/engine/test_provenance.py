"""Metadata of the machine and the sources: missing values are recorded as unknown."""

import importlib.metadata
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mtlrun.catalog.interfaces import version_of
from mtlrun.engine import environment as provenance


@pytest.fixture
def checkout(tmp_path, install):
    """Create a separate checkout with one commit."""
    install(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    (tmp_path / "file").write_text("one")
    for words in (["init", "-q"], ["add", "file"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    return tmp_path


def test_the_commit_and_local_changes_are_recorded(checkout):
    facts = provenance.source_info()
    assert len(facts.commit) == 40
    assert facts.dirty is False
    (checkout / "new").write_text("files that git does not know are no change")
    assert provenance.source_info().dirty is False
    (checkout / "file").write_text("two")
    assert provenance.source_info() == replace(facts, dirty=True)


def test_results_written_by_a_run_do_not_count_as_changed_sources(checkout):
    (checkout / "results").mkdir()
    (checkout / "results" / "run.json").write_text("{}")
    git = ["git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["add", "results"], ["commit", "-q", "-m", "a run"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    (checkout / "results" / "run.json").write_text('{"cells": 1}')
    assert provenance.source_info().dirty is False
    (checkout / "file").write_text("two")
    assert provenance.source_info().dirty is True


def test_without_a_checkout_or_git_the_commit_is_unknown(
    checkout, tmp_path_factory, monkeypatch, install
):
    unknown = replace(provenance.source_info(), commit=None, dirty=None)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "")
        assert provenance.source_info() == unknown
    (checkout / ".git" / "HEAD").write_text("damaged")
    assert provenance.source_info() == unknown
    unpacked = tmp_path_factory.mktemp("unpacked")
    (unpacked / "pyproject.toml").touch()
    install(unpacked)
    assert provenance.source_info() == unknown
    install(tmp_path_factory.mktemp("wheel"))
    assert provenance.source_info() == unknown


def test_a_missing_package_has_no_version(monkeypatch):
    distribution = importlib.metadata.distribution

    def without_numba(name):
        if name == "numba":
            raise importlib.metadata.PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(importlib.metadata, "distribution", without_numba)
    version_of.cache_clear()
    facts = provenance.host_info.__wrapped__()
    assert facts.packages["numba"] is None
    assert facts.packages["numpy"]
    assert facts.cpu
    assert facts.cores >= 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_processor_is_the_one_that_the_system_names():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    if not names:
        pytest.skip("this processor has no name")
    assert provenance.host_info().cpu == names[0]
