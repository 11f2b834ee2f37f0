"""``mtlrun compare``: compare methods on a table of the user."""

from __future__ import annotations

import glob
import math
import shlex
import sys
import threading
import time as clock
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtlrun.cli import options
from mtlrun.cli.console import (
    interactive,
    messages,
    output,
    prose_lines,
    say,
    say_prose,
)
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.comparison.options import CompareOptions, TargetColumns, options_of
from mtlrun.data.roles.roles import Roles
from mtlrun.errors import counted
from mtlrun.utils.options import PROTOCOL, ROLES
from mtlrun.utils.text import sanitize

if TYPE_CHECKING:
    from mtlrun.comparison.leaderboard import Leaderboard
    from mtlrun.comparison.result import Comparison
    from mtlrun.comparison.schedule import BoardProgress
    from mtlrun.show.report_table import ReportTable

#: Columns of the leaderboard that only --explain prints. A narrow terminal drops them,
#: too, in this order.
DROP_FIRST = ("std", "splits", "better in", "seconds", "p (exploratory)")
#: Rows of the leaderboard that are printed without --explain.
MAX_ROWS = 8
#: Methods in a line about an unfinished comparison.
MAX_NAMED_METHODS = 3
#: Seconds between two lines about an unfinished comparison, and between two updates of
#: its display on a terminal.
LINE_SECONDS = 5.0
LIVE_SECONDS = 0.5
#: Seconds without a finished fit after which a line says that the comparison goes on.
HEARTBEAT_SECONDS = 30.0
#: Writing the unfinished leaderboard takes at most this share of the time.
MAX_WRITING_SHARE = 1 / 20


@options.with_fields(TargetColumns, Roles, CompareOptions)
def compare(
    data: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA",
            help="Table: .csv, .tsv, .txt, .xlsx, .parquet, .arff, .mat or .svm; text "
            "files also compressed (.gz, .bz2, .xz). An .arff file may be followed by "
            "Mulan's list of its labels. A folder of .parquet or .csv files may be "
            "larger than memory.",
        ),
    ],
    test: Annotated[
        Path | None,
        options.option(
            PROTOCOL, "FILE", "Table of test rows, instead of cross-validation."
        ),
    ] = None,
    sheet: Annotated[str | None, options.sheet_option(ROLES)] = None,
    output_dir: options.Output = OUTPUT_DEFAULT,
    explain: Annotated[
        bool,
        options.option(
            options.OUT,
            None,
            "Also print how to read the numbers, what was stopped, and all methods.",
            "--explain",
        ),
    ] = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
    **values: Any,
) -> None:
    """Compare multi-task methods and baselines on your own table.

    Name either a column to predict and a column of tasks (--target, --task), or several
    columns to predict (--targets). Every method is tuned and tested on the same folds.
    The verdict and the best methods are printed; the report and the best model, ready for
    `mtlrun predict`, are written to DIR/compare/<name of the table>.
    """
    from mtlrun.data.reading.files import data_file

    data = [options.with_sheet(data[0], sheet), *data[1:]]
    # A file that does not exist is reported at once, before the imports below, which
    # take seconds.
    labels = values["labels"]
    for path in filter(None, (*data, test, labels)):
        if not (path.is_dir() or glob.has_magic(str(path))):
            data_file(path)
    names = ",".join(values["methods"]).split(",")
    values["methods"] = [name for name in map(str.strip, names) if name]
    columns, roles, compare_options = options_of(values)
    from mtlrun.comparison.compare import short_name
    from mtlrun.comparison.result import refuse_tables
    from mtlrun.engine.store import check_folder

    # The results are named after the table, not after Mulan's list of its labels.
    table = next((path for path in data if path.suffix != ".xml"), data[0])
    # Each question about a table has a folder of results.
    ending = ""
    if roles.new_tasks:
        ending = "-new-tasks"
    elif roles.time_blocks:
        ending = "-time-blocks"
    elif roles.time is not None:
        ending = "-by-time"
    folder = output_dir / "compare" / f"{short_name(table)}{ending}"
    check_folder(folder, output_dir)
    refuse_tables(folder, [*data, *filter(None, (test, labels))])

    progress = CompareProgress(folder, quiet=quiet, explain=explain)
    result = _run(data, columns, roles, compare_options, test, progress)
    show_files(result, folder, explain=explain)


