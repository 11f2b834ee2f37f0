"""Cards: one YAML file per data set.

A card says what the data set is, where its files are and how to read them.

The models below are the keys of a card. An example::

    schema: 1
    id: enron                          # = name of the file; lower-case letters, digits, '-', '_'
    title: Enron e-mails, 53 labels
    task_type: binary                  # binary, regression or multiclass
    design: shared                     # one X for all tasks, or ragged: rows that belong to tasks
    simulated: false                   # true = generated; the title and every table say so
    reader:                            # a name of mtlrun.data.sets.load.READERS ...
      name: mulan
      options: {arff: [enron.arff]}    # ... and keyword arguments of that function
    generator: {name: rmtl}            # simulated data, instead of `reader`: mtlrun.data.sets.simulate.simulate_<name>
    folder: enron                      # below the data directory
    files:
      - name: enron.arff               # path below the folder, as if uncompressed
        sha256: <64 hex digits>        # of the DECOMPRESSED content; 'unknown' = any content is accepted
        bytes: 906705                  # of the decompressed content
        containers: [plain, gz, bz2, xz]   # the default; also {archive: enron.zip, member: data/enron.arff}
        urls:
          - url: https://...           # may serve any of these containers
            unverified: true           # not tried by us
        origin: ...                    # where the bytes come from
    uses: [enron.arff]                 # the files needed without a variant; default: all
    variants:                          # load_dataset(id, variant=...)
      sample: {options: {...}, uses: [...], statistics: {...}, notes: ...}
    license: ...
    citation: ...
    preprocessing: ...
    statistics: {n: 1702, d: 1001}     # keys of Dataset.statistics(); floats are compared to the decimals given
    notes: ...

A reader is a function ``read(files: dict[str, DataFile], card: Card, *, option=default,
...) -> Dataset``. `files` are the verified files of the variant by their name on the
card; see ``mtlrun.data.reading.files.DataFile`` (``open()``, ``read_bytes()``, ``lines()``,
``where(line, column)``). It sets X, y, task_id, task_type, tasks, features, splits;
``load_dataset`` adds id, title, fingerprint, simulated, options and the card's notes.
For a wrong file the reader raises a ``DataError`` that starts with
``file:line:column``. A generator has the same form without `files` and `card`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationError,
)

from mtlrun.errors import DataError, UnknownNameError
from mtlrun.utils import plugins
from mtlrun.utils.io import datasets_dir
from mtlrun.utils.yaml import (
    Finding,
    StrictModel,
    load_text,
    read_yaml,
    rendered,
    schema_findings,
)

ID_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]*")


def _matching(pattern: str, text: str) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"{text}, not {value!r}")
        return value

    return AfterValidator(check)


def _below_folder(name: str) -> str:
    parts = PurePosixPath(name).parts
    if (
        not parts
        or name.startswith("/")
        or ".." in parts
        or "\\" in name
        or ":" in name
        or "\0" in name
    ):
        raise ValueError(f"must be a path below its folder, not {name!r}")
    return name


def _own_folder(name: str) -> str:
    if PurePosixPath(name).parts[:1] == (
        "cards",
    ):  # downloads must not lie among the cards
        raise ValueError("must not be the folder of the cards")
    return _below_folder(name)


BelowFolder = Annotated[str, AfterValidator(_below_folder)]
Statistics = dict[str, int | float]


class Archive(StrictModel):
    """A zip or tar archive below the card's folder, and the member that is the file."""

    archive: BelowFolder
    member: str


class Url(StrictModel):
    """Where a file, or a container of it, can be downloaded."""

    url: Annotated[str, _matching(r"https://.*", "must start with https://")]
    unverified: bool = False


def _none_if_unknown(value: Any) -> Any:
    if value == "unknown":
        return None
    return value


