"""Defaults from ``mtlrun.toml``, ``pyproject.toml`` and variables: the command line beats them, in this order."""

import json

import pytest

VARIABLES = ("MTLRUN_JOBS", "MTLRUN_OUTPUT", "MTLRUN_DATA", "MTLRUN_PROFILE")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def _shown(mtlrun, *args):
    result = mtlrun("show", "table2", "--json", *args)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    return found["profile"], found["folder"]


def test_the_command_line_beats_a_variable_which_beats_the_file(mtlrun, tmp_path, monkeypatch):
    (tmp_path / "mtlrun.toml").write_text('profile = "smoke"\noutput = "from-file"\n')
    assert _shown(mtlrun) == ("smoke", "from-file/dcrmtl/table2/smoke")
    monkeypatch.setenv("MTLRUN_PROFILE", "demo")
    assert _shown(mtlrun) == ("demo", "from-file/dcrmtl/table2/demo")
    assert _shown(mtlrun, "--profile", "full", "-o", "here") == ("full", "here/dcrmtl/table2/full")


def test_the_section_of_a_project_counts_below_its_folder(mtlrun, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[tool.mtlrun]\noutput = "out"\ndata-dir = "data"\n')
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert _shown(mtlrun)[1] == str(tmp_path / "out/dcrmtl/table2/quick")
    listed = json.loads(mtlrun("data", "list", "--json").stdout)
    assert listed["folder"] == str(tmp_path / "data")


def test_a_project_without_the_section_is_left_alone(mtlrun, tmp_path):
    (tmp_path / "pyproject.toml").write_text("this is not TOML")
    assert _shown(mtlrun)[0] == "quick"


def test_env_says_where_a_default_comes_from(mtlrun, tmp_path, monkeypatch):
    (tmp_path / "mtlrun.toml").write_text("jobs = 2\n")
    monkeypatch.setenv("MTLRUN_OUTPUT", "elsewhere")
    found = json.loads(mtlrun("env", "--json", "--data-dir", "mine").stdout)["defaults"]
    assert found["jobs"] == {"value": 2, "origin": "mtlrun.toml"}
    assert found["output"] == {"value": "elsewhere", "origin": "MTLRUN_OUTPUT"}
    assert found["data-dir"] == {"value": "mine", "origin": "--data-dir"}
    assert found["profile"] == {"value": "quick", "origin": "built in"}
    lines = [line.split() for line in mtlrun("env").stdout.splitlines()]
    assert ["--jobs", "2", "(mtlrun.toml)"] in lines


@pytest.mark.parametrize(
    ("content", "place", "remedy"),
    [
        ("jbos = 2\n", "mtlrun.toml: 'jbos'", "'jobs'"),
        ('jobs = "two"\n', "mtlrun.toml: jobs", "-1 for all cores"),
        ("jobs = true\n", "mtlrun.toml: jobs", "-1 for all cores"),
        ("output = 3\n", "mtlrun.toml: output", "a path"),
        ("jobs =\n", "mtlrun.toml", "TOML"),
    ],
)
def test_an_error_names_file_and_key(mtlrun, tmp_path, content, place, remedy):
    (tmp_path / "mtlrun.toml").write_text(content)
    result = mtlrun("list")
    assert result.exit_code == 2, result.output
    assert place in result.output
    assert remedy in result.output


def test_a_wrong_variable_is_named(mtlrun, monkeypatch):
    monkeypatch.setenv("MTLRUN_JOBS", "many")
    result = mtlrun("list")
    assert result.exit_code == 2
    assert "MTLRUN_JOBS=many" in result.output


def test_clean_is_not_narrowed_by_a_default_profile(mtlrun, tmp_path):
    for profile in ("smoke", "demo"):
        folder = tmp_path / "results" / "runs" / "dcrmtl" / "table2" / profile
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
    (tmp_path / "mtlrun.toml").write_text('profile = "smoke"\n')
    said = mtlrun("clean", "table2", "--yes").output
    assert "table2/demo" in said