def _run(
    data: list[Path],
    columns: TargetColumns,
    roles: Roles,
    compare_options: CompareOptions,
    test: Path | None,
    progress: CompareProgress,
) -> Comparison:
    """Compare, write the results into the folder, and print the answer.

    If anything ends the comparison early, the leaderboard of the finished fits is kept.
    """
    from mtlrun.api import run_comparison

    folder = progress.folder
    try:
        with progress.shown():
            result = run_comparison(
                data,
                columns,
                roles,
                compare_options,
                test=test,
                say=progress.say,
                finished=progress.keep,
                output=folder,
                explain=progress.explain,
            )
        replaced_table = result.replaced(folder)
        if replaced_table is not None:
            say(
                f"{folder} held the comparison of {replaced_table}, which is replaced",
                error=True,
            )
        try:
            # Drawing the pictures of the report takes seconds: the answer comes first.
            _show_result(result, explain=progress.explain)
        finally:
            result.save(folder)
    except BaseException:
        # A KeyboardInterrupt included.
        progress.keep_last()
        raise
    return result


class CompareProgress:
    """Writes the leaderboard of the finished fits, and shows how far they are.

    A terminal shows the leaderboard. Elsewhere there is a line of text from time to
    time. Whatever ends a comparison, the results so far are in its folder.

    Attributes
    ----------
    folder : Path
    quiet, explain : bool
    live : rich.live.Live or None
        Display of the leaderboard; None unless the command runs on a terminal.
    file : Path or None
        Leaderboard that was written.
    has_warned : bool
        Whether the user knows that the folder cannot be written to.
    next_time, next_report : float
        Times before which the leaderboard is not written, and not shown again.
    has_shown_all : bool
        Whether the user knows that all fits are done.
    pending : Leaderboard or None
        Leaderboard that was not written.
    last_progress : BoardProgress or None
        Progress that was shown last, at `last_time`, above the lines `shown_lines`.
    """

    def __init__(self, folder: Path, *, quiet: bool, explain: bool) -> None:
        from rich.live import Live

        self.folder = folder
        self.quiet = quiet
        self.explain = explain
        self.console = messages()
        self.live: Live | None = None
        if not quiet and interactive(sys.stderr):
            self.live = Live(console=self.console, transient=True, auto_refresh=False)
        self.file: Path | None = None
        self.has_warned = False
        self.next_time = -math.inf
        self.next_report = -math.inf
        self.has_shown_all = False
        self.pending: Leaderboard | None = None
        self.last_progress: BoardProgress | None = None
        self.last_time = clock.monotonic()
        self.shown_lines: list[str] = []
        self.has_ended = threading.Event()

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the display during a block; no thread is left after it."""
        if self.quiet:
            yield
            return
        heart = threading.Thread(target=self._beat)
        with self.live or nullcontext():
            heart.start()
            try:
                yield
            finally:
                self.has_ended.set()
                heart.join()

    def say(self, text: str) -> None:
        """Print a message, above the leaderboard if there is one."""
        if self.quiet:
            return
        for line in prose_lines(sanitize(text), self.console):
            self.console.print(line, soft_wrap=True, markup=False, highlight=False)

    def keep(self, board: Leaderboard) -> None:
        """Show and write a leaderboard, unless that takes too much of the time."""
        self._show(board)
        started = clock.monotonic()
        if started < self.next_time:
            self.pending = board
            return
        self.pending = None
        self._write(board)
        now = clock.monotonic()
        self.next_time = now + (now - started) / MAX_WRITING_SHARE

    def _write(self, board: Leaderboard) -> None:
        """Write a leaderboard; say once if that is impossible."""
        from mtlrun.comparison.result import save_unfinished

        try:
            self.file = save_unfinished(self.folder, board)
        except OSError as error:
            if not self.has_warned:
                say(
                    f"warning: cannot write into {self.folder}: "
                    f"{error.strerror or error}",
                    error=True,
                )
            self.has_warned = True

    def _show(self, board: Leaderboard) -> None:
        """Show how far the comparison is, best methods first, every few seconds."""
        from mtlrun.comparison.leaderboard import leaderboard_grid
        from mtlrun.show.report_table import text_lines

        now = clock.monotonic()
        if self.quiet or board.progress is None:
            return
        self.last_progress = board.progress
        self.last_time = now
        is_last = board.progress.n_done == board.progress.n_jobs
        if now < self.next_report and (not is_last or self.has_shown_all):
            return
        self.has_shown_all = is_last
        if self.live is None:
            self.next_report = now + LINE_SECONDS
            gains = []
            for record in leaderboard_grid(board).records()[:MAX_NAMED_METHODS]:
                text = record["method"]
                gain = record["gain"]
                if gain is not None:
                    text += f" ({gain:+.3f})"
                gains.append(text)
            best = f"best so far (gain): {', '.join(gains)}"
            self.say(f"{board.progress.text}; {best}")
            return
        self.next_report = now + LIVE_SECONDS
        # The verdict and the messages take a few lines below the table.
        n_lines = max(self.console.height - 8, 5)
        grid = brief_grid(board, n_lines)
        lines = text_lines(grid, self.console.width, ("kind",))
        lines.append("")
        lines += prose_lines(f"so far: {board.answer.text}", self.console)
        self.shown_lines = lines
        self._draw(board.progress.text)

    def _draw(self, first_line: str) -> None:
        """Show a line above the leaderboard on a terminal."""
        from rich.text import Text

        if self.live is not None:
            lines = [first_line, "", *self.shown_lines]
            self.live.update(Text("\n".join(map(sanitize, lines))), refresh=True)

    def _beat(self) -> None:
        """Show from time to time that a long fit is running; a thread runs this."""
        interval = HEARTBEAT_SECONDS if self.live is None else 1.0
        while not self.has_ended.wait(interval):
            seconds = clock.monotonic() - self.last_time
            if self.last_progress is None or seconds < interval:
                continue
            text = self.last_progress.later(seconds).text
            if self.live is None:
                self.say(f"{text} (for {seconds:.0f} s)")
            else:
                self._draw(text)

    def keep_last(self) -> None:
        """Write the leaderboard that `keep` has put off, if any, and print its path."""
        if self.pending is not None:
            self._write(self.pending)
        if self.file is not None and self.file.exists():
            say(f"finished so far: {self.file}", error=True)


def brief_grid(board: Leaderboard, max_rows: int) -> ReportTable:
    """Return the rows of the leaderboard that matter, with their gains.

    They are the best method of each strategy, the reference of the gains, and the best
    of the other methods.
    """
    from mtlrun.comparison.leaderboard import leaderboard_grid
    from mtlrun.comparison.verdict import VERDICT_FAMILIES

    labels = {board.against}
    for family in VERDICT_FAMILIES:
        best = board.best(family)
        if best is not None:
            labels.add(best.label)
    for entry in board.ranked():
        if len(labels) < max_rows:
            labels.add(entry.label)
    grid = leaderboard_grid(board)
    column = grid.names.index("method")
    grid.rows = [row for row in grid.rows if row[column] in labels]
    names = enumerate(grid.names)
    return grid.part([index for index, name in names if name not in DROP_FIRST])


def _show_result(result: Comparison, *, explain: bool) -> None:
    """Print the answer, then the leaderboard and what it means."""
    from mtlrun.comparison.leaderboard import (
        caption,
        curve_grid,
        leaderboard_grid,
    )
    from mtlrun.show.report_table import score, text_lines

    board = result.board
    width = output().width
    say_prose(f"{board.answer.headline}.")
    best = board.best()
    if best is not None and best.score is not None:
        say(f"Best: {best.label} {score(best.score)} ({board.metric})")
    say_prose(board.answer.sentence)
    if explain:
        for line in board.answer.brief or board.answer.details:
            say_prose(f"  {line}")
    say("")
    if explain:
        _say_lines(text_lines(leaderboard_grid(board), width, DROP_FIRST))
        say("")
        for line in caption(board):
            say_prose(line)
        for line in board.left_out:
            say_prose(f"stopped or left out: {line}")
    else:
        grid = brief_grid(board, MAX_ROWS)
        _say_lines(text_lines(grid, width, ("kind",)))
        note = ""
        if board.reference is not None:
            note = f"Gain over {board.against}, with its 95% interval."
        n_tested = len(board.ranked())
        n_more = n_tested - len(grid.rows)
        if n_more > 0:
            note += f" {counted(n_more, 'more method')} in the report."
        n_untested = len(board.entries) - n_tested
        if n_untested:
            note += f" {n_untested} stopped early, failed or unfinished."
        say_prose(f"{note} Explanations: --explain.".strip())
    if result.curve is not None:
        say("")
        _say_lines(text_lines(curve_grid(result.curve), width, ("part",)))
    say("")
    for line in board.interval_lines:
        say_prose(line)


def _say_lines(lines: list[str]) -> None:
    for line in lines:
        say(line)


def show_files(result: Comparison, folder: Path, *, explain: bool) -> None:
    """Print which files were written, and the next commands."""
    from mtlrun.comparison.leaderboard import next_steps
    from mtlrun.model.files import trust_options

    model = folder / "model"
    command = ["mtlrun predict", shlex.quote(str(model)), "FILE", trust_options(model)]
    say(f"report: {folder / 'leaderboard.html'}")
    say(f"best model, {result.saved}: {model}")
    for step in next_steps(result.board, result.saved):
        say_prose(step)
    say(f"predict new rows: {' '.join(filter(None, command))}")
    if not explain:
        return
    say("the report also as .md, .json and .csv; the tasks: tasks.csv")
    settings = folder / "chosen.yaml"
    if settings.is_file():
        say(f"settings of the model: {settings}")
    say(f"how it predicts: mtlrun show {shlex.quote(str(model))}")
