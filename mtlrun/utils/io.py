"""Canonical JSON, digests of content, seeds, atomic files, and where shipped files
lie. Standard library only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import math
import os
import stat
import types
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import (
    IO,
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from mtlrun.errors import ConfigError, MtlrunError, UserError
from mtlrun.utils.sizes import LARGEST
from mtlrun.utils.temporary import temporary_file

DIGEST = "digest"
FieldsT = TypeVar("FieldsT")


def jsonable(value: Any) -> Any:
    """Turn numpy scalars and arrays, tuples, sets and NaN into what JSON holds (NaN
    and infinities become None).
    """
    if _is_plain(value):
        return value
    if isinstance(value, dict):
        plain = {}
        for key, item in value.items():
            plain[str(key)] = item if _is_plain(item) else jsonable(item)
        return plain
    if isinstance(value, list | tuple):
        items = []
        for item in value:
            items.append(item if _is_plain(item) else jsonable(item))
        return items
    if isinstance(value, set | frozenset):
        return sorted(jsonable(v) for v in value)
    if hasattr(value, "tolist"):
        return jsonable(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value


def _is_plain(value: Any) -> bool:
    """Return whether a value is a scalar that JSON holds as it is: the usual case."""
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (str, int, bool)


class FieldError(ValueError):
    """A value of a JSON file that has a wrong type.

    Parameters
    ----------
    path : str
        Keys and positions that lead to the value, such as ``cells.0.key``.
    message : str
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


def read_fields(
    cls: type[FieldsT], content: Mapping[str, Any], path: str = ""
) -> FieldsT:
    """Return an object of a dataclass whose fields are the entries of a JSON object.

    The annotations of the class are the types that its entries must have; entries that
    are dataclasses become objects, too. Other entries are ignored, since later versions
    may have more. A field without an entry, or with null, has its default. A field
    whose name is a keyword of Python ends with an underscore.

    Parameters
    ----------
    cls : type
        A dataclass.
    content : mapping
    path : str, default=""
        Keys that lead to the object, for messages.

    Raises
    ------
    FieldError
        If a field without a default has no entry, or an entry has another type.
    """
    values = {}
    for name, (hint, is_required) in _hints_of(cls).items():  # type: ignore[arg-type]
        key = name.rstrip("_")
        key_path = f"{path}.{key}".lstrip(".")
        value = content.get(key)
        if value is not None or (is_required and key in content):
            values[name] = typed_value(hint, value, key_path)
        elif is_required:
            raise FieldError(key_path, "is missing")
    return cls(**values)


@cache
def _hints_of(cls: Any) -> dict[str, tuple[Any, bool]]:
    """Return the type of each field, and whether it has no default."""
    hints = get_type_hints(cls, include_extras=True)
    fields = {}
    for field in dataclasses.fields(cls):
        is_required = field.default is field.default_factory is dataclasses.MISSING
        fields[field.name] = hints[field.name], is_required
    return fields


#: Types of JSON values, and their names in messages.
_TYPES: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a text"),
    int: ((int,), "an integer"),
    float: ((int, float), "a number"),
    bool: ((bool,), "true or false"),
    list: ((list, tuple), "a list"),
    tuple: ((list, tuple), "a list"),
    dict: ((Mapping,), "a JSON object"),
    Mapping: ((Mapping,), "a JSON object"),
}


