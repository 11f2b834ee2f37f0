"""Progress displays while jobs are computed."""

import io

import pytest

from mtlrun.parallel.progress import (
    LiveProgress,
    PlainProgress,
    Progress,
    make_progress,
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def tell(progress):
    progress.message("hello [bold]")
    progress.start(12)
    progress.begin("a/b/trial 0")
    progress.job("a/b/trial 0", "ok", 1.234, "auc 0.9")
    progress.job("a/c/trial 0", "failed", None, "it broke")
    progress.stop()


def test_plain_output_is_one_line_per_job_without_control_characters():
    stream = io.StringIO()
    tell(PlainProgress(stream))
    assert stream.getvalue().splitlines() == [
        "hello [bold]",
        "[ 1/12] a/b/trial 0  ok  1.23 s  auc 0.9",
        "[ 2/12] a/c/trial 0  failed  it broke",
    ]
    assert all(c.isprintable() or c == "\n" for c in stream.getvalue())


def test_a_live_display_keeps_messages_and_failures():
    stream = Terminal()
    tell(LiveProgress(stream))
    assert "hello [bold]" in stream.getvalue()
    assert "[ 2/12] a/c/trial 0  failed  it broke" in stream.getvalue()
    assert "[ 1/12]" not in stream.getvalue()


def test_the_silent_display_prints_nothing(capsys):
    tell(Progress())
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("environment", "stream", "expected"),
    [
        ({}, Terminal(), LiveProgress),
        ({}, io.StringIO(), PlainProgress),
        ({"CI": "1"}, Terminal(), PlainProgress),
        ({"NO_COLOR": "1"}, Terminal(), PlainProgress),
        ({"TERM": "dumb"}, Terminal(), PlainProgress),
    ],
)
def test_the_display_fits_the_terminal(monkeypatch, environment, stream, expected):
    for name in ("CI", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert type(make_progress(stream=stream)) is expected
    assert type(make_progress(quiet=True, stream=stream)) is Progress


def test_long_durations_have_no_decimals():
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.start(9)
    progress.job("x", "ok", 1234.56, "")
    assert stream.getvalue() == "[1/9] x  ok  1235 s\n"
