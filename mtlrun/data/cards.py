"""Cards: one YAML file per data set, saying what it is, where its files are and how they are read.

Keys of a card (``*`` = required)::

    schema: 1
    id: enron *                      # = name of the file; small letters, digits, '-', '_'
    title: ... *
    task_type: binary|regression|multiclass *
    design: shared|ragged *          # one X for all tasks, or rows that belong to tasks
    simulated: false                 # true = generated; the title and every table say so
    reader:                          # real data: mtlrun/data/readers/<name>.py, function `read`
      name: mulan                    # 'uci:vehicle' means readers/uci.py, function `read_vehicle`
      options: {...}                 # keyword arguments of that function
    generator:                       # simulated data, instead of `reader`: mtlrun/data/simulate.py, `simulate_<name>`
      name: rmtl                     # 'strings:splice' means mtlrun/data/strings.py, function `simulate_splice`
      options: {...}
    folder: enron                    # below the data directory
    files:
      - name: enron.arff *           # path below the folder, as if uncompressed
        sha256: <64 hex digits> *    # of the DECOMPRESSED content; 'unknown' = any content is taken
        bytes: 906705                # of the decompressed content
        containers: [plain, gz, bz2, xz]       # the default; also {archive: enron.zip, member: data/enron.arff}
        urls:
          - url: https://...         # what is behind it may be in any of these containers
            unverified: true         # not tried by us
        origin: ...                  # free text: where the bytes come from
    uses: [enron.arff]               # the files needed without a variant; default: all
    variants:                        # load_dataset(id, variant=...)
      sample: {options: {...}, uses: [...], statistics: {...}, notes: ...}
    licence: ... *
    citation: ... *
    preprocessing: ...
    statistics: {n: 1702, d: 1001}   # keys of Dataset.statistics(); floats are compared to the decimals given
    notes: ...

Reader protocol: a module ``mtlrun/data/readers/<name>.py`` has
``read(files: dict[str, DataFile], card: Card, *, option=default, ...) -> Dataset``. `files` holds the verified files of
the variant by their name on the card; see ``mtlrun.data.files.DataFile`` (``open()``, ``read_bytes()``, ``lines()``,
``where(line, column)``). The reader sets X, y, task_id, task_type, tasks, features, splits; ``load_dataset`` adds id,
title, fingerprint, simulated, options and the card's notes. What is wrong in a file is a ``DataError`` that starts with
``file:line:column``. Options are keyword-only with defaults; an unknown one is refused. A generator has the same shape
without `files`: ``simulate_rmtl(*, n=..., seed=...) -> Dataset`` with ``truth``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from mtlrun.data.cardyaml import Problems, Section, read_mapping, shown
from mtlrun.errors import DataError, UnknownNameError
from mtlrun.utils.paths import datasets_dir
from mtlrun.utils.yaml import KeyPath

SCHEMA = 1
SUFFIXES = {"plain": "", "gz": ".gz", "bz2": ".bz2", "xz": ".xz"}
ID_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]*")
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Archive:
    """A zip or tar archive (below the card's folder) and the member that is the file."""

    archive: str
    member: str


@dataclass(frozen=True)
class Url:
    """Where a file, or a container of it, can be downloaded."""

    url: str
    unverified: bool = False


@dataclass(frozen=True)
class FileSpec:
    """One file of a data set; `sha256` (None = unknown) and `bytes` are those of the decompressed content."""

    name: str
    sha256: str | None
    bytes: int | None = None
    containers: tuple[str, ...] = tuple(SUFFIXES)
    archives: tuple[Archive, ...] = ()
    urls: tuple[Url, ...] = ()
    origin: str = ""


@dataclass(frozen=True)
class Source:
    """The function that makes the data set, and the options that the card gives it."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Variant:
    """A named set of options, with the files it needs and what it should look like."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    uses: tuple[str, ...] | None = None
    statistics: dict[str, int | float] = field(default_factory=dict)
    notes: str = ""


@dataclass(frozen=True)
class Card:
    """What a card says; see the module's docstring for the keys."""

    id: str
    title: str
    task_type: str
    design: str
    source: Source
    licence: str
    citation: str
    path: Path
    simulated: bool = False
    folder: str = ""
    files: tuple[FileSpec, ...] = ()
    uses: tuple[str, ...] | None = None
    variants: dict[str, Variant] = field(default_factory=dict)
    preprocessing: str = ""
    statistics: dict[str, int | float] = field(default_factory=dict)
    notes: str = ""

    def file(self, name: str) -> FileSpec:
        """Return the file of this name; raises UnknownNameError."""
        for spec in self.files:
            if spec.name == name:
                return spec
        raise UnknownNameError(f"file of {self.id}", name, [f.name for f in self.files])

    def variant(self, name: str | None) -> Variant:
        """Return a variant, filled up with the card's own options and files; None is the card itself."""
        own = Variant("", dict(self.source.options), self.uses, self.statistics, self.notes)
        if name is None:
            return own
        if name not in self.variants:
            raise UnknownNameError(f"variant of {self.id}", name, self.variants)
        v = self.variants[name]
        notes = "\n".join(text for text in (self.notes, v.notes) if text)
        return Variant(name, {**own.options, **v.options}, own.uses if v.uses is None else v.uses, v.statistics, notes)

    def needed(self, variant: str | None = None) -> list[FileSpec]:
        """Return the files that this variant reads."""
        uses = self.variant(variant).uses
        return list(self.files) if uses is None else [self.file(name) for name in uses]


def card_folders(data_dir: Path | None = None) -> list[Path]:
    """Return the folders that hold cards: the shipped ones (wheel or checkout), then ``<data-dir>/cards``."""
    shipped = [datasets_dir()]
    return shipped if data_dir is None else [*shipped, Path(data_dir) / "cards"]


def card_paths(data_dir: Path | None = None) -> dict[str, Path]:
    """Return the path of every card by id; a shipped card wins over a user's card of the same name."""
    found: dict[str, Path] = {}
    for folder in card_folders(data_dir):
        for path in sorted(folder.glob("*.yaml")):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


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
        If the card is wrong.
    """
    paths = card_paths(data_dir)
    if id not in paths:
        raise UnknownNameError("data set", id, paths)
    return read_card(paths[id])


def read_card(path: Path) -> Card:
    """Read and validate one card; all problems are reported at once, as ``file:line:column``.

    Raises
    ------
    DataError
        If the file is missing, no YAML, or no card.
    """
    top = read_mapping(path)
    problems = top.problems
    top.value(
        "schema", int, SCHEMA, lambda v: None if v == SCHEMA else f"must be {SCHEMA}: this version knows no other"
    )
    fields: dict[str, Any] = {
        "id": top.value("id", str, check=lambda v: _id_problem(v, path)),
        "title": top.value("title", str),
        "task_type": top.value("task_type", str, check=_one_of("binary", "regression", "multiclass")),
        "design": top.value("design", str, check=_one_of("shared", "ragged")),
        "simulated": top.value("simulated", bool, False),
        "folder": top.value("folder", str, "", _folder_problem),
    }
    fields["source"] = _read_source(top, fields["simulated"])
    files = tuple(_read_file(place, problems) for place in top.items("files"))
    names = [f.name for f in files]
    for i, name in enumerate(names):
        if name.casefold() in [other.casefold() for other in names[:i]]:  # one file on some file systems
            top.fail("files", f"two files are called {name!r}")
    fields.update(files=files, uses=_read_uses(top, names), variants=_read_variants(top, names))
    for key in ("licence", "citation"):
        fields[key] = top.value(key, str)
    for key in ("preprocessing", "notes"):
        fields[key] = top.value(key, str, "")
    fields["statistics"] = _read_statistics(top)
    if files and not fields["folder"]:
        top.fail("folder", "a card with files needs a folder")
    top.close()
    problems.raise_any()
    return Card(path=path, **fields)


def _read_source(top: Section, simulated: bool) -> Source | None:
    key, other = ("generator", "reader") if simulated else ("reader", "generator")
    top.section(other)
    if other in top.entries:
        top.fail(other, f"a {'simulated' if simulated else 'real'} data set has a {key}, not a {other}")
    section = top.section(key)
    if section is None:
        top.fail(key, f"the card lacks the key {key!r}")
        return None
    name = section.value(
        "name",
        str,
        check=lambda v: (
            None if re.fullmatch(r"[a-z][a-z0-9_]*(:[a-z][a-z0-9_]*)?", v) else "must be name or module:name"
        ),
    )
    options = section.value("options", dict, {})
    section.close()
    return Source(name, options)


def _read_file(path: KeyPath, problems: Problems) -> FileSpec:
    section = Section(path, problems, "a file")
    name = section.value("name", str, check=path_problem) or ""
    sha256 = section.value("sha256", str, check=_hash_problem)
    size = section.value("bytes", int, None)
    plain_containers, archives = _read_containers(section, problems)
    urls = []
    for item in section.items("urls"):
        entry = Section(item, problems, "a URL")
        address = entry.value(
            "url", str, check=lambda v: None if v.startswith("https://") else "must start with https://"
        )
        urls.append(Url(address or "", entry.value("unverified", bool, False)))
        entry.close()
    origin = section.value("origin", str, "")
    section.close()
    return FileSpec(name, None if sha256 == UNKNOWN else sha256, size, plain_containers, archives, tuple(urls), origin)


def _read_containers(section: Section, problems: Problems) -> tuple[tuple[str, ...], tuple[Archive, ...]]:
    items = section.items("containers")
    if not items:
        return tuple(SUFFIXES), ()
    simple, archives = [], []
    for item in items:
        content = problems.value(item)
        if isinstance(content, dict):
            entry = Section(item, problems, "a container")
            archive = entry.value("archive", str, check=path_problem)
            archives.append(Archive(archive or "", entry.value("member", str) or ""))
            entry.close()
        elif isinstance(content, str) and content in SUFFIXES:
            simple.append(content)
        else:
            known = f"one of {', '.join(SUFFIXES)}, or {{archive, member}}"
            problems.add(item, f"unknown container {shown(content)}: {known}")
    return tuple(simple), tuple(archives)


def _read_uses(section: Section, names: list[str]) -> tuple[str, ...] | None:
    items = section.items("uses")
    for item in items:
        if section.problems.value(item) not in names:
            section.problems.add(item, f"uses: the card has no file {shown(section.problems.value(item))}")
    return tuple(str(section.problems.value(item)) for item in items) if "uses" in section.entries else None


def _read_variants(top: Section, names: list[str]) -> dict[str, Variant]:
    found: dict[str, Variant] = {}
    table = top.section("variants")
    for name in table.names() if table else []:
        assert table is not None
        section = table.section(name)
        assert section is not None
        options = section.value("options", dict, {})
        uses, statistics = _read_uses(section, names), _read_statistics(section)
        found[name] = Variant(name, options, uses, statistics, section.value("notes", str, ""))
        section.close()
    return found


def _read_statistics(section: Section) -> dict[str, int | float]:
    table = section.section("statistics")
    return {name: table.value(name, (int, float)) for name in table.names()} if table else {}


def _one_of(*names: str) -> Any:
    return lambda value: None if value in names else f"must be one of {', '.join(names)}, not {value!r}"


def _id_problem(id: str, path: Path) -> str | None:
    if not ID_PATTERN.fullmatch(id):
        return f"may have small letters, digits, '-' and '_' only, not {id!r}"
    return None if id == path.stem else f"{id!r} differs from the name of its file, {path.name!r}"


def _hash_problem(value: str) -> str | None:
    ok = value == UNKNOWN or re.fullmatch(r"[0-9a-f]{64}", value)
    return None if ok else f"must be 64 small hexadecimal digits or '{UNKNOWN}'"


def _folder_problem(name: str) -> str | None:
    """Return what is wrong with the folder of a card, or None; downloads must not lie among the cards."""
    if PurePosixPath(name).parts[:1] == ("cards",):
        return "must not be that of the cards"
    return path_problem(name)


def path_problem(name: str) -> str | None:
    """Return what is wrong with a path that must stay below its folder, or None."""
    parts = PurePosixPath(name).parts
    bad = not parts or name.startswith("/") or ".." in parts or "\\" in name or ":" in name or "\0" in name
    return f"must be a path below its folder, not {name!r}" if bad else None


def check_id(id: str) -> str:
    """Return `id` if it can be the name of a data set.

    Raises
    ------
    DataError
        If it has other characters than small letters, digits, ``-`` and ``_`` (a path, for instance).
    """
    if not ID_PATTERN.fullmatch(id):
        raise DataError(f"{id!r} is no name of a data set", "`mtlrun data list` prints the names.")
    return id
