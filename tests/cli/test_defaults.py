"""Defaults set by environment variables; command-line options override them."""

import json

import pytest

from mtlrun.cli.options import VARIABLES


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in VARIABLES.values():
        monkeypatch.delenv(name, raising=False)


def _shown(mtlrun, *args):
    result = mtlrun("show", "fig2a", "--json", *args)
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    return content["profile"], content["folder"]


def test_options_override_variables_and_variables_override_built_in_defaults(
    mtlrun, monkeypatch
):
    assert _shown(mtlrun) == ("quick", "results/runs/fetr/fig2a/quick")
    monkeypatch.setenv("MTLRUN_PROFILE", "demo")
    monkeypatch.setenv("MTLRUN_OUTPUT", "elsewhere")
    assert _shown(mtlrun) == ("demo", "elsewhere/fetr/fig2a/demo")
    assert _shown(mtlrun, "--profile", "full", "-o", "here") == (
        "full",
        "here/fetr/fig2a/full",
    )
    monkeypatch.setenv("MTLRUN_DATA", "data")
    assert json.loads(mtlrun("data", "list", "--json").stdout)["folder"] == "data"


def test_an_empty_variable_counts_as_unset(mtlrun, monkeypatch):
    monkeypatch.setenv("MTLRUN_PROFILE", "")
    assert _shown(mtlrun)[0] == "quick"


def test_env_shows_the_source_of_each_default(mtlrun, monkeypatch):
    monkeypatch.setenv("MTLRUN_OUTPUT", "elsewhere")
    content = json.loads(mtlrun("env", "--json", "--data-dir", "mine").stdout)[
        "defaults"
    ]
    assert content["output"] == {"value": "elsewhere", "origin": "MTLRUN_OUTPUT"}
    assert content["data-dir"] == {"value": "mine", "origin": "--data-dir"}
    assert content["profile"] == {"value": "quick", "origin": "built in"}
    lines = [line.split() for line in mtlrun("env").stdout.splitlines()]
    assert ["--output", "elsewhere", "(MTLRUN_OUTPUT)"] in lines


def test_an_invalid_variable_is_named(mtlrun, monkeypatch):
    monkeypatch.setenv("MTLRUN_JOBS", "many")
    result = mtlrun("reproduce", "table2", "--profile", "smoke", "--dry-run")
    assert result.exit_code == 2
    assert "MTLRUN_JOBS" in result.output
