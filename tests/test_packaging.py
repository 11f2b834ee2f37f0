"""The wheel contains all configs and data cards, found without the checkout."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml

import mtlrun

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(
    not (ROOT / "pyproject.toml").is_file(), reason="needs a checkout"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    from hatchling.builders.wheel import WheelBuilder

    folder = tmp_path_factory.mktemp("wheel")
    return Path(
        next(
            WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
        )
    )


def _shipped(folder: str) -> set[str]:
    return {
        str(path.relative_to(ROOT / folder))
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".yaml", ".csv")
    }


def test_the_wheel_contains_configs_cards_and_modules(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    configs, cards = _shipped("configs"), _shipped("datasets")
    assert configs
    assert cards
    assert {f"mtlrun/_configs/{name}" for name in configs} <= names
    assert {f"mtlrun/_datasets/{name}" for name in cards} <= names
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "mtlrun").rglob("*.py")}
    assert modules <= names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_installed_wheel_finds_its_files(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = "from mtlrun.utils import io as r; print(r.configs_dir(), r.datasets_dir(), r.checkout_dir())"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    package = tmp_path.resolve() / "mtlrun"
    assert run.stdout.split() == [
        str(package / "_configs"),
        str(package / "_datasets"),
        "None",
    ], run.stderr


PROJECT = (
    tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    if (ROOT / "pyproject.toml").is_file()
    else {}
)


def _bounds() -> dict[str, str]:
    """Return the lower bounds of run-time dependencies and of extras for users."""
    lines = list(PROJECT["dependencies"])
    for extra in ("nn", "distributed", "parquet"):
        lines += PROJECT["optional-dependencies"][extra]
    bounds = {}
    for line in lines:
        name, extra, bound = re.fullmatch(
            r"([a-z0-9-]+)(\[[a-z]+\])?>=([0-9.]+)", line
        ).groups()
        bounds[name] = bound
        if extra:
            bounds[extra.strip("[]")] = bound
    return bounds


def test_the_oldest_tested_releases_are_the_lower_bounds():
    lines = (ROOT / ".ci" / "oldest.txt").read_text().splitlines()
    pinned = dict(
        line.split("==") for line in lines if line and not line.startswith("#")
    )
    assert pinned == _bounds()


def _needed(names: list[str]) -> set[str]:
    """Return the installed direct and indirect dependencies of distributions."""
    needed: set[str] = set()
    while names:
        name = re.sub(r"[-_.]+", "-", names.pop()).lower()
        if name in needed:
            continue
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        needed.add(name)
        names += [
            re.match(r"[\w.-]+", line).group()
            for line in requires
            if "extra ==" not in line
        ]
    return needed


def test_no_run_time_dependency_is_under_the_gpl():
    names = _needed(
        [re.match(r"[\w-]+", line).group() for line in PROJECT["dependencies"]]
    )
    assert len(names) > 20
    for name in names:
        fields = metadata.metadata(name)
        named = [
            fields.get("License-Expression") or "",
            (fields.get("License") or "").split("\n")[0][:100],
        ]
        named += [
            line
            for line in fields.get_all("Classifier") or []
            if line.startswith("License")
        ]
        assert any(named), f"{name} names no licence"
        # The GPL with the GCC run-time library exception does not affect programs that
        # link it.
        text = re.sub(r"GPL-[\w.-]+ WITH GCC-exception-[\d.]+", "", " ".join(named))
        assert not re.search(
            r"(?<![L])\bA?GPL|(?<!Lesser )General Public License", text
        ), f"{name}: {text}"


def _recipe() -> dict:
    text = (ROOT / "packaging" / "conda" / "meta.yaml").read_text()
    version = re.search(r'set version = "(.+)"', text).group(1)
    plain = text.replace("{{ version }}", version).replace("{{ PYTHON }}", "python")
    return yaml.safe_load(re.sub(r"^{%.*%}$", "", plain, flags=re.MULTILINE))


def test_the_version_is_the_same_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {
        PROJECT["version"],
        citation["version"],
        str(_recipe()["package"]["version"]),
    } == {mtlrun.__version__}


def test_the_citation_has_all_required_fields_and_matches_the_project():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert citation["license"] == PROJECT["license"]
    assert [author["name"] for author in citation["authors"]] == [
        author["name"] for author in PROJECT["authors"]
    ]


def test_the_conda_recipe_matches_the_requirements_of_the_project():
    run = dict(line.split(" >=") for line in _recipe()["requirements"]["run"])
    wanted = dict(line.split(">=") for line in PROJECT["dependencies"])
    wanted["matplotlib-base"] = wanted.pop("matplotlib")
    assert run == {**wanted, "python": PROJECT["requires-python"].removeprefix(">=")}
    (entry,) = _recipe()["build"]["entry_points"]
    assert entry == f"mtlrun = {PROJECT['scripts']['mtlrun']}"


def test_the_release_stores_no_secret_and_pins_its_actions():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["needs"] == "build"
    assert "secrets." not in text
    steps = [step for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert all(re.search(r"@[0-9a-f]{40}$", step["uses"]) for step in steps)


def test_the_container_copies_the_files_of_the_wheel_and_runs_an_existing_command():
    text = (ROOT / "Containerfile").read_text()
    ignored = (ROOT / ".containerignore").read_text().split()
    assert not {
        "mtlrun",
        "configs",
        "datasets",
        "pyproject.toml",
        "README.md",
        "LICENSE",
    } & set(ignored)
    version = re.search(r"python:(3\.\d+)-slim", text).group(1)
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
    command = yaml.safe_load(re.search(r"^CMD (.*)$", text, re.MULTILINE).group(1))
    from typer.testing import CliRunner

    from mtlrun.cli.app import app

    assert CliRunner().invoke(app, [*command, "--dry-run"]).exit_code == 0
