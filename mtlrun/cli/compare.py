"""``mtlrun compare``: which multi-task method helps on the user's own data."""

from __future__ import annotations

import math
import shlex
import sys
import time as clock
from pathlib import Path
from typing import Annotated, Any

import typer

from mtlrun.cli import complete, options
from mtlrun.cli.console import interactive, say
from mtlrun.cli.options import OUTPUT_DEFAULT, option
from mtlrun.utils.text import sanitize

#: Panels of the help.
COLUMNS, PROTOCOL = "Roles of the columns", "How to compare"
#: Columns of the leaderboard that are left out on a narrow terminal, in this order.
DROP_FIRST = ("std", "splits", "better in", "kind", "seconds")
#: Writing the unfinished leaderboard may take 1/WAIT of the time where it takes more than SLOW seconds.
WAIT, SLOW = 20, 0.2


def compare(
    data: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA",
            help="Table: .csv, .tsv, .txt, .xlsx, .parquet, .arff, .mat or .svm; text files also compressed (.gz, "
            ".bz2, .xz). An .arff file may be followed by Mulan's list of its labels.",
        ),
    ],
    target: Annotated[
        str | None, option(COLUMNS, "--target", "-t", metavar="COLUMN", help="Column to predict.")
    ] = None,
    task: Annotated[
        str | None, option(COLUMNS, "--task", metavar="COLUMN", help="Column that names the task of each row.")
    ] = None,
    targets: Annotated[
        str | None,
        option(
            COLUMNS,
            "--targets",
            metavar="A,B,C",
            help="Several columns to predict, one task each, on the same rows; 'y*' stands for all that match.",
        ),
    ] = None,
    targets_last: Annotated[
        int | None,
        option(COLUMNS, "--targets-last", metavar="N", min=1, help="The last N columns are the columns to predict."),
    ] = None,
    labels: Annotated[
        Path | None,
        option(
            COLUMNS, "--labels", metavar="FILE.xml", help="List of labels in Mulan's format: the columns to predict."
        ),
    ] = None,
    task_type: Annotated[
        str | None,
        option(
            COLUMNS,
            "--task-type",
            metavar="TYPE",
            help="binary, regression or multiclass (one task per class). Default: inferred from the targets.",
            autocompletion=complete.words("binary", "regression", "multiclass"),
        ),
    ] = None,
    positive: Annotated[
        str | None, option(COLUMNS, "--positive", metavar="LABEL", help="Label of the positive class (+1).")
    ] = None,
    weight: Annotated[
        str | None, option(COLUMNS, "--weight", metavar="COLUMN", help="Column with the weights of the rows.")
    ] = None,
    drop: Annotated[str | None, option(COLUMNS, "--drop", metavar="A,B,C", help="Columns to ignore.")] = None,
    categorical: Annotated[
        str | None,
        option(
            COLUMNS, "--categorical", metavar="A,B,C", help="Numeric columns to treat as categories (one-hot encoded)."
        ),
    ] = None,
    min_rows: Annotated[
        int | None, option(COLUMNS, "--min-rows", metavar="N", min=4, help="Leave out tasks with fewer rows than this.")
    ] = None,
    test: Annotated[
        Path | None, option(PROTOCOL, "--test", metavar="FILE", help="Table of test rows, instead of cross-validation.")
    ] = None,
    group: Annotated[
        str | None,
        option(PROTOCOL, "--group", metavar="COLUMN", help="Never split rows with the same value in this column."),
    ] = None,
    time: Annotated[
        str | None,
        option(
            PROTOCOL, "--time", metavar="COLUMN", help="Train on earlier rows and test on later ones by this column."
        ),
    ] = None,
    unseen: Annotated[
        str,
        option(
            PROTOCOL,
            "--unseen",
            metavar="error|mean",
            help="Tasks without training rows: raise an error, or predict with the mean of all task models.",
            autocompletion=complete.words("error", "mean"),
        ),
    ] = "error",
    methods: Annotated[
        str | None,
        option(
            PROTOCOL,
            "--methods",
            metavar="A,B,C",
            help="Methods to compare: names from `mtlrun list methods`, package.module:Class, or default. Four "
            "baselines are always included.",
            autocompletion=complete.methods,
        ),
    ] = None,
    family: Annotated[
        list[str] | None,
        option(
            PROTOCOL,
            "--family",
            metavar="FAMILY=CLASS",
            help="Let a class of your own compete in the verdict, for instance as multi-task=package.module:Class.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        option(
            PROTOCOL,
            "--metric",
            metavar="NAME",
            help="Score to compare by. Default: auc for labels, rmse or nmse for numbers.",
            autocompletion=complete.metrics,
        ),
    ] = None,
    budget: Annotated[
        float | None,
        option(
            PROTOCOL,
            "--budget",
            metavar="MINUTES",
            help="Time limit: cheap methods come first, and what is finished by then is compared.",
        ),
    ] = None,
    splits: Annotated[int, option(PROTOCOL, "--splits", metavar="K", min=2, help="Folds of the cross-validation.")] = 5,
    repeats: Annotated[
        int,
        option(
            PROTOCOL,
            "--repeats",
            metavar="R",
            min=1,
            help="How often the folds are drawn. One repeat gives a provisional verdict.",
        ),
    ] = 2,
    smallest_gain: Annotated[
        float | None,
        option(
            PROTOCOL,
            "--smallest-gain",
            metavar="GAIN",
            help="Smallest gain of interest: a share of the error, or points of AUC. Default: 0.01, or 0.005 of AUC.",
        ),
    ] = None,
    folds: Annotated[
        int | None,
        option(PROTOCOL, "--folds", metavar="N", min=2, help="Folds of the search of parameters. Default: 3."),
    ] = None,
    curve: Annotated[
        bool,
        option(
            PROTOCOL, "--curve", help="Repeat the comparison with 10, 20 and 50% of the training rows of each task."
        ),
    ] = False,
    calibrate: Annotated[
        bool, option(PROTOCOL, "--calibrate", help="Make the saved classifier predict probabilities.")
    ] = False,
    seed: Annotated[int, option(PROTOCOL, "--seed", metavar="N", min=0, help="Seed of the folds.")] = 0,
    jobs: options.Jobs = 1,
    retries: options.Retries = 0,
    output_dir: options.Output = OUTPUT_DEFAULT,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
    task_column: Annotated[str | None, typer.Option("--task-column", hidden=True)] = None,
    weight_column: Annotated[str | None, typer.Option("--weight-column", hidden=True)] = None,
    split_group: Annotated[str | None, typer.Option("--split-group", hidden=True)] = None,
) -> None:
    """Compare multi-task methods and baselines on your own table.

    Name either a column to predict and a column of tasks (--target, --task), or several columns to predict
    (--targets). Every method is tuned and tested on the same folds. The leaderboard and a verdict are printed;
    the report and the best model, ready for `mtlrun predict`, are written to DIR/compare/<name of the table>.
    """
    from mtlrun.data.files import data_file

    for path in filter(None, (*data, test, labels)):
        data_file(path)  # one that is not there is named at once, before seconds of imports
    from mtlrun.runs.compare import compare as run
    from mtlrun.runs.compare import short_name
    from mtlrun.runs.store import check_folder

    table = next((path for path in data if path.suffix != ".xml"), data[0])
    folder = output_dir / "compare" / short_name(table)
    check_folder(folder)

    kept = _Kept(folder, quiet)
    try:
        result = run(
            data,
            target=target,
            task=task or task_column,
            targets=_names(targets),
            targets_last=targets_last,
            labels=labels,
            test=test,
            say=kept.progress,
            finished=kept,
            output=folder,
            task_type=task_type,
            positive=positive,
            weight=weight or weight_column,
            drop=_names(drop),
            categorical=_names(categorical),
            min_rows=min_rows,
            group=group or split_group,
            time=time,
            unseen=unseen,
            methods=_names(methods),
            metric=metric,
            budget=budget,
            splits=splits,
            repeats=repeats,
            smallest_gain=smallest_gain,
            family=tuple(family or ()),
            folds=folds,
            curve=curve,
            calibrate=calibrate,
            seed=seed,
            jobs=jobs,
            retries=retries,
        )
        kept.end()
        _save(result, folder)
    except BaseException:  # a Ctrl-C, too
        kept.end()
        kept.tell()
        raise
    _show_files(result, folder)


