"""``mtlrun compare``: compare methods on a table of the user."""

from __future__ import annotations

import glob
import math
import shlex
import sys
import time as clock
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from mtlrun.errors import counted
from mtlrun.utils.text import sanitize

if TYPE_CHECKING:
    from mtlrun.comparison.leaderboard import Leaderboard
    from mtlrun.comparison.options import CompareOptions, TargetColumns
    from mtlrun.comparison.result import Comparison
    from mtlrun.data.roles.roles import Roles
    from mtlrun.show.report_table import ReportTable

#: Make an option of the command, in one of the two panels of its help.
column = partial(options.option, "Roles of the columns")
protocol = partial(options.option, "How to compare")
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
#: Writing the unfinished leaderboard takes at most this share of the time.
MAX_WRITING_SHARE = 1 / 20


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
    target: Annotated[
        str | None, column("COLUMN", "Column to predict.", "--target", "-t")
    ] = None,
    sheet: options.Sheet = None,
    task: Annotated[
        str | None, column("COLUMN", "Column that names the task of each row.")
    ] = None,
    targets: Annotated[
        list[str] | None,
        column(
            "A,B,C",
            "Several columns to predict, one task each, on the same rows; 'y*' stands "
            "for all that match. Repeatable; names with commas in double quotes.",
        ),
    ] = None,
    targets_last: Annotated[
        int | None, column("N", "The last N columns are the columns to predict.", min=1)
    ] = None,
    labels: Annotated[
        Path | None,
        column("FILE.xml", "List of labels in Mulan's format: the columns to predict."),
    ] = None,
    task_type: Annotated[
        str | None,
        column(
            "TYPE",
            "binary, regression or multiclass (one task per class). Default: inferred "
            "from the targets.",
            autocompletion=options.words("binary", "regression", "multiclass"),
        ),
    ] = None,
    positive: Annotated[
        str | None, column("LABEL", "Label of the positive class (+1).")
    ] = None,
    weight: Annotated[
        str | None, column("COLUMN", "Column with the weights of the rows.")
    ] = None,
    drop: Annotated[
        list[str] | None, column("A,B,C", "Columns to ignore. Repeatable.")
    ] = None,
    categorical: Annotated[
        list[str] | None,
        column(
            "A,B,C",
            "Columns to treat as categories (one-hot encoded): numbers that are names, "
            "and mixed columns. Repeatable.",
        ),
    ] = None,
    mixed: Annotated[
        str,
        column(
            "error|categories",
            "Columns that mix numbers and words: report them all and stop, or treat "
            "them as categories.",
            autocompletion=options.words("error", "categories"),
        ),
    ] = "error",
    keep: Annotated[
        list[str] | None,
        column(
            "A,B,C",
            "Columns to keep as features that would be left out as identifiers, such "
            "as row numbers. Repeatable.",
        ),
    ] = None,
    task_order: Annotated[
        list[str] | None,
        column(
            "A,B,C",
            "Order of the tasks, for methods that chain them (each task leans on its "
            "neighbors, as years do). Tasks not named come after these. Default: "
            "sorted, numbers by value. Repeatable.",
        ),
    ] = None,
    transform: Annotated[
        str | None,
        column(
            "log|sqrt|logit",
            "Fit and compare on this scale of the columns to predict; predictions and "
            "intervals are in their own units.",
            autocompletion=options.words("log", "sqrt", "logit"),
        ),
    ] = None,
    min_rows: Annotated[
        int | None,
        column(
            "N",
            "Leave out tasks with fewer rows than this. Default: all tasks are kept.",
            min=1,
        ),
    ] = None,
    test: Annotated[
        Path | None,
        protocol("FILE", "Table of test rows, instead of cross-validation."),
    ] = None,
    group: Annotated[
        str | None,
        protocol(
            "COLUMN",
            "Keep rows with the same value in the same fold, such as a pupil with "
            "several rows.",
        ),
    ] = None,
    also_grouped_by: Annotated[
        list[str] | None,
        column(
            "A,B,C",
            "Columns of further groups, within the tasks or across them, such as the "
            "pupil where the task is the school: SmoothMTL gives each group a level. "
            "They are not features. Repeatable.",
        ),
    ] = None,
    time: Annotated[
        str | None,
        protocol(
            "COLUMN",
            "Predict the next rows of known tasks: test the last rows of each task, by "
            "this number or date, after training on its earlier rows.",
        ),
    ] = None,
    time_blocks: Annotated[
        bool,
        protocol(
            None,
            "With --time: test blocks of time over all tasks, each after training on "
            "all rows before it.",
            "--time-blocks",
        ),
    ] = False,
    new_tasks: Annotated[
        bool,
        protocol(
            None,
            "Predict new tasks: test whole tasks, after training on the other ones.",
            "--new-tasks",
        ),
    ] = False,
    since_first: Annotated[
        str | None,
        column(
            "COLUMN",
            "Make the time since the first row of the task a feature, by this number "
            "or date.",
        ),
    ] = None,
    unseen: Annotated[
        str,
        protocol(
            "error|mean",
            "Tasks without training rows: raise an error, or predict with the mean of "
            "all task models.",
            autocompletion=options.words("error", "mean"),
        ),
    ] = "error",
    methods: Annotated[
        list[str] | None,
        protocol(
            "A,B,C",
            "Methods to compare: names from `mtlrun list methods`, "
            "package.module:Class, or default. Always included: TaskMean (the mean of "
            "every task), IndependentRidge and IndependentRidgeCV (a model per task) "
            "and PooledRidge (one for all), or the same for labels. Repeatable.",
            autocompletion=options.methods,
        ),
    ] = None,
    family: Annotated[
        list[str] | None,
        protocol(
            "FAMILY=CLASS",
            "Let a class of your own of --methods compete in the verdict, as one of "
            "trivial, independent, pooled or multi-task: "
            "multi-task=package.module:Class. Without it the class is only listed.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        protocol(
            "NAME",
            "Score to compare by. Default: auc or log_loss for labels, rmse or nmse for "
            "numbers.",
            autocompletion=options.metrics,
        ),
    ] = None,
    budget: Annotated[
        float | None,
        protocol(
            "MINUTES",
            "Time limit: cheap methods come first, and what is finished by then is "
            "compared.",
        ),
    ] = None,
    splits: Annotated[int, protocol("K", "Folds of the cross-validation.", min=2)] = 5,
    repeats: Annotated[
        int,
        protocol(
            "R",
            "How often the folds are drawn. More than once hardly changes the verdict.",
            min=1,
        ),
    ] = 1,
    smallest_gain: Annotated[
        float | None,
        protocol(
            "GAIN",
            "Smallest gain of interest: a share of the error, or points of AUC. "
            "Default: 0.01, or 0.005 of AUC.",
        ),
    ] = None,
    margin: Annotated[
        float | None,
        protocol(
            "LOSS",
            "Accepted loss: multi-task learning is safe if it has at most this much "
            "more error than each alternative. Default: 0.02, or 0.01 of AUC.",
        ),
    ] = None,
    folds: Annotated[
        int | None, protocol("N", "Folds of the parameter search. Default: 5.", min=2)
    ] = None,
    curve: Annotated[
        bool,
        protocol(
            None,
            "Repeat the comparison with 10, 20 and 50% of the training rows of each "
            "task.",
            "--curve",
        ),
    ] = False,
    racing: Annotated[
        bool,
        protocol(
            None,
            "Stop default methods that are far behind after the first folds of the "
            "parameter search. Methods that --methods names are never stopped.",
            "--racing/--no-racing",
        ),
    ] = True,
    calibrate: Annotated[
        bool,
        protocol(
            None, "Make the saved classifier predict probabilities.", "--calibrate"
        ),
    ] = False,
    seed: Annotated[int, protocol("N", "Seed of the folds.", min=0)] = 0,
    jobs: options.Jobs = 1,
    backend: options.Backend = None,
    scheduler: options.Scheduler = None,
    retries: options.Retries = 0,
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
    for path in filter(None, (*data, test, labels)):
        if not (path.is_dir() or glob.has_magic(str(path))):
            data_file(path)
    from mtlrun.comparison.compare import short_name
    from mtlrun.comparison.options import FOLDS, CompareOptions, TargetColumns
    from mtlrun.comparison.result import refuse_tables
    from mtlrun.data.roles.roles import Roles
    from mtlrun.engine.store import check_folder

    # The results are named after the table, not after Mulan's list of its labels.
    table = next((path for path in data if path.suffix != ".xml"), data[0])
    ending = folder_ending(time, time_blocks=time_blocks, new_tasks=new_tasks)
    folder = output_dir / "compare" / f"{short_name(table)}{ending}"
    check_folder(folder, output_dir)
    refuse_tables(folder, [*data, *filter(None, (test, labels))])

    columns = TargetColumns(
        target=target,
        targets=_not_blank(targets),
        targets_last=targets_last,
        labels=labels,
    )
    roles = Roles(
        task=task,
        task_type=task_type,
        positive=positive,
        weight=weight,
        group=group,
        time=time,
        time_blocks=time_blocks,
        new_tasks=new_tasks,
        since_first=since_first,
        transform=transform,
        drop=_not_blank(drop),
        categorical=_not_blank(categorical),
        keep=_not_blank(keep),
        mixed=mixed,
        min_rows=min_rows,
        unseen=unseen,
        task_order=_not_blank(task_order),
        also_grouped_by=_not_blank(also_grouped_by),
    )
    compare_options = CompareOptions(
        methods=_method_names(methods),
        metric=metric,
        budget=budget,
        splits=splits,
        repeats=repeats,
        folds=FOLDS if folds is None else folds,
        seed=seed,
        jobs=jobs,
        retries=retries,
        calibrate=calibrate,
        smallest_gain=smallest_gain,
        margin=margin,
        family=_not_blank(family),
        curve=curve,
        racing=racing,
        backend=backend,
        scheduler=scheduler,
    )
    progress = CompareProgress(folder, quiet=quiet, explain=explain)
    result = _run(data, columns, roles, compare_options, test, progress)
    _show_files(result, folder, explain=explain)


