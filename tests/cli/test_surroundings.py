"""Unusual environments: closed streams, consoles, removed folders, odd names, links."""

import os
import subprocess
import sys

import pytest

from mtlrun.data.sets.cards import load_card
from mtlrun.data.sets.fetch import fetch_dataset
from mtlrun.errors import DataError

posix = pytest.mark.skipif(os.name != "posix", reason="files of POSIX systems")
TABLE = "x,task,y\n" + "".join(
    f"{k % 7},{'ab'[k % 2]},{k % 5 + k % 7}\n" for k in range(24)
)


def shell(command, folder, **variables):
    """Run a shell command line in which ``$M`` is mtlrun."""
    environment = {**os.environ, **variables, "M": f"{sys.executable} -m mtlrun"}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
        timeout=120,
    )


@pytest.mark.slow
@posix
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("$M data fetch school --data-dir d <&-", 2),
        ("$M --help > /dev/full", 2),
        ("mkdir gone; cd gone; rmdir ../gone; $M list", 0),
        ("mkdir gone; cd gone; rmdir ../gone; $M compare t.csv --target y", 2),
    ],
)
def test_closed_streams_and_a_removed_folder_cause_no_traceback(
    tmp_path, command, code
):
    done = shell(command, tmp_path)
    assert b"Traceback" not in done.stderr
    assert b"is a bug" not in done.stderr
    assert done.returncode == code


@pytest.mark.slow
@posix
@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_a_console_with_a_limited_character_set_gets_escapes(tmp_path, variables):
    (tmp_path / "ö€.yaml").write_text("schema: 1\nid: 'ö€'\n", encoding="utf-8")
    done = shell("$M validate ö€.yaml", tmp_path, **variables)
    assert done.returncode == 2
    assert b"UnicodeEncodeError" not in done.stderr
    assert b"\\" in done.stderr
    assert done.stderr.isascii()


@posix
@pytest.mark.parametrize(
    "words",
    [
        ("compare", "t.csv", "--target", "y", "--task", "task"),
        ("reproduce", "table.yaml"),
        ("status", "table.yaml"),
    ],
)
def test_an_output_path_in_a_link_loop_is_a_user_error(
    mtlrun, write_experiment, tmp_path, words
):
    write_experiment()
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "loop").symlink_to("loop")
    result = mtlrun(*words, "-o", "loop")
    assert "is a bug" not in result.output
    assert words[0] == "status" or result.exit_code == 2
    assert words[0] == "status" or "loop" in result.output


@pytest.mark.parametrize("mark", ["\u202e", "\u061c", "\x01"])
def test_an_invisible_character_in_the_name_of_a_table_is_reported_at_once(
    mtlrun, tmp_path, mark
):
    (tmp_path / f"a{mark}b.csv").write_text(TABLE)
    words = (f"a{mark}b.csv", "--target", "y", "--task", "task", "-o", "out")
    result = mtlrun("compare", *words)
    assert result.exit_code == 2
    assert "b.csv" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "host", ["a" * 5000, "a" * 64 + ".org", "a..org", "ä" * 100, "a." * 200 + "org"]
)
def test_an_impossible_host_is_rejected(tmp_path, host):
    with pytest.raises(DataError) as caught:
        fetch_dataset(load_card("school"), url=f"https://{host}/x", data_dir=tmp_path)
    assert len(caught.value.message) < 1000