class FileSpec(StrictModel):
    """One file of a data set.

    `sha256` (None if unknown) and `bytes` describe the decompressed content.
    """

    name: BelowFolder
    sha256: Annotated[
        Annotated[
            str,
            _matching(
                "[0-9a-f]{64}", "must be 64 lower-case hexadecimal digits or 'unknown'"
            ),
        ]
        | None,
        BeforeValidator(_none_if_unknown),
    ]
    bytes: int | None = None
    containers: list[Literal["plain", "gz", "bz2", "xz"] | Archive] = [
        "plain",
        "gz",
        "bz2",
        "xz",
    ]
    urls: list[Url] = []
    origin: str = ""

    @property
    def compressions(self) -> list[str]:
        """Containers that the file may be stored in: ``plain``, ``gz`` and so on."""
        return [c for c in self.containers if isinstance(c, str)] or ["plain"]

    @property
    def archives(self) -> list[Archive]:
        """The archives that may hold the file."""
        return [c for c in self.containers if isinstance(c, Archive)]


class Source(StrictModel):
    """The function that makes the data set, and the options that the card gives it."""

    name: Annotated[
        str,
        _matching("[a-z][a-z0-9_]*(:[a-z][a-z0-9_]*)?", "must be name or module:name"),
    ]
    options: dict[str, Any] = {}


class Variant(StrictModel):
    """A set of options with the files it needs, and its statistics.

    `name` is its key on the card.
    """

    options: dict[str, Any] = {}
    uses: list[str] | None = None
    statistics: Statistics = {}
    notes: str = ""
    name: str = ""


class Card(StrictModel):
    """The content of a card; see the module's docstring for the keys."""

    version: Literal[1] = Field(1, alias="schema")
    id: Annotated[
        str,
        _matching(
            ID_PATTERN.pattern,
            "may contain lower-case letters, digits, '-' and '_' only",
        ),
    ]
    title: str
    task_type: Literal["binary", "regression", "multiclass"]
    design: Literal["shared", "ragged"]
    simulated: bool = False
    reader: Source | None = None
    generator: Source | None = None
    folder: Annotated[str, AfterValidator(_own_folder)] = ""
    files: list[FileSpec] = []
    uses: list[str] | None = None
    variants: dict[str, Variant] = {}
    # Cards of earlier versions have the British spelling.
    license: str = Field(validation_alias=AliasChoices("license", "licence"))
    citation: str
    preprocessing: str = ""
    statistics: Statistics = {}
    notes: str = ""
    _path: Path | None = PrivateAttr(None)

    @property
    def path(self) -> Path:
        """The file of the card."""
        return self._path or Path(f"{self.id}.yaml")

    @property
    def source(self) -> Source:
        """The reader or the generator."""
        if self.simulated:
            source = self.generator
        else:
            source = self.reader
        assert source is not None  # read_card refuses a card without
        return source

    def file(self, name: str) -> FileSpec:
        """Return the file of this name; raises UnknownNameError."""
        for spec in self.files:
            if spec.name == name:
                return spec
        raise UnknownNameError(f"file of {self.id}", name, [f.name for f in self.files])

    def variant(self, name: str | None) -> Variant:
        """Return a variant, completed by the card's options and files.

        None stands for the card itself.
        """
        base_options = self.source.options
        if name is None:
            return Variant(
                options=base_options,
                uses=self.uses,
                statistics=self.statistics,
                notes=self.notes,
            )
        if name not in self.variants:
            raise UnknownNameError(f"variant of {self.id}", name, self.variants)
        v = self.variants[name]
        notes = "\n".join(text for text in (self.notes, v.notes) if text)
        uses = self.uses if v.uses is None else v.uses
        return Variant(
            options={**base_options, **v.options},
            uses=uses,
            statistics=v.statistics,
            notes=notes,
            name=name,
        )

    def needed(self, variant: str | None = None) -> list[FileSpec]:
        """Return the files that this variant reads."""
        uses = self.variant(variant).uses
        if uses is None:
            return list(self.files)
        return [self.file(name) for name in uses]


def card_paths(data_dir: Path | None = None) -> dict[str, Path]:
    """Return the path of each card by id.

    Shipped cards win over cards of other packages, and these over the user's cards in
    ``<data-dir>/cards``.
    """
    paths: dict[str, Path] = {}
    if data_dir is None:
        user_folders = []
    else:
        user_folders = [Path(data_dir) / "cards"]
    for folder in (datasets_dir(), *plugins.card_folders(), *user_folders):
        for path in folder.glob("*.yaml"):
            paths.setdefault(path.stem, path)
    return dict(sorted(paths.items()))