def folder_ending(time: str | None, *, time_blocks: bool, new_tasks: bool) -> str:
    """Return the ending of the folder of results, one for each question of a table."""
    if new_tasks:
        return "-new-tasks"
    if time_blocks:
        return "-time-blocks"
    if time is not None:
        return "-by-time"
    return ""


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
        progress.end()
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
        progress.end()
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
            self.live.start()
        self.file: Path | None = None
        self.has_warned = False
        self.next_time = -math.inf
        self.next_report = -math.inf
        self.has_shown_all = False
        self.pending: Leaderboard | None = None

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
        from rich.text import Text

        from mtlrun.show.report_table import text_lines

        now = clock.monotonic()
        if self.quiet or board.progress is None:
            return
        is_last = board.progress.n_done == board.progress.n_jobs
        if now < self.next_report and (not is_last or self.has_shown_all):
            return
        self.has_shown_all = is_last
        if self.live is None:
            self.next_report = now + LINE_SECONDS
            self.say(f"{board.progress.text}; {_best_so_far(board)}")
            return
        self.next_report = now + LIVE_SECONDS
        # The verdict and the messages take a few lines below the table.
        n_lines = max(self.console.height - 8, 5)
        lines = [board.progress.text, ""]
        lines += text_lines(brief_grid(board, n_lines), self.console.width, ("kind",))
        lines.append("")
        lines += prose_lines(f"so far: {board.answer.text}", self.console)
        self.live.update(Text("\n".join(map(sanitize, lines))), refresh=True)

    def end(self) -> None:
        """End the display."""
        if self.live is not None:
            self.live.stop()

    def keep_last(self) -> None:
        """Write the leaderboard that `keep` has put off, if any, and print its path."""
        if self.pending is not None:
            self._write(self.pending)
        if self.file is not None and self.file.exists():
            say(f"finished so far: {self.file}", error=True)