class _Live:
    """A leaderboard on the terminal that grows while the comparison runs."""

    def __init__(self) -> None:
        from rich.live import Live

        from mtlrun.cli.console import messages

        self.console = messages()
        self.live = Live(console=self.console, transient=True, auto_refresh=False)
        self.live.start()

    def say(self, text: str) -> None:
        """Print a line above the leaderboard."""
        self.console.print(sanitize(text), soft_wrap=True, markup=False, highlight=False)

    def show(self, board: Any) -> None:
        """Show the leaderboard so far: as many methods as fit, and the verdict as it stands."""
        from rich.text import Text

        from mtlrun.report.grid import text_lines
        from mtlrun.report.leaderboard import leaderboard_grid

        lines = text_lines(leaderboard_grid(board), self.console.width, DROP_FIRST)[: max(self.console.height - 6, 5)]
        self.live.update(Text(_plain([*lines, "", *board.left_out, board.answer.sentence])), refresh=True)

    def end(self) -> None:
        """Leave the screen to the final leaderboard."""
        self.live.stop()


def _plain(lines: list[str]) -> str:
    """Return lines of a display without control characters."""
    return "\n".join(sanitize(line) for line in lines)


class _Kept:
    """Writes the leaderboard of what is finished, so that it survives whatever ends the comparison, and shows it."""

    def __init__(self, folder: Path, quiet: bool) -> None:
        self.folder = folder
        self.quiet = quiet
        self.live = None if quiet or not interactive(sys.stderr) else _Live()
        self.file: Path | None = None
        self.refused = False
        self.next = -math.inf
        self.board: Any = None  # one that was not written

    def progress(self, text: str) -> None:
        """Tell a line."""
        if self.live is not None:
            self.live.say(text)
        elif not self.quiet:
            say(text, error=True)

    def __call__(self, board: Any) -> None:
        from mtlrun.runs.comparison import save_unfinished

        started = clock.monotonic()
        self.board = board
        if started < self.next:
            return
        self.board = None
        try:
            self.file = save_unfinished(self.folder, board)
        except OSError as error:
            if not self.refused:
                say(f"warning: cannot write into {self.folder}: {error.strerror or error}", error=True)
            self.refused = True
        if self.live is not None:
            self.live.show(board)
        now = clock.monotonic()
        if now - started > SLOW:
            self.next = now + WAIT * (now - started)  # a small part of the time of the fits is enough

    def end(self) -> None:
        """End the display."""
        if self.live is not None:
            self.live.end()

    def tell(self) -> None:
        """Say where it was written, the last one too."""
        self.next = -math.inf
        if self.board is not None:
            self(self.board)
        if self.file is not None and self.file.exists():
            say(f"finished so far: {self.file}", error=True)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _save(result: Any, folder: Path) -> None:
    try:
        result.save(folder)
    finally:  # a leaderboard that cannot be written can still be read
        _show_board(result)


def _show_board(result: Any) -> None:
    from mtlrun.cli.console import output
    from mtlrun.report.grid import text_lines
    from mtlrun.report.leaderboard import caption, leaderboard_grid

    for line in text_lines(leaderboard_grid(result.board), output().width, DROP_FIRST):
        say(line)
    say("")
    say(caption(result.board))
    if result.curve is not None:
        from mtlrun.runs.curve import curve_grid

        say("")
        for line in text_lines(curve_grid(result.curve), output().width, ("part",)):
            say(line)
    for line in result.board.left_out:
        say(f"left out: {line}")
    say("")
    say(result.verdict)
    for line in result.board.answer.details:
        say(f"  {line}")
    say("")


def _show_files(result: Any, folder: Path) -> None:
    from mtlrun.models import trust_options

    model = folder / "model"
    command = ["mtlrun predict", shlex.quote(str(model)), "FILE", trust_options(model)]
    say(f"report: {folder / 'leaderboard.html'} (also .md, .json, .csv; tasks.csv)")
    say(f"best model, {result.board.ranked()[0].label}: {model} (settings: {folder / 'chosen.yaml'})")
    say(f"predict new rows: {' '.join(filter(None, command))}")
