"""`mtlrun data`: output and exit codes."""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mtlrun.cli.console import download_progress
from mtlrun.cli.data import app
from mtlrun.errors import UserError

ARFF = (
    b"@relation 'x: -C 1'\n@attribute a {0,1}\n@attribute c numeric\n@data\n1,5\n0,6\n"
    b"1,7\n"
)
SHA = hashlib.sha256(ARFF).hexdigest()
CARD = f"""\
id: mine
title: My set
task_type: binary
design: shared
reader: {{name: mulan, options: {{arff: [t.arff]}}}}
folder: mine
files:
  - name: t.arff
    sha256: {SHA}
    bytes: {len(ARFF)}
    urls: [{{url: "https://example.org/t.arff"}}]
  - name: extra.arff
    sha256: {"0a" * 32}
uses: [t.arff]
variants:
  more: {{options: {{labels: -1}}, uses: [extra.arff]}}
licence: free
citation: nobody
statistics: {{n: 3, d: 1, tasks: 1, x_density: 1.0}}
notes: made up
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cards").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "cards" / "mine.yaml").write_text(CARD)
    (tmp_path / "mine" / "t.arff").write_bytes(ARFF)
    return tmp_path


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Return the exit code and all output; a UserError counts as 2."""
    result = CliRunner().invoke(app, [*arguments, "--data-dir", str(folder)])
    if isinstance(result.exception, UserError):
        return 2, result.output + f"Error: {result.exception}"
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_list_prints_all_data_sets(folder: Path) -> None:
    code, text = run(folder, "list")
    lines = {line.split()[0]: line.split() for line in text.splitlines() if line}
    assert code == 0
    assert lines["ID"] == ["ID", "ROWS", "FEATURES", "TASKS", "AVAILABLE", "TITLE"]
    assert lines["mine"] == ["mine", "3", "1", "1", "yes", "My", "set"]
    assert lines["enron"][1:5] == ["1702", "1001", "53", "no"]
    assert lines["digits"][4:6] == ["built", "in"]
    assert lines["simulated-rmtl"][-1] == "[simulated]"
    assert f"Data directory: {folder}" in text


def test_list_continues_after_a_broken_card(folder: Path, lacking: Any) -> None:
    (folder / "cards" / "bad.yaml").write_text("id: bad\n")
    code, text = run(folder, "list")
    assert code == 2
    assert not lacking(text, "bad.yaml:1:1: ", "'title'")
    assert "My set" in text


def test_info_prints_the_card(folder: Path) -> None:
    code, text = run(folder, "info", "mine")
    assert code == 0
    assert f"t.arff: verified, sha256 {SHA}, {len(ARFF)} bytes, in t.arff" in text
    assert "license:   free" in text
    assert "citation:  nobody" in text
    assert "variants:  more" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["x_density", "1", "1", "ok"] in rows
    assert ["positives", "2"] in rows
    assert "extra.arff" not in text


def test_info_reports_different_statistics(folder: Path) -> None:
    (folder / "cards" / "mine.yaml").write_text(CARD.replace("n: 3", "n: 4"))
    code, text = run(folder, "info", "mine")
    assert code == 2
    assert ["n", "3", "4", "DIFFERS"] in [line.split() for line in text.splitlines()]


def test_info_works_without_the_files(folder: Path, lacking: Any) -> None:
    (folder / "mine" / "t.arff").unlink()
    code, text = run(folder, "info", "mine")
    assert code == 0
    assert f"t.arff: missing, expected sha256 {SHA}" in text
    assert not lacking(text, "t.arff", "mtlrun data fetch mine")
    assert ["n", "3"] in [line.split() for line in text.splitlines()]


def test_info_describes_a_variant_and_simulated_data(folder: Path) -> None:
    code, text = run(folder, "info", "mine", "--variant", "more")
    assert (code, "1 file missing." in text) == (0, True)
    code, text = run(folder, "info", "simulated-rmtl", "--variant", "value")
    assert code == 0
    assert "[simulated]" in text
    assert "y_var" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "../mine"], "'../mine' is not the name of a data set"),
        (["info", "min"], "unknown data set 'min'\nDid you mean 'mine'?"),
        (["verify", "min"], "unknown data set 'min'\nDid you mean 'mine'?"),
        (["fetch", "/etc"], "'/etc' is not the name of a data set"),
        (["add", "..", "x"], "'..' is not the name of a data set"),
        (
            ["info", "mine", "--variant", "mor"],
            "unknown variant of mine 'mor'\nDid you mean 'more'?",
        ),
        (["fetch", "mine", "enron", "--url", "https://example.org"], "--url"),
    ],
)
def test_unknown_names_are_rejected(
    folder: Path, arguments: list[str], message: str
) -> None:
    code, text = run(folder, *arguments)
    assert code == 2
    assert message in text


def test_verify_checks_the_files(folder: Path) -> None:
    code, text = run(folder, "verify", "mine", "gauss2d")
    assert code == 0
    assert text.splitlines() == [
        f"mine: t.arff: ok, sha256 {SHA}",
        "mine: 3 x 1, 1 task: statistics checked",
        "gauss2d: 100000 x 2, 2 tasks: statistics checked",
    ]