def _not_blank(texts: list[str] | None) -> tuple[str, ...]:
    """Return the values of a repeatable option that are not blank."""
    return tuple(text for text in texts or () if text.strip())


def _method_names(texts: list[str] | None) -> tuple[str, ...]:
    """Return the names of methods in texts that separate them with commas."""
    names = ",".join(texts or ()).split(",")
    return _not_blank([name.strip() for name in names])


def _best_so_far(board: Leaderboard) -> str:
    """Return the best methods of an unfinished leaderboard and their gains."""
    from mtlrun.comparison.leaderboard import leaderboard_grid

    parts = []
    for record in leaderboard_grid(board).records()[:MAX_NAMED_METHODS]:
        text = record["method"]
        if record["gain"] is not None:
            text += f" ({record['gain']:+.3f})"
        parts.append(text)
    return f"best so far (gain): {', '.join(parts)}"


def brief_grid(board: Leaderboard, max_rows: int) -> ReportTable:
    """Return the rows of the leaderboard that matter, with their gains.

    They are the best method of each strategy, the reference of the gains, and the best
    of the other methods.
    """
    from mtlrun.comparison.leaderboard import leaderboard_grid
    from mtlrun.comparison.verdict import VERDICT_FAMILIES

    shown = {board.against}
    for family in VERDICT_FAMILIES:
        best = board.best(family)
        if best is not None:
            shown.add(best.label)
    for entry in board.ranked():
        if len(shown) < max_rows:
            shown.add(entry.label)
    grid = leaderboard_grid(board)
    column = grid.names.index("method")
    grid.rows = [row for row in grid.rows if row[column] in shown]
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
        say_prose(caption(board))
        for line in board.left_out:
            say_prose(f"stopped or left out: {line}")
    else:
        grid = brief_grid(board, MAX_ROWS)
        _say_lines(text_lines(grid, width, ("kind",)))
        say_prose(_brief_caption(board, n_shown=len(grid.rows)))
    if result.curve is not None:
        say("")
        _say_lines(text_lines(curve_grid(result.curve), width, ("part",)))
    say("")
    for line in board.interval_lines:
        say_prose(line)