@cache
def _parts_of(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without its parameters, and these."""
    if dataclasses.is_dataclass(hint):
        return dict, (hint,)
    kind = get_origin(hint) or hint
    parts = get_args(hint)
    if kind in (Union, types.UnionType):
        alternatives = [part for part in parts if part is not types.NoneType]
        return Union, (len(alternatives) < len(parts), alternatives)
    return kind, parts


@cache
def _exact_types(hint: Any) -> set[type]:
    """Return the types whose values have a type; none if the values themselves count."""
    kind, _ = _parts_of(hint)
    kinds = set(get_args(hint)) if kind is Union else {kind}
    if kinds <= {str, int, float, bool, types.NoneType}:
        return kinds
    return set()


def typed_value(hint: Any, value: Any, path: str) -> Any:
    """Return a value of JSON as a value of a type, see `read_fields`.

    Parameters
    ----------
    hint : type
    value : object
    path : str
        Keys that lead to the value, for messages.

    Raises
    ------
    FieldError
    """
    kind, parts = _parts_of(hint)
    if kind is Any:
        return value
    if kind is Union:
        has_null, (*others, last) = parts
        if value is None and has_null:
            return None
        for part in others:
            with contextlib.suppress(FieldError):
                return typed_value(part, value, path)
        return typed_value(last, value, path)
    if kind is Literal:
        if value not in parts:
            raise FieldError(path, f"one of {', '.join(map(str, parts))} is expected")
        return value
    if kind is Annotated:
        text, pattern = parts
        if not pattern.fullmatch(typed_value(text, value, path)):
            raise FieldError(path, "this text is not possible here")
        return value
    allowed, name = _TYPES[kind]
    is_wrong = not isinstance(value, allowed)
    is_wrong |= isinstance(value, bool) and kind is not bool
    # NaN is not below the limit either.
    if is_wrong or (kind is float and not abs(value) <= LARGEST):
        raise FieldError(path, f"{name} is expected")
    if not parts:
        return value
    if kind is dict and len(parts) == 1:
        return read_fields(parts[0], value, path)
    if kind in (dict, list) and parts[-1] is Any:
        return kind(value)
    if isinstance(value, Mapping):
        return {
            key: typed_value(parts[1], item, f"{path}.{key}")
            for key, item in value.items()
        }
    if kind is list:
        # Lists of numbers may be long: look at the set of the types of their items.
        item_types = set(map(type, value))
        is_correct = item_types <= _exact_types(parts[0])
        if is_correct and float in item_types:
            # NaN is not below the limit either.
            numbers = filter(None, value)
            is_correct = str not in item_types and sum(map(abs, numbers)) <= LARGEST
        if is_correct:
            return list(value)
    if kind is tuple and parts[-1] is not ... and len(value) != len(parts):
        raise FieldError(path, f"{len(parts)} items are expected")
    items = [typed_value(parts[0], item, f"{path}.{k}") for k, item in enumerate(value)]
    return tuple(items) if kind is tuple else items


def stored_fields(value: object) -> dict[str, Any]:
    """Return the fields of a dataclass that are not None, in their order."""
    return {name: field for name, field in vars(value).items() if field is not None}


def file_json(value: Any) -> str:
    """Return JSON as files of results hold it: indented, keys in their order, with a
    line end.

    Parameters
    ----------
    value : object
        As JSON holds it, see `jsonable`.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    return f"{text}\n"


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no blanks, the same on every machine."""
    return plain_json(jsonable(value))


def plain_json(value: Any) -> str:
    """Return the canonical JSON of a value that JSON holds as it is.

    Such values come from a file of JSON or from `jsonable`.
    """
    return json.dumps(
        value,
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
        ensure_ascii=False,
    )


def sha256_json(value: Any) -> str:
    """Return the sha256 of the canonical JSON of `value`."""
    return sha256_plain(jsonable(value))


def sha256_plain(value: Any) -> str:
    """Return the sha256 of the canonical JSON of a value that JSON holds as it is."""
    # Names of files may have bytes that cannot be decoded, which are lone surrogates.
    content = plain_json(value).encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """Return an object with its digest under `DIGEST`, so that later damage to the
    file is detected.

    Parameters
    ----------
    content : dict
        As JSON holds it.
    """
    return {**content, DIGEST: sha256_plain(content)}


def unsealed(content: dict[str, Any]) -> dict[str, Any]:
    """Return what `sealed` was given.

    Raises
    ------
    ValueError
        If there is no digest, or it differs from the digest of the content.
    """
    rest = {name: value for name, value in content.items() if name != DIGEST}
    if content.get(DIGEST) != sha256_plain(rest):
        raise ValueError("the content does not match its digest")
    return rest


def write_atomic(
    path: Path, data: str | bytes, *, durable: bool = True, mode: int | None = None
) -> None:
    """Write a whole file or nothing: a temporary file in the same folder, flushed, then
    renamed.

    A process that is killed in between leaves a temporary file behind
    (`mtlrun.utils.temporary`).

    Parameters
    ----------
    path : Path
    data : str or bytes
    durable : bool, default True
        Wait until the disk has it: a loss of power then leaves the old file or the new
        one.
    mode : int, optional
        Permissions of the file; by default what the umask allows.

    Raises
    ------
    OSError
        If the folder cannot be written or the disk is full; no temporary file stays
        behind.
    """
    with replacing(path, durable=durable) as new_file:
        if isinstance(data, str):
            # Bytes of file names that cannot be decoded are written as \udcXX, which
            # is also how JSON escapes them.
            data = data.encode("utf-8", "backslashreplace")
        new_file.write_bytes(data)
        if mode is not None:
            new_file.chmod(mode)


#: Names in the path of a folder that is made. `Path.mkdir` calls itself for each one.
MAX_FOLDER_DEPTH = 200


def make_folder(folder: Path, root: Path | None = None) -> None:
    """Make a folder and its parents, unless they exist.

    Parameters
    ----------
    folder : Path
    root : Path, optional
        Folder that the user named, and that contains `folder`; see `refuse_links`.
        Default: `folder` itself is what the user named.

    Raises
    ------
    OSError
        If it cannot be made, or its path has more than `MAX_FOLDER_DEPTH` names.
    UserError
        If a link leads from `root` to it.
    """
    if root is not None:
        refuse_links(root, folder)
    if len(folder.parts) > MAX_FOLDER_DEPTH and not folder.is_dir():
        code = errno.ENAMETOOLONG
        raise OSError(code, os.strerror(code), f"{folder!s:.200}...")
    folder.mkdir(parents=True, exist_ok=True)


def refuse_links(root: Path, folder: Path) -> None:
    """Refuse to write into a folder that is a link, or lies behind one.

    The user may name a link. Folders in it may come from others, and a link among them
    would let mtlrun write anywhere.

    Parameters
    ----------
    root : Path
        Folder that the user named. It, and what leads to it, may be links.
    folder : Path
        A folder that is not in `root` was named by the user as well.

    Raises
    ------
    UserError
        Names the link.
    """
    if root.is_absolute() != folder.is_absolute():
        root = root.absolute()
        folder = folder.absolute()
    if root not in folder.parents:
        return
    for path in (folder, *folder.parents):
        if path == root:
            return
        if path.is_symlink():
            raise UserError(
                f"{path} is a link: inside {root}, nothing is written through links",
                "Replace the link by a folder, or choose another folder in its place.",
            )


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary file next to `path` that replaces it at the end.

    After an error the temporary file is deleted.
    """
    path = Path(path)
    make_folder(path.parent)
    with temporary_file(path.parent) as new_file:
        yield new_file
        if durable:
            with open_regular(new_file, "rb+") as written:
                os.fsync(written.fileno())
        os.replace(new_file, path)


@contextlib.contextmanager
def writing(target: Path | str, remedy: str) -> Iterator[None]:
    """Turn errors of the disk while results are written into a `UserError`; errors on
    reading are left to the readers.

    Parameters
    ----------
    target : Path or str
        The file or folder that is written.
    remedy : str

    Raises
    ------
    UserError
        Names the place and the reason, in place of an OSError.
    """
    try:
        yield
    except BrokenPipeError:  # the reader of a pipe has exited: not an error of the disk
        raise
    except OSError as error:
        message = f"cannot write {target}: {error.strerror or error}"
        raise UserError(message, remedy) from error


def is_json_number(value: object) -> bool:
    """Return whether a JSON value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_list(value: Any) -> list[Any]:
    """Return a list: nothing for None, one element for a single value."""
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return list(value)
    return [value]


# ---------------------------------------------------------------------- regular files
# Folders of results, models and data may come from other people. A named pipe in the
# place of a file would make its reader wait forever, and a link to a device such as
# /dev/zero would fill the memory, so everything that mtlrun reads is opened here.

#: Flags that keep `os.open` from waiting for the other end of a pipe or for a device.
_NEVER_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_ACCESS = {"rb": os.O_RDONLY, "rb+": os.O_RDWR}
#: File types that are refused, by their predicates in `stat`.
_IRREGULAR_TYPES = {
    stat.S_ISFIFO: "a named pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}


class IrregularFileError(OSError):
    """A pipe, socket or device stands where a regular file is expected."""


def require_regular(status: os.stat_result, path: Path | str) -> None:
    """Refuse everything but a regular file.

    Parameters
    ----------
    status : os.stat_result
        Status of the file that `path` leads to.
    path : Path or str
        Name of the file in the error.

    Raises
    ------
    IsADirectoryError
        If it is a directory.
    IrregularFileError
        If it is a pipe, a socket or a device.
    """
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    file_type = "of an unknown type"
    for has_type, name in _IRREGULAR_TYPES.items():
        if has_type(status.st_mode):
            file_type = name
    raise IrregularFileError(
        errno.ENXIO, f"is {file_type}, not a regular file", str(path)
    )


def open_regular(path: Path | str, mode: str = "rb") -> IO[bytes]:
    """Open a regular file, and never wait for a pipe or a device.

    Parameters
    ----------
    path : Path or str
    mode : {"rb", "rb+"}, default "rb"

    Returns
    -------
    file object
        Binary and buffered.

    Raises
    ------
    OSError
        If there is no such file, it cannot be opened, or it is not a regular file
        (`IsADirectoryError`, `IrregularFileError`).
    """
    # Some devices act when they are opened, so the type is checked before. It is
    # checked again afterwards because the file may have been replaced in between.
    require_regular(os.stat(path), path)
    descriptor = os.open(path, _ACCESS[mode] | _NEVER_WAIT | getattr(os, "O_BINARY", 0))
    try:
        require_regular(os.fstat(descriptor), path)
        return os.fdopen(descriptor, mode)
    except BaseException:
        os.close(descriptor)
        raise


def read_file(path: Path | str) -> bytes:
    """Return the content of a regular file.

    Raises
    ------
    OSError
        See `open_regular`.
    """
    with open_regular(path) as stream:
        content: bytes | None = stream.read()
    # Some files of /proc are regular and have their readers wait.
    if content is None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))
    return content


def read_text_file(
    path: Path | str, *, encoding: str = "utf-8", errors: str = "strict"
) -> str:
    """Return the text of a regular file, with line ends as ``\\n``.

    Raises
    ------
    OSError
        See `open_regular`.
    UnicodeDecodeError
        If the content is not text in this encoding.
    """
    text = read_file(path).decode(encoding, errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


# ---------------------------------------------------------------------- what is shipped
# A wheel carries these files inside the package (``mtlrun/_configs``,
# ``mtlrun/_datasets``); a checkout, also when it is installed in editable mode, has
# them next to the package (``configs/``, ``datasets/``).

_PACKAGE = Path(os.path.realpath(__file__)).parents[1]


def configs_dir() -> Path:
    """Return the folder of the shipped experiments, ``<paper>/<artefact>.yaml``.

    Raises
    ------
    MtlrunError
        If this installation lacks them.
    """
    return _shipped("configs")


def published_path(name: str) -> Path:
    """Return the path of a file of published numbers.

    Parameters
    ----------
    name : str
        Relative to the folder of the experiments.

    Raises
    ------
    ConfigError
        If there is no such file.
    """
    path = configs_dir() / name
    if not path.is_file():
        raise ConfigError(
            f"no file of published numbers {name!r}",
            "It is named below configs/, with its ending.",
        )
    return path


def datasets_dir() -> Path:
    """Return the folder of the shipped data cards, ``<id>.yaml``.

    Raises
    ------
    MtlrunError
        If this installation lacks them.
    """
    return _shipped("datasets")


def checkout_dir() -> Path | None:
    """Return the root of the checkout that the package is imported from, None for an
    installed wheel.
    """
    root = _PACKAGE.parent
    if (root / "pyproject.toml").is_file() and not (_PACKAGE / "_configs").is_dir():
        return root
    return None


def _shipped(name: str) -> Path:
    inside = _PACKAGE / f"_{name}"
    if inside.is_dir():
        return inside
    root = checkout_dir()
    if root is not None and (root / name).is_dir():
        return root / name
    raise MtlrunError(
        f"this installation of mtlrun has no {name} folder (looked for {inside}); reinstall mtlrun"
    )


@lru_cache(maxsize=1)
def sources() -> str:
    """Return a digest of all modules of the package, as of the first call."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        digest.update(f"{name}\0".encode() + read_file(path))
    return digest.hexdigest()[:16]


# ---------------------------------------------------------------------- seeds


def derive_seed(base: int, *names: object) -> int:
    """Return a seed that depends on the base seed and these names alone.

    Adding a method or a data set therefore changes nobody else's numbers.

    Parameters
    ----------
    base : int
        Seed of the experiment.
    *names : object
        Purpose of the seed: data set, trial, use. The texts count.

    Returns
    -------
    int
        In [0, 2**32).
    """
    text = "\x1f".join([str(base), *(str(name) for name in names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
