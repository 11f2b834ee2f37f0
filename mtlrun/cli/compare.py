"""``mtlrun compare``: which multi-task method helps on data of the user's own."""

from __future__ import annotations

import math
import shlex
import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtlrun.cli import options
from mtlrun.cli.console import say
from mtlrun.cli.options import OUTPUT_DEFAULT

if TYPE_CHECKING:
    from mtlrun.report.grid import Grid

COLUMNS = "What the columns are"
#: Columns of the leaderboard that a narrow terminal goes without.
DROP_FIRST = ("p", "avg rank", "std", "kind")
#: After a writing of the unfinished leaderboard that took long, wait so many times as long until the next.
WAIT = 20

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="Table: .csv .tsv .txt .parquet .arff .mat .svm, text formats also with .gz .bz2 .xz."
    ),
]
Target = Annotated[
    str | None, typer.Option("--target", "-t", metavar="COLUMN", help="Column to predict.", rich_help_panel=COLUMNS)
]
TaskColumn = Annotated[
    str | None,
    typer.Option(
        "--task-column", metavar="COLUMN", help="Column that names the task of every row.", rich_help_panel=COLUMNS
    ),
]
Targets = Annotated[
    str | None,
    typer.Option(
        "--targets", metavar="A,B,C", help="Columns to predict, each a task on the same rows.", rich_help_panel=COLUMNS
    ),
]
LabelFile = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE.xml", help="Mulan's list of labels: the targets.", rich_help_panel=COLUMNS),
]
TaskType = Annotated[
    str | None,
    typer.Option(
        "--task-type",
        metavar="TYPE",
        help="binary, regression or multiclass (one task per class); default: told by the values.",
        rich_help_panel=COLUMNS,
    ),
]
Positive = Annotated[
    str | None,
    typer.Option("--positive", metavar="LABEL", help="The label that means +1.", rich_help_panel=COLUMNS),
]
Weight = Annotated[
    str | None,
    typer.Option("--weight-column", metavar="COLUMN", help="Weights of the rows.", rich_help_panel=COLUMNS),
]
Drop = Annotated[
    str | None, typer.Option("--drop", metavar="A,B,C", help="Columns that are no features.", rich_help_panel=COLUMNS)
]
Categorical = Annotated[
    str | None,
    typer.Option("--categorical", metavar="A,B,C", help="Columns whose numbers are names.", rich_help_panel=COLUMNS),
]
MinRows = Annotated[
    int | None,
    typer.Option("--min-rows", metavar="N", min=4, help="Leave out tasks with fewer rows.", rich_help_panel=COLUMNS),
]
Test = Annotated[
    Path | None,
    typer.Option("--test", metavar="FILE", help="Rows to test on, instead of splits.", rich_help_panel=options.HOW),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--split-group",
        metavar="COLUMN",
        help="Rows of one group stay on one side of a split.",
        rich_help_panel=options.HOW,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time", metavar="COLUMN", help="Train on earlier rows, test on later ones.", rich_help_panel=options.HOW
    ),
]
Unseen = Annotated[
    str,
    typer.Option(
        "--unseen",
        metavar="error|mean",
        help="Tasks without training rows: refuse them, or take the mean of all tasks' models.",
        rich_help_panel=options.HOW,
    ),
]
Methods = Annotated[
    str | None,
    typer.Option(
        "--methods",
        metavar="A,B,C",
        help="Names of `mtlrun list methods`, package.module:Class, or default; two baselines are always there.",
        rich_help_panel=options.HOW,
    ),
]
MetricName = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="Default: auc for labels, rmse or nmse for numbers.",
        rich_help_panel=options.HOW,
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        "--budget",
        metavar="MINUTES",
        help="Time to spend; grids are reduced, and what does not fit is left out.",
        rich_help_panel=options.HOW,
    ),
]
Splits = Annotated[
    int | None,
    typer.Option("--splits", metavar="N", min=1, help="Repeated splits; default 2 to 5.", rich_help_panel=options.HOW),
]
Calibrate = Annotated[
    bool,
    typer.Option("--calibrate", help="Let the saved classifier give probabilities.", rich_help_panel=options.HOW),
]


