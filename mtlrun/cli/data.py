"""The commands `mtlrun data`: list, describe, download, add and verify data sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import (
    confirm,
    download_progress,
    say,
    say_columns,
    say_json,
    say_prose,
    size_of,
)
from mtlrun.cli.options import (
    Command,
    DataDir,
    Group,
    Json,
    Yes,
    data_dir_option,
    option,
)
from mtlrun.errors import DataError, UserError, counted

if TYPE_CHECKING:
    from mtlrun.data.dataset import Dataset
    from mtlrun.data.sets.cards import Card
    from mtlrun.data.sets.load import Fact

app = typer.Typer(
    cls=Group,
    help="List, describe, download, add and verify data sets.",
    no_args_is_help=True,
)

Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Name of a data set, see `mtlrun data list`.",
        autocompletion=options.datasets,
    ),
]
VariantName = Annotated[
    str | None,
    option(
        None, "NAME", "Variant of the data set, see `mtlrun data info`.", "--variant"
    ),
]


@app.command("list", cls=Command)
def list_(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List all data sets with their size, and whether their files are available."""
    from mtlrun.data.sets.cards import card_paths, read_card
    from mtlrun.data.sets.files import data_directory

    folder = data_directory(data_dir)
    columns = ("id", "rows", "features", "tasks", "available", "title")
    rows: list[tuple[object, ...]] = []
    errors = []
    for path in card_paths(folder).values():
        try:
            card = read_card(path)
        except DataError as error:
            errors.append(error)
            continue
        sizes = [card.statistics.get(key, "?") for key in ("n", "d", "tasks")]
        rows.append((card.id, *sizes, _availability(card, folder), _title(card)))
    if as_json:
        datasets = [dict(zip(columns, row, strict=True)) for row in rows]
        say_json({"folder": str(folder), "datasets": datasets})
    else:
        say_columns([tuple(map(str.upper, columns)), *rows])
        say(f"\nData directory: {folder}")
    for card_error in errors:
        say(f"error: {card_error}", error=True)
    if errors:
        raise typer.Exit(2)


@app.command(cls=Command)
def info(id: Id, data_dir: DataDir = None, variant: VariantName = None) -> None:
    """Describe a data set: files with hashes, license, citation and statistics."""
    from mtlrun.data.sets.files import find_file, get_it, verify_file
    from mtlrun.data.sets.load import compare_statistics

    folder, (card,) = _cards(data_dir, id)
    selected = card.variant(variant)
    rows = [
        ("id", card.id),
        ("title", _title(card)),
        ("tasks", f"{card.task_type}, {card.design} design"),
        ("license", card.license),
        ("citation", card.citation),
        ("preprocessing", card.preprocessing),
        ("notes", selected.notes.strip()),
        ("variants", ", ".join(card.variants)),
        ("card", str(card.path)),
    ]
    lines = []
    for name, text in rows:
        if text:
            lines.append((f"{name}:", text.strip().replace("\n", " ")))
    say_columns(lines)
    if card.files:
        say(f"\nFiles in {folder / card.folder}:")
    missing = []
    for spec in card.needed(variant):
        if find_file(card, spec, folder) is None:
            say(f"  {spec.name}: missing, expected sha256 {spec.sha256 or 'unknown'}")
            missing.append(spec)
            continue
        file = verify_file(card, spec, folder)
        say(
            f"  {spec.name}: {_hash_status(card, spec.name)}, sha256 {file.sha256}, "
            f"{file.size} bytes, in {file.path.name}"
        )
    if missing:
        _show_statistics(compare_statistics({}, selected.statistics))
        remedy = get_it(card, missing, data_dir_option(data_dir))
        say(f"\n{counted(len(missing), 'file')} missing. {remedy}")
        return
    dataset, statistics = _load_statistics(card, variant, folder)
    say(f"\nfingerprint: {dataset.fingerprint}")
    _show_statistics(statistics)
    if not _report_differences(card, variant, statistics):
        raise typer.Exit(2)


