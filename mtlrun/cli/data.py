"""`mtlrun data`: which data sets there are, what is in them, and how to get them."""

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
    from mtlrun.data.cards import Card, FileSpec
    from mtlrun.data.dataset import Dataset
    from mtlrun.data.load import Fact

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
    """List all data sets: numbers of rows, features and tasks, and whether their files are available."""
    from mtlrun.data.cards import card_paths, read_card
    from mtlrun.data.files import data_directory

    folder = data_directory(data_dir)
    heads = ("id", "rows", "features", "tasks", "available", "title")
    rows: list[tuple[object, ...]] = []
    broken = []
    for path in card_paths(folder).values():
        try:
            card = read_card(path)
        except DataError as error:
            broken.append(error)
            continue
        sizes = [card.statistics.get(key, "?") for key in ("n", "d", "tasks")]
        rows.append((card.id, *sizes, _availability(card, folder), _title(card)))
    if as_json:
        say_json(
            {
                "folder": str(folder),
                "datasets": [dict(zip(heads, row, strict=True)) for row in rows],
            }
        )
    else:
        say_columns([tuple(map(str.upper, heads)), *rows])
        say(f"\nData directory: {folder}")
    for wrong in broken:
        say(f"error: {wrong}", error=True)
    if broken:
        raise typer.Exit(2)


@app.command(cls=Command)
def info(id: Id, data_dir: DataDir = None, variant: VariantName = None) -> None:
    """Describe a data set: files with hashes, licence, citation and statistics."""
    from mtlrun.data.files import get_it
    from mtlrun.data.load import compare_statistics

    folder, (card,) = _cards(data_dir, id)
    chosen = card.variant(variant)
    _describe(card, chosen.notes)
    if card.files:
        say(f"\nFiles in {folder / card.folder}:")
    needed = card.needed(variant)
    absent = [spec for spec in needed if not _show_file(card, spec, folder)]
    if absent:
        _show_statistics(compare_statistics({}, chosen.statistics))
        say(
            f"\n{counted(len(absent), 'file')} missing. {get_it(card, absent, data_dir_option(data_dir))}"
        )
        return
    dataset, facts = _computed(card, variant, folder)
    say(f"\nfingerprint: {dataset.fingerprint}")
    _show_statistics(facts)
    if not _agree(card, variant, facts):
        raise typer.Exit(2)


@app.command(cls=Command)
def verify(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...",
            help="Data sets to check. Default: all that are available.",
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
    """Check hashes and statistics of data sets; exit with code 2 if anything differs from the data card."""
    from mtlrun.data.cards import card_paths
    from mtlrun.data.files import data_directory

    folder, cards = _cards(data_dir, *(ids or card_paths(data_directory(data_dir))))
    wrong = 0
    for card in cards:
        if not ids and _availability(card, folder) in ("no", "partly"):
            say(f"{card.id}: skipped, not all files are available")
            continue
        wrong += not _verify(card, folder, files_only)
    if wrong:
        say(f"{counted(wrong, 'data set')} did not match the data card", error=True)
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
        option(None, "URL", "Download from this address instead of the known ones."),
    ] = None,
    yes: Yes = False,
    timeout: Annotated[
        float, option(None, "SECONDS", "How long to wait for a server.", min=0.1)
    ] = 30.0,
) -> None:
    """Download missing files, after asking, and verify their hashes."""
    from mtlrun.data.fetch import fetch_dataset
    from mtlrun.data.files import get_it, missing_files

    if url is not None and len(ids) > 1:
        raise UserError(
            "--url needs a single data set", "Fetch the data sets one by one."
        )
    folder, cards = _cards(data_dir, *ids)
    for card in cards:
        if not card.files:
            say(f"{card.id}: built in, no files needed")
            continue
        absent = missing_files(card, variant, folder)
        lacking = [spec.name for spec in absent if not spec.urls]
        if lacking and url is None:
            remedy = get_it(card, absent, data_dir_option(data_dir))
            raise DataError(
                f"data set {card.id} cannot be downloaded without {', '.join(lacking)}",
                remedy,
            )
        if absent or url is not None:
            what = size_of(absent) if absent else "the file at this address"
            source = f"licence: {card.licence}" if url is None else f"from {url}"
            say(f"{card.id}: {what}, {source}, to {folder / card.folder}")
            confirm("Download?", yes=yes, doing="downloaded")
        with download_progress() as report:
            done = fetch_dataset(
                card,
                variant=variant,
                data_dir=folder,
                url=url,
                report=report,
                timeout=timeout,
            )
        for file in done:
            say(f"{card.id}: {file.name} {_mark(card, file.name)}, {file.path}")


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
    """Add a file that you already have to the data directory; it is recognised by its content, not its name."""
    from mtlrun.data.fetch import add_file
    from mtlrun.data.files import missing_files

    folder, (card,) = _cards(data_dir, id)
    for stored in add_file(card, file, folder):
        say(f"{card.id}: {stored.name} {_mark(card, stored.name)}, {stored.path}")
    absent = [spec.name for spec in missing_files(card, None, folder)]
    say(
        f"{card.id}: still missing: {', '.join(absent)}"
        if absent
        else f"{card.id}: complete"
    )