def compare(
    data: Data,
    target: Target = None,
    task_column: TaskColumn = None,
    targets: Targets = None,
    label_file: LabelFile = None,
    task_type: TaskType = None,
    positive: Positive = None,
    weight: Weight = None,
    drop: Drop = None,
    categorical: Categorical = None,
    min_rows: MinRows = None,
    test: Test = None,
    group: Group = None,
    time: Time = None,
    unseen: Unseen = "error",
    methods: Methods = None,
    metric: MetricName = None,
    budget: Budget = None,
    splits: Splits = None,
    calibrate: Calibrate = False,
    seed: options.Seed = None,
    jobs: options.Jobs = 1,
    output_dir: options.Output = OUTPUT_DEFAULT,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Compare multi-task methods and baselines on a table: leaderboard, verdict, best model."""
    from mtlrun.runs.compare import compare as run
    from mtlrun.runs.compare import short_name
    from mtlrun.runs.folders import check_folder

    folder = output_dir / "compare" / short_name(data)
    check_folder(folder)

    def progress(text: str) -> None:
        if not quiet:
            say(text, error=True)

    kept = _Kept(folder)
    try:
        result = run(
            data,
            target=target,
            task=task_column,
            targets=_names(targets),
            labels=label_file,
            test=test,
            say=progress,
            finished=kept,
            output=folder,
            task_type=task_type,
            positive=positive,
            weight=weight,
            drop=_names(drop),
            categorical=_names(categorical),
            min_rows=min_rows,
            group=group,
            time=time,
            unseen=unseen,
            methods=_names(methods),
            metric=metric,
            budget=budget,
            splits=splits,
            calibrate=calibrate,
            seed=seed or 0,
            jobs=jobs,
        )
        _save(result, folder)
    except BaseException:  # a Ctrl-C, too
        kept.tell()
        raise
    _show_files(result, folder)


class _Kept:
    """Writes the leaderboard of what is finished, so that it is there whatever ends the comparison."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file: Path | None = None
        self.refused = False
        self.next = -math.inf

    def __call__(self, board: Any) -> None:
        from mtlrun.runs.comparison import save_unfinished

        started = clock.monotonic()
        if started < self.next:
            return
        try:
            self.file = save_unfinished(self.folder, board)
        except OSError as error:
            if not self.refused:
                say(f"warning: {self.folder}: cannot be written: {error.strerror or error}", error=True)
            self.refused = True
        seconds = clock.monotonic() - started
        if seconds > 1:  # 15 s with 20,000 tasks: it shall take a small part of the time of the fits
            self.next = started + WAIT * seconds

    def tell(self) -> None:
        """Say where it is."""
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
    from mtlrun.report.leaderboard import leaderboard_grid

    for line in _fitting(leaderboard_grid(result.board), output().width):
        say(line)
    for line in result.board.left_out:
        say(f"left out: {line}")
    say("")
    say(result.verdict)
    say("")


def _show_files(result: Any, folder: Path) -> None:
    from mtlrun.models import trust_options

    say(f"written: {folder}")
    say(f"  leaderboard.html .md .json tasks.csv; {result.board.ranked()[0].label}: chosen.yaml, model")
    command = ["mtlrun predict", shlex.quote(str(folder / "model")), "FILE", trust_options(folder / "model")]
    say(f"  new rows: {' '.join(filter(None, command))}")


def _fitting(grid: Grid, width: int) -> list[str]:
    """Return the lines of a table, without the least needed columns where it would be too wide."""
    from mtlrun.report.grid import Grid, pad

    for drop in ("", *DROP_FIRST):
        keep = [i for i, column in enumerate(grid.columns) if column.name != drop]
        grid = Grid([grid.columns[i] for i in keep], [[row[i] for i in keep] for row in grid.rows])
        rows = [[column.name for column in grid.columns], *grid.texts()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(keep))]
        lines = ["  ".join(pad(row, widths, [c.kind != "text" for c in grid.columns])).rstrip() for row in rows]
        if max(map(len, lines)) <= width:
            break
    return lines