@app.command(cls=Command)
def check(
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="A file with a row per example.")
    ],
    target: Annotated[
        list[str] | None,
        option(None, "COLUMN", "Column to predict. Repeatable.", "--target"),
    ] = None,
    task: Annotated[
        str | None, option(None, "COLUMN", "Column of tasks.", "--task")
    ] = None,
    time: Annotated[
        str | None,
        option(None, "COLUMN", "Column of a number or a date.", "--time"),
    ] = None,
    drop: Annotated[
        list[str] | None,
        option(None, "COLUMN", "Column to ignore. Repeatable.", "--drop"),
    ] = None,
    sheet: options.Sheet = None,
    as_json: Json = False,
) -> None:
    """Look at a table before anything is fitted: what in it may be wrong?

    Lists far cells, names that are written in several ways, tasks in another unit,
    columns that give the target away, repeated rows, and time that runs backwards.
    Nothing is changed.
    """
    from mtlrun.data.roles.check import check_table

    table = options.with_sheet(table, sheet)
    findings = check_table(
        table, target=target or (), task=task, time=time, drop=drop or ()
    )
    records = findings.to_dict("records")
    if as_json:
        say_json(records)
        return
    for record in records:
        mark = "may change the answer" if record["is_alarm"] else "note"
        say_prose(f"{mark}: {record['text']}: {record['effect']}")
    if not records:
        say("nothing odd was found")


@app.command(cls=Command)
def verify(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...",
            help="Data sets to check. Default: all available ones.",
            autocompletion=options.datasets,
        ),
    ] = None,
    data_dir: DataDir = None,
    files_only: Annotated[
        bool,
        typer.Option(
            "--files-only",
            metavar="",
            help="Check only the hashes of the files; load nothing.",
        ),
    ] = False,
) -> None:
    """Check hashes and statistics of data sets.

    Exits with code 2 if anything differs from the data card.
    """
    from mtlrun.data.sets.cards import card_paths
    from mtlrun.data.sets.files import data_directory

    names = ids or list(card_paths(data_directory(data_dir)))
    folder, cards = _cards(data_dir, *names)
    n_wrong = 0
    for card in cards:
        if not ids and _availability(card, folder) in ("no", "partly"):
            say(f"{card.id}: skipped, not all files are available")
            continue
        if not _verify(card, folder, files_only):
            n_wrong += 1
    if n_wrong:
        say(f"{counted(n_wrong, 'data set')} did not match the data card", error=True)
        raise typer.Exit(2)