def load_card(id: str, data_dir: Path | None = None) -> Card:
    """Read the card of a data set.

    Parameters
    ----------
    id : str
        Name of the data set.
    data_dir : Path, optional
        Data directory whose ``cards`` folder is searched too.

    Raises
    ------
    UnknownNameError
        If there is no such card; the nearest ones are suggested.
    DataError
        If the card is wrong, or a card in the data directory has the name of a shipped
        one.
    """
    paths = card_paths(data_dir)
    if id not in paths:
        raise UnknownNameError("data set", id, paths)
    if data_dir is not None:
        user_card = Path(data_dir) / "cards" / f"{id}.yaml"
        if user_card.exists() and user_card != paths[id]:
            raise DataError(
                f"{user_card}: {id} is already the name of a data set",
                "Give the card and its id another name.",
            )
    return read_card(paths[id])


def read_card(path: Path) -> Card:
    """Read and validate one card.

    All problems are reported at once, as ``file:line:column``.

    Raises
    ------
    DataError
        If the file is missing, not YAML, or not a card.
    """
    return _parse_card(path, read_yaml(path, str(path), DataError))


@lru_cache(maxsize=512)
def _parse_card(path: Path, text: str) -> Card:
    """Validate the text of a card; the cards of a command are read many times."""
    document = load_text(text, str(path), DataError)
    if document.data is None:
        raise DataError(f"{path}: the card is empty")
    findings: list[Finding] = []
    try:
        card = Card.model_validate(document.data)
        card._path = path
    except ValidationError as error:
        findings += schema_findings(error, document.data, Card)
    if isinstance(document.data, dict):
        findings += _contradictions(document.data, path)
    if findings:
        raise DataError(
            rendered(findings, document),
            "`mtlrun data info NAME` names the card of a similar data set.",
        )
    return card


def _contradictions(data: dict[str, Any], path: Path) -> Iterator[Finding]:
    """Yield what is wrong between the keys of a card."""
    id = data.get("id")
    if isinstance(id, str) and ID_PATTERN.fullmatch(id) and id != path.stem:
        message = f"id {id!r} differs from the name of its file, {path.name!r}"
        yield Finding(("id",), message)
    kind = "real"
    wanted = "reader"
    other = "generator"
    if data.get("simulated") is True:
        kind = "simulated"
        wanted = "generator"
        other = "reader"
    if other in data:
        message = f"a {kind} data set has a {wanted}, not a {other}"
        yield Finding((other,), message)
    if wanted not in data:
        hint = f"a {kind} data set has a {wanted}"
        yield Finding((), f"missing key {wanted!r}", hint, at_key=True)
    files = data.get("files")
    if not isinstance(files, list):
        files = []
    names = [str(file.get("name")) for file in files if isinstance(file, dict)]
    seen = set()
    for name in names:
        # Names that differ by capitals only are one file on some file systems.
        if name.casefold() in seen:
            yield Finding(("files",), f"two files are named {name!r}")
        seen.add(name.casefold())
    if files and not data.get("folder"):
        yield Finding(("folder",), "a card with files needs a folder")
    sections: list[tuple[tuple[str, ...], Any]] = [((), data)]
    variants = data.get("variants")
    if isinstance(variants, dict):
        sections += [(("variants", name), part) for name, part in variants.items()]
    for key, section in sections:
        uses = None
        if isinstance(section, dict):
            uses = section.get("uses")
        if not isinstance(uses, list):
            continue
        for i, name in enumerate(uses):
            if name not in names:
                message = f"the card has no file {name!r}"
                hint = f"files: {', '.join(names) or 'none'}"
                yield Finding((*key, "uses", i), message, hint)


def check_id(id: str) -> str:
    """Return `id` if it can be the name of a data set.

    Raises
    ------
    DataError
        If it has other characters than lower-case letters, digits, ``-`` and ``_`` (a
        path, for instance).
    """
    if not ID_PATTERN.fullmatch(id):
        raise DataError(
            f"{id!r} is not the name of a data set",
            "`mtlrun data list` prints the names.",
        )
    return id
