"""The wheel is complete: it carries every shipped config and data card, and finds them without the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="needs a checkout")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    from hatchling.builders.wheel import WheelBuilder

    folder = tmp_path_factory.mktemp("wheel")
    return Path(next(WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])))


def _shipped(folder: str) -> set[str]:
    return {str(path.relative_to(ROOT / folder)) for path in (ROOT / folder).rglob("*.yaml")}


def test_wheel_carries_configs_cards_and_modules(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    configs, cards = _shipped("configs"), _shipped("datasets")
    assert configs
    assert cards
    assert {f"mtlrun/_configs/{name}" for name in configs} <= names
    assert {f"mtlrun/_datasets/{name}" for name in cards} <= names
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "mtlrun").rglob("*.py")}
    assert modules <= names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_installed_wheel_finds_its_files(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = "from mtlrun.core import resources as r; print(r.configs_dir(), r.datasets_dir(), r.checkout_dir())"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    package = tmp_path.resolve() / "mtlrun"
    assert run.stdout.split() == [str(package / "_configs"), str(package / "_datasets"), "None"], run.stderr