def _say_lines(lines: list[str]) -> None:
    for line in lines:
        say(line)


def _brief_caption(board: Leaderboard, n_shown: int) -> str:
    """Return what the gains are, and how many methods the table leaves out."""
    text = ""
    if board.reference is not None:
        text = f"Gain over {board.against}, with its 95% interval."
    n_tested = len(board.ranked())
    if n_tested > n_shown:
        text += f" {counted(n_tested - n_shown, 'more method')} in the report."
    n_untested = len(board.entries) - n_tested
    if n_untested:
        text += f" {n_untested} stopped early, failed or unfinished."
    return f"{text} Explanations: --explain.".strip()


def _show_files(result: Comparison, folder: Path, *, explain: bool) -> None:
    """Print which files were written, and the next commands."""
    from mtlrun.comparison.leaderboard import selection_note
    from mtlrun.model.files import trust_options

    model = folder / "model"
    command = ["mtlrun predict", shlex.quote(str(model)), "FILE", trust_options(model)]
    say(f"report: {folder / 'leaderboard.html'}")
    say(f"best model, {result.saved}: {model}")
    note = selection_note(result.board)
    if note:
        say_prose(note)
    say(f"predict new rows: {' '.join(filter(None, command))}")
    if not explain:
        return
    say("the report also as .md, .json and .csv; the tasks: tasks.csv")
    settings = folder / "chosen.yaml"
    if settings.is_file():
        say(f"settings of the model: {settings}")
    say(f"how it predicts: mtlrun show {shlex.quote(str(model))}")
