"""The command line in this process and in others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mtlrun.cli.app import app


@pytest.fixture
def mtlrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run a command line inside this process, in an empty folder: ``mtlrun("list", "methods")``."""
    monkeypatch.chdir(tmp_path)
    for name in ("CI", "NO_COLOR", "FORCE_COLOR", "MTLRUN_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*args: str, text: str | None = None) -> Result:
        return CliRunner().invoke(app, list(args), input=text, prog_name="mtlrun")

    return run


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run ``python -m mtlrun`` in a process of its own, in the same empty folder."""

    def run(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
        env = {k: v for k, v in os.environ.items() if k not in ("CI", "NO_COLOR", "FORCE_COLOR", "MTLRUN_DATA")}
        env.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **environment})
        command = [sys.executable, "-m", "mtlrun", *args]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    return run
