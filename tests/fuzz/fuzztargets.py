"""Readers of untrusted files as functions of bytes, and the properties they must have.

A reader returns, or raises a `UserError` that names the file, within `SECONDS` of
processor time and `MEMORY` additional bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import resource
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mtlrun.chunks.table import frames_of
from mtlrun.data.reading import named_columns
from mtlrun.data.reading.files import DataFile
from mtlrun.data.reading.formats import mat, sequences, svmlight
from mtlrun.data.reading.formats.text import text_table
from mtlrun.data.reading.read import read_table_file
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.roles.schema import Schema, new_rows
from mtlrun.data.sets import images, mulan, splice
from mtlrun.data.sets.cards import Card, FileSpec, Source, read_card
from mtlrun.data.sets.fetch import add_file
from mtlrun.errors import UserError
from mtlrun.lab.experiment.load import load_experiment, load_training
from mtlrun.utils.yaml import load_file

NAME = "fuzzed-file"
SECONDS = 10.0
MEMORY = 600 << 20
#: The content expected by the card of `read_archive`
CONTENT = b"known content\n"
#: The shipped experiments
CONFIGS = Path(__file__).parents[2] / "configs"
#: Maximum length of a message, in characters
LONGEST = 20_000


class HangError(BaseException):
    """The time of an input has expired; no reader may catch this."""


@dataclass(frozen=True)
class MemoryFile(DataFile):
    """A file whose content is in memory."""

    content: bytes = b""

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the content for reading."""
        yield io.BytesIO(self.content)


def memory_file(content: bytes) -> MemoryFile:
    """Return a file with this content, called `NAME` in messages."""
    return MemoryFile(NAME, Path(NAME), "plain", content=content)


def card(task_type: str = "binary", **more: Any) -> Card:
    """Return the card of a data set without a card file; messages have its id."""
    names = {"id": NAME, "title": "Fuzzed", "licence": "none", "citation": "none"}
    return Card(
        task_type=task_type, design="shared", reader=Source(name="x"), **names, **more
    )


def read_arff(content: bytes) -> None:
    """Read an ARFF file by itself, as a MEKA multi-label set, and as a user's table."""
    file = memory_file(content)
    rows = read_table_file(file, ".arff")
    with contextlib.suppress(UserError):
        make_dataset(rows, Roles(targets=rows.columns[-1], task=rows.columns[0]))
    mulan.read({NAME: file}, card(), arff=[NAME])


def read_xml(content: bytes) -> None:
    """Read a list of labels."""
    named_columns.read_labels(memory_file(content))


def read_fasta(content: bytes) -> None:
    """Read sequences, then sequences with labels in their headers."""
    sequences.read_fasta(io.BytesIO(content), NAME)
    sequences.read_fasta(io.BytesIO(content), NAME, label=r"label=(\S+)")


def read_idx(content: bytes) -> None:
    """Read an array of images or labels."""
    images.read_idx(io.BytesIO(content), NAME)


def read_csv(content: bytes) -> None:
    """Read a table as readers of cards do, with and without a header."""
    for delimiter, header, text in (
        (",", True, ()),
        (",", False, (-1,)),
        (None, False, (0,)),
        (";", True, (0,)),
    ):
        with contextlib.suppress(UserError):
            parsed = text_table(
                memory_file(content), delimiter=delimiter, header=header, text=text
            )
            parsed.numbers(parsed.columns)
    parsed = text_table(memory_file(content), delimiter=",", header=True)
    parsed.numbers(parsed.columns[:1], gaps=True)
    parsed.numbers(parsed.columns[1:] or parsed.columns)


def read_user_csv(content: bytes) -> None:
    """Read a user's table of words and numbers, for training and for predictions."""
    schema = Schema(n_features=2, features=("a", "b"), task_column="task")
    parsed = read_table_file(memory_file(content), ".csv")
    with contextlib.suppress(UserError):
        new_rows(parsed, schema)
    with contextlib.suppress(UserError):
        read_table_file(memory_file(content), ".csv", like=schema)


def read_mat(content: bytes) -> None:
    """Read two variables, and a user's table."""
    with contextlib.suppress(UserError):
        read_table_file(memory_file(content), ".mat")
    mat.read_mat(io.BytesIO(content), NAME, ("X", "Y"))


def read_npz(content: bytes) -> None:
    """Read rows for predictions."""
    new_rows(read_table_file(memory_file(content), ".npz"), Schema(n_features=3))