def test_verify_without_names_skips_missing_data(folder: Path) -> None:
    code, text = run(folder, "verify", "--files-only")
    assert code == 0
    assert f"mine: t.arff: ok, sha256 {SHA}" in text
    assert "enron: skipped" in text


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (
            lambda f: f.write_bytes(ARFF.replace(b"5", b"4")),
            "the content is not that of mine/t.arff",
        ),
        (lambda f: f.unlink(), "mine: data set mine: the file t.arff is missing"),
        (
            lambda f: (
                f.unlink(),
                f.with_name("t.arff.gz").write_bytes(gzip.compress(ARFF)[:-9]),
            ),
            "t.arff.gz: the file is truncated",
        ),
        (lambda f: (f.unlink(), f.mkdir()), "t.arff: is a directory, expected a file"),
    ],
)
def test_verify_fails_for_damaged_files(
    folder: Path, break_it: Any, message: str
) -> None:
    break_it(folder / "mine" / "t.arff")
    code, text = run(folder, "verify", "mine")
    assert code == 2
    assert message in text


def test_verify_reports_wrong_statistics_and_unreadable_content(
    folder: Path, lacking: Any
) -> None:
    card = folder / "cards" / "mine.yaml"
    card.write_text(CARD.replace("tasks: 1", "tasks: 2"))
    code, text = run(folder, "verify", "mine")
    assert code == 2
    assert not lacking(text, "mine: tasks")
    (folder / "mine" / "t.arff").write_bytes(b"junk")
    card.write_text(CARD.replace(SHA, hashlib.sha256(b"junk").hexdigest()))
    code, text = run(folder, "verify", "mine")
    assert code == 2
    assert "t.arff:1:1: expected @relation" in text


def test_add_copies_files_into_the_data_directory(folder: Path, tmp_path: Path) -> None:
    (folder / "mine" / "t.arff").unlink()
    path = tmp_path / "some name.bin"
    path.write_bytes(gzip.compress(ARFF))
    code, text = run(folder, "add", "mine", str(path))
    assert code == 0
    assert text.splitlines() == [
        f"mine: t.arff verified, {folder}/mine/t.arff.gz",
        "mine: complete",
    ]
    assert run(folder, "verify", "mine")[0] == 0
    code, text = run(folder, "add", "enron", str(path))
    assert code == 2
    assert "enron" in text
    code, text = run(folder, "add", "digits", str(path))
    assert code == 2
    assert "digits" in text


def test_a_file_without_a_known_hash_is_not_called_verified(tmp_path, lacking):
    mine = tmp_path / "breast_cancer.csv"
    mine.write_text("study,y,a,b\n1,1,0.5,2\n", encoding="utf-8")
    code, text = run(tmp_path / "data", "add", "breast-cancer", str(mine))
    assert code == 0
    assert not lacking(text, "breast_cancer.csv", "no hash")
    assert "not verified" in text
    assert text.count("verified") == 1


def test_fetch_asks_before_it_downloads(
    folder: Path, internet: Any, lacking: Any
) -> None:
    internet.files["https://example.org/t.arff"] = ARFF
    (folder / "mine" / "t.arff").unlink()
    code, text = run(folder, "fetch", "mine")
    assert code == 2
    assert not lacking(text, "mine: 1 file", "0.0 MB", "license: free", "--yes")
    assert internet.requested == []
    code, text = run(folder, "fetch", "mine", "digits", "--yes")
    assert code == 0
    assert internet.requested == ["https://example.org/t.arff"]
    assert f"mine: t.arff verified, {folder}/mine/t.arff" in text
    assert not lacking(text, "digits: ", "no files")
    assert run(folder, "fetch", "mine") == (
        0,
        f"mine: t.arff verified, {folder}/mine/t.arff\n",
    )
    assert len(internet.requested) == 1


def test_fetch_offline_prints_the_remedy(
    folder: Path, monkeypatch: pytest.MonkeyPatch, lacking: Any
) -> None:
    card = folder / "cards" / "mine.yaml"
    card.write_text(CARD.replace("https://example.org", "https://127.0.0.1:9"))
    monkeypatch.setenv("NO_PROXY", "*")
    (folder / "mine" / "t.arff").unlink()
    code, text = run(folder, "fetch", "mine", "--yes")
    assert code == 2
    assert not lacking(
        text, "https://127.0.0.1:9/t.arff: ", "  mtlrun data add mine FILE\n"
    )
    assert not lacking(text, f"{folder}/mine/t.arff", SHA, f"{len(ARFF)} bytes")


def test_progress_is_shown_only_on_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with download_progress() as report:
        assert report is None
    monkeypatch.setattr(sys, "stderr", Terminal())
    with download_progress() as report:
        assert report is not None
        report("enron.arff", 5, 10)
        report("enron.arff", 10, 10)
    assert "enron.arff" in sys.stderr.getvalue()
    assert "100%" in sys.stderr.getvalue()


def test_help_and_list_do_not_import_numpy(folder: Path) -> None:
    code = (
        "import sys\nfrom mtlrun.cli.data import app\n"
        f"app(['list', '--data-dir', {str(folder)!r}], standalone_mode=False)\n"
        "print(sorted({'numpy', 'scipy', 'sklearn', 'pandas', 'requests'} & "
        "set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert "\x1b" not in done.stdout