@app.command(cls=Command)
def fetch(
    ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID", help="Data sets to download.", autocompletion=options.datasets
        ),
    ],
    data_dir: DataDir = None,
    variant: VariantName = None,
    url: Annotated[
        str | None,
        option(None, "URL", "Download from this address instead of the card's."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Download missing files, after asking, and verify their hashes."""
    from mtlrun.data.sets.fetch import check_address, fetch_dataset, shown_address
    from mtlrun.data.sets.files import get_it, missing_files

    if url is not None and len(ids) > 1:
        raise UserError(
            "--url needs a single data set", "Fetch the data sets one by one."
        )
    if url is not None:
        check_address(url)
    folder, cards = _cards(data_dir, *ids)
    for card in cards:
        if not card.files:
            say(f"{card.id}: built in, no files needed")
            continue
        missing = missing_files(card, variant, folder)
        without_url = [spec.name for spec in missing if not spec.urls]
        if without_url and url is None:
            names = ", ".join(without_url)
            raise DataError(
                f"data set {card.id} cannot be downloaded without {names}",
                get_it(card, missing, data_dir_option(data_dir)),
            )
        if missing or url is not None:
            size = "the file at this address"
            if missing:
                size = size_of(missing)
            source = f"license: {card.license}"
            if url is not None:
                source = f"from {shown_address(url)}"
            say(f"{card.id}: {size}, {source}, to {folder / card.folder}")
            confirm("Download?", yes=yes, doing="downloaded")
        with download_progress() as report:
            files = fetch_dataset(
                card,
                variant=variant,
                data_dir=folder,
                url=url,
                report=report,
            )
        for file in files:
            status = _hash_status(card, file.name)
            say(f"{card.id}: {file.name} {status}, {file.path}")


@app.command(cls=Command)
def add(
    id: Id,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The file, or an archive that contains it."
        ),
    ],
    data_dir: DataDir = None,
) -> None:
    """Add a file that you already have to the data directory.

    The file is recognized by its content, not by its name.
    """
    from mtlrun.data.sets.fetch import add_file
    from mtlrun.data.sets.files import missing_files

    folder, (card,) = _cards(data_dir, id)
    for stored in add_file(card, file, folder):
        status = _hash_status(card, stored.name)
        say(f"{card.id}: {stored.name} {status}, {stored.path}")
    missing = [spec.name for spec in missing_files(card, None, folder)]
    if missing:
        say(f"{card.id}: still missing: {', '.join(missing)}")
    else:
        say(f"{card.id}: complete")


def _cards(data_dir: Path | None, *ids: str) -> tuple[Path, list[Card]]:
    """Return the data directory and the cards of these data sets."""
    from mtlrun.data.sets.cards import check_id, load_card
    from mtlrun.data.sets.files import data_directory

    folder = data_directory(data_dir)
    return folder, [load_card(check_id(id), folder) for id in ids]


def _title(card: Card) -> str:
    if card.simulated:
        return f"{card.title} [simulated]"
    return card.title


def _availability(card: Card, folder: Path) -> str:
    from mtlrun.data.sets.files import missing_files

    needed = card.needed()
    if not needed:
        return "built in"
    missing = missing_files(card, None, folder)
    if not missing:
        return "yes"
    return "no" if len(missing) == len(needed) else "partly"


def _hash_status(card: Card, name: str) -> str:
    """Return whether the content of an accepted file was verified, as text."""
    has_hash = any(spec.name == name and spec.sha256 for spec in card.files)
    return "verified" if has_hash else "not verified (the data card has no hash)"


def _load_statistics(
    card: Card, variant: str | None, folder: Path
) -> tuple[Dataset, list[Fact]]:
    """Load a data set, and compare its statistics with the statistics on its card."""
    from mtlrun.data.sets.load import compare_statistics, load_dataset

    dataset = load_dataset(card.id, data_dir=folder, variant=variant)
    expected = card.variant(variant).statistics
    return dataset, compare_statistics(dataset.statistics(), expected)


def _report_differences(
    card: Card, variant: str | None, statistics: Sequence[Fact]
) -> bool:
    """Print the statistics that differ from the card; return whether all agree."""
    all_agree = True
    for fact in statistics:
        if not fact.agrees:
            all_agree = False
            say(
                f"{_full_name(card, variant)}: {fact.name} is {_format(fact.found)}, "
                f"but the data card says {_format(fact.expected)}",
                error=True,
            )
    return all_agree


def _full_name(card: Card, variant: str | None) -> str:
    if variant is None:
        return card.id
    return f"{card.id} ({variant})"


def _show_statistics(statistics: Sequence[Fact]) -> None:
    rows = [("STATISTIC", "COMPUTED", "CARD", "")]
    for fact in statistics:
        outcome = ""
        if fact.expected is not None and fact.found is not None:
            outcome = "ok" if fact.agrees else "DIFFERS"
        rows.append((fact.name, _format(fact.found), _format(fact.expected), outcome))
    say("")
    say_columns(rows)


def _verify(card: Card, folder: Path, files_only: bool) -> bool:
    """Check the files of a data set and, unless `files_only`, its statistics.

    The statistics of a variant are checked if the card states them and the files are
    present; variants of simulated data sets have none.
    """
    from mtlrun.data.sets.files import find_file, verify_file

    missing = set()
    for spec in card.files:
        if find_file(card, spec, folder) is None:
            missing.add(spec.name)
    needed = {spec.name for spec in card.needed()}
    # Only some variants need the other files, so these may be absent.
    optional = missing - needed
    all_right = True
    for spec in card.files:
        if spec.name in optional:
            continue
        try:
            file = verify_file(card, spec, folder)
        except DataError as error:
            say(f"{card.id}: {error.shell_text}", error=True)
            all_right = False
        else:
            outcome = "ok" if spec.sha256 else "hash unknown"
            say(f"{card.id}: {spec.name}: {outcome}, sha256 {file.sha256}")
    if files_only or not all_right:
        return all_right
    variants: list[str | None] = [None]
    if not card.simulated:
        for name, entry in card.variants.items():
            if entry.statistics:
                variants.append(name)
    for variant in variants:
        if not missing.isdisjoint(spec.name for spec in card.needed(variant)):
            continue
        try:
            dataset, statistics = _load_statistics(card, variant, folder)
        except DataError as error:
            say(f"{card.id}: {error.shell_text}", error=True)
            all_right = False
        else:
            n_tasks = counted(dataset.n_tasks, "task")
            shape = f"{dataset.n_samples} x {dataset.n_features}, {n_tasks}"
            say(f"{_full_name(card, variant)}: {shape}: statistics checked")
            all_right &= _report_differences(card, variant, statistics)
    return all_right


def _format(value: int | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    return f"{value:.6g}"