def read_parquet(content: bytes) -> None:
    """Read a user's table, for training and for predictions, and in chunks."""
    schema = Schema(n_features=2, features=("a", "b"), task_column="task")
    path = Path(_folder().name) / f"{NAME}.parquet"
    path.write_bytes(content)
    with contextlib.suppress(UserError):
        list(frames_of(path, None, rows=2, task="task"))
    parsed = read_table_file(memory_file(content), ".parquet")
    with contextlib.suppress(UserError):
        new_rows(parsed, schema)


def read_svmlight(content: bytes) -> None:
    """Read targets, features and tasks, and a user's table."""
    svmlight.read_svmlight(content, NAME)
    read_table_file(memory_file(content), ".svm")
    schema = Schema(n_features=3, features=("x1", "x2", "x3"), table=True)
    with contextlib.suppress(UserError):
        rows = read_table_file(memory_file(content), ".svm", like=schema)
        new_rows(rows, schema)


def read_splice(content: bytes) -> None:
    """Read labelled sequences in lines."""
    splice.read_splice({NAME: memory_file(content)}, card("multiclass"))


def read_archive(content: bytes) -> None:
    """Add a file or an archive to a data set; only its folder may change."""
    root = Path(_folder().name)
    path = root / NAME
    path.write_bytes(content)
    known_file = FileSpec(name="known.txt", sha256=hashlib.sha256(CONTENT).hexdigest())
    data_card = card(
        folder="mine", files=[known_file, FileSpec(name="any.txt", sha256=None)]
    )
    before = sorted(root.rglob("*"))
    try:
        add_file(data_card, path, root / "data")
    finally:
        shutil.rmtree(root / "data", ignore_errors=True)
        assert sorted(root.rglob("*")) == before, (
            "files appeared outside of the data directory"
        )


def read_yaml(content: bytes) -> None:
    """Read a YAML file with positions."""
    load_file(_written(content))


def read_experiment(content: bytes) -> None:
    """Read and check an experiment; published tables are next to it."""
    paper = re.search(rb"^id: ([a-z]{1,20})/", content, re.MULTILINE)
    path = _written(content)
    for table_file in CONFIGS.glob(f"{paper[1].decode()}/*.csv") if paper else ():
        shutil.copy(table_file, path.parent)
    load_experiment(str(path))


def read_training(content: bytes) -> None:
    """Read and check a training file."""
    load_training(str(_written(content)))


def read_data_card(content: bytes) -> None:
    """Read and check the card of a data set."""
    match = re.search(rb"^id: ([a-z0-9-]{1,99})$", content, re.MULTILINE)
    read_card(_written(content, match[1].decode() if match else NAME))


READERS: dict[str, Callable[[bytes], None]] = {
    "arff": read_arff,
    "xml": read_xml,
    "fasta": read_fasta,
    "idx": read_idx,
    "csv": read_csv,
    "user-csv": read_user_csv,
    "mat": read_mat,
    "npz": read_npz,
    "parquet": read_parquet,
    "svmlight": read_svmlight,
    "splice": read_splice,
    "archive": read_archive,
    "yaml": read_yaml,
    "experiment": read_experiment,
    "training": read_training,
    "card": read_data_card,
}


def check(name: str, content: bytes) -> str | None:
    """Run a reader on some bytes; return its error message, or None if it accepts them.

    Raises
    ------
    AssertionError
        If anything else than a `UserError` comes out, its message lacks the file or is
        long, or a limit is passed.
    """
    try:
        with warnings.catch_warnings(), limited():
            warnings.simplefilter("ignore")
            READERS[name](content)
    except UserError as error:
        text = str(error)
        # The extended experiment is a separate file.
        assert NAME in text or (name == "experiment" and "configs/" in text), (
            f"no file in the message {text[:200]!r}"
        )
        assert len(text) < LONGEST, (
            f"a message of {len(text)} characters: {text[:200]!r}"
        )
        return text
    except HangError:
        raise AssertionError(
            f"{name}: more than {SECONDS} s for {len(content)} bytes: {content[:200]!r}"
        ) from None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise AssertionError(
            f"{name}: {type(error).__name__}: {error} for {content[:2000]!r}"
        ) from error
    return None


@contextmanager
def limited() -> Iterator[None]:
    """Limit processor time and, on Linux, address space of the code inside."""
    before = signal.signal(signal.SIGVTALRM, _over)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = Path("/proc/self/statm")
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        if pages.exists():
            used = int(pages.read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _over(*_: Any) -> None:
    raise HangError


def _written(content: bytes, name: str = NAME) -> Path:
    folder = Path(_folder().name) / f"{NAME}s"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.yaml"
    path.write_bytes(content)
    return path


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def _folder() -> tempfile.TemporaryDirectory[str]:
    if not _FOLDERS:
        _FOLDERS.append(tempfile.TemporaryDirectory(prefix="mtlrun-fuzz-"))
    return _FOLDERS[0]