def _cards(data_dir: Path | None, *ids: str) -> tuple[Path, list[Card]]:
    """Return the data directory, and the cards of data sets."""
    from mtlrun.data.cards import check_id, load_card
    from mtlrun.data.files import data_directory

    folder = data_directory(data_dir)
    return folder, [load_card(check_id(id), folder) for id in ids]


def _title(card: Card) -> str:
    return f"{card.title} [simulated]" if card.simulated else card.title


def _availability(card: Card, folder: Path) -> str:
    from mtlrun.data.files import missing_files

    needed = card.needed()
    if not needed:
        return "built in"
    absent = missing_files(card, None, folder)
    return "yes" if not absent else "no" if len(absent) == len(needed) else "partly"


def _describe(card: Card, notes: str) -> None:
    rows = [
        ("id", card.id),
        ("title", _title(card)),
        ("tasks", f"{card.task_type}, {card.design} design"),
        ("licence", card.licence),
        ("citation", card.citation),
        ("preprocessing", card.preprocessing),
        ("notes", notes.strip()),
        ("variants", ", ".join(card.variants)),
        ("card", str(card.path)),
    ]
    say_columns(
        [(f"{name}:", text.strip().replace("\n", " ")) for name, text in rows if text]
    )


def _mark(card: Card, name: str) -> str:
    """Say what is known of the content of a file that was accepted."""
    known = any(spec.name == name and spec.sha256 for spec in card.files)
    return "verified" if known else "not verified (the data card has no hash)"


def _show_file(card: Card, spec: FileSpec, folder: Path) -> bool:
    """Print one file; return whether it is there. A wrong file is an error."""
    from mtlrun.data.files import find_file, verify_file

    if find_file(card, spec, folder) is None:
        say(f"  {spec.name}: missing, expected sha256 {spec.sha256 or 'unknown'}")
        return False
    found = verify_file(card, spec, folder)
    say(
        f"  {spec.name}: {_mark(card, spec.name)}, sha256 {found.sha256}, {found.size} bytes, in {found.path.name}"
    )
    return True


def _computed(
    card: Card, variant: str | None, folder: Path
) -> tuple[Dataset, list[Fact]]:
    """Load a data set, and compare its statistics with those of the card."""
    from mtlrun.data.load import compare_statistics, load_dataset

    dataset = load_dataset(card.id, data_dir=folder, variant=variant)
    return dataset, compare_statistics(
        dataset.statistics(), card.variant(variant).statistics
    )


def _agree(card: Card, variant: str | None, facts: Sequence[Fact]) -> bool:
    """Say which statistics differ from those of the card; return whether none do."""
    for fact in facts:
        if not fact.agrees:
            text = f"{fact.name} is {_number(fact.found)}, but the data card says {_number(fact.expected)}"
            say(f"{_named(card, variant)}: {text}", error=True)
    return all(fact.agrees for fact in facts)


def _named(card: Card, variant: str | None) -> str:
    return card.id if variant is None else f"{card.id} ({variant})"


def _show_statistics(facts: Sequence[Fact]) -> None:
    rows = [("STATISTIC", "COMPUTED", "CARD", "")]
    for fact in facts:
        mark = (
            ""
            if fact.expected is None or fact.found is None
            else "ok"
            if fact.agrees
            else "DIFFERS"
        )
        rows.append((fact.name, _number(fact.found), _number(fact.expected), mark))
    say("")
    say_columns(rows)


def _verify(card: Card, folder: Path, files_only: bool) -> bool:
    """Check one data set and, unless `files_only`, the variants of a real one that state statistics and have files."""
    from mtlrun.data.files import find_file, verify_file

    right = True
    absent = {spec.name for spec in card.files if find_file(card, spec, folder) is None}
    needed = {spec.name for spec in card.needed()}
    for spec in card.files:
        if spec.name in absent - needed:
            continue
        try:
            found = verify_file(card, spec, folder)
        except DataError as error:
            say(f"{card.id}: {error.shell_text}", error=True)
            right = False
            continue
        say(
            f"{card.id}: {spec.name}: {'ok' if spec.sha256 else 'hash unknown'}, sha256 {found.sha256}"
        )
    if files_only or not right:
        return right
    variants = (
        []
        if card.simulated
        else [name for name, v in card.variants.items() if v.statistics]
    )
    for variant in [None, *variants]:
        if absent.isdisjoint(spec.name for spec in card.needed(variant)):
            try:
                dataset, facts = _computed(card, variant, folder)
                shape = f"{dataset.n_samples} x {dataset.n_features}, {counted(dataset.n_tasks, 'task')}"
                say(f"{_named(card, variant)}: {shape}: statistics checked")
                right &= _agree(card, variant, facts)
            except DataError as error:
                say(f"{card.id}: {error.shell_text}", error=True)
                right = False
    return right


def _number(value: int | float | None) -> str:
    return (
        ""
        if value is None
        else str(value)
        if isinstance(value, int)
        else f"{value:.6g}"
    )
