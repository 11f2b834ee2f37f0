"""YAML with the position of each key and value, loaded safely: the one reader of all
YAML files.

Plain data only: YAML 1.2 scalars (so ``1e-3`` is a number, and ``yes`` and
``2015-01-01`` are texts), no tags, no merge keys, no duplicate keys, no non-finite
numbers, no control characters. Size, depth and the number of values are limited,
aliases included.
"""

from __future__ import annotations

import math
import re
import sys
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from mtlrun.errors import ConfigError, UserError, suggest
from mtlrun.utils.io import open_regular
from mtlrun.utils.text import hidden, sanitize

KeyPath = tuple[str | int, ...]
MAX_BYTES = 1_000_000
MAX_DEPTH = 40
MAX_NODES = 50_000
#: Where YAML breaks lines, and so counts them.
_BREAKS = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_SHOWN = 20
#: Characters of an excerpt: with its line number it fits into 80 columns.
_WIDTH = 68


@dataclass(frozen=True)
class Mark:
    """A place in a file: line and column from 1, and how many characters to
    underline.
    """

    line: int
    column: int
    length: int = 1


@dataclass(frozen=True)
class YamlProblem:
    """Something wrong at a place of a document.

    Attributes
    ----------
    mark : Mark or None
        None for the whole file.
    message : str
        The problem.
    hint : str
        The remedy, printed after the caret.
    where : str
        Overrides ``file:line:column``, for values that stand in no file (``--set
        split.trials=x``).
    """

    mark: Mark | None
    message: str
    hint: str = ""
    where: str = ""


@dataclass(frozen=True)
class Position:
    """Where a key and its value stand in a file; an entry of a list is its own key.

    Attributes
    ----------
    key, value : Mark or None
    where : str
        Name to print instead, for values of other files and from the command line.
    """

    key: Mark | None = None
    value: Mark | None = None
    where: str = ""


#: Positions by path, for instance ``("methods", 0, "label")``.
Positions = dict[KeyPath, Position]


def nearest(places: Positions, path: KeyPath) -> Position:
    """Return the position of the value at `path`, or of its nearest parent with one."""
    while path and path not in places:
        path = path[:-1]
    return places.get(path, Position())


@dataclass
class Document:
    """A parsed file.

    Attributes
    ----------
    name : str
        As printed in messages.
    text : str
    data : Any
        Plain dicts, lists and scalars.
    places : dict
    """

    name: str
    text: str
    data: Any
    places: Positions = field(default_factory=dict)


class _Loader(yaml.SafeLoader):
    """Scalars of YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (as PyYAML has it)


class _FastLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The same on libyaml where PyYAML has it, some twenty times as fast."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


_RESOLVERS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
        list("-+.0123456789"),
    ),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+.")),
    ("merge", r"<<", ["<"]),
)
for _tag, _pattern, _first in _RESOLVERS:
    for _loader in (_Loader, _FastLoader):
        _loader.add_implicit_resolver(
            f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})\Z"), _first
        )


class _Refused(Exception):
    """A document that cannot be turned into plain data; its argument is the problem."""


def load_file(
    path: Path, name: str | None = None, error: type[UserError] = ConfigError
) -> Document:
    """Read and parse one file; see `load_text`.

    Raises
    ------
    UserError
        Of the class `error`, if the file cannot be read, is too large, no UTF-8, or no
        acceptable YAML.
    """
    display_name = name or str(path)
    return load_text(read_yaml(path, display_name, error), display_name, error)


def read_yaml(path: Path, name: str, error: type[UserError] = ConfigError) -> str:
    """Return the text of a YAML file; parameters and errors as of `load_file`."""
    try:
        with open_regular(path) as stream:
            raw = stream.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise error(f"{name}: is a folder, not a file") from None
    except OSError as problem:
        raise error(f"{name}: cannot be read: {problem.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise error(
            f"{name}: more than {MAX_BYTES} bytes, which is the limit of a YAML file"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = raw[: problem.start].count(b"\n") + 1
        raise error(
            f"{name}:{line}:1: not UTF-8 text (byte {raw[problem.start]:#04x})"
        ) from None


def load_text(text: str, name: str, error: type[UserError] = ConfigError) -> Document:
    """Parse YAML.

    Parameters
    ----------
    text : str
    name : str
        How messages call the text.
    error : type of UserError, default=ConfigError
        Class of the errors raised.

    Returns
    -------
    Document

    Raises
    ------
    UserError
        Of the class `error`, with ``name:line:column``, the line, a caret, and all
        duplicate keys at once.
    """
    document = Document(name, text, None)
    problems: list[YamlProblem] = []
    try:
        try:
            node = _compose_with(text, _FastLoader)
        except (yaml.YAMLError, UnicodeEncodeError):
            # The messages of this one are the same with and without libyaml.
            node = _compose_with(text, _Loader)
        if node is not None:
            document.data = _Builder(document.places, problems).build(
                node, (), _mark(node)
            )
    except yaml.YAMLError as problem:
        problems.append(_yaml_problem(problem, text))
    except _Refused as refusal:
        problems += refusal.args
    if problems:
        raise error(render(problems, document))
    return document


def render(problems: Iterable[YamlProblem], document: Document) -> str:
    """Write problems in the order of their lines: place, message, two lines of the
    file, caret and hint.
    """
    ordered = sorted(dict.fromkeys(problems), key=_position)
    lines = _BREAKS.split(document.text)
    blocks = [
        _render_one(problem, document.name, lines) for problem in ordered[:_SHOWN]
    ]
    if len(ordered) > _SHOWN:
        blocks.append(f"{len(ordered) - _SHOWN} more problems in {document.name}")
    return "\n".join(blocks)


def _position(problem: YamlProblem) -> tuple[int, int]:
    """Return line and column; problems without a mark come first."""
    if problem.mark:
        return problem.mark.line, problem.mark.column
    return 0, 0


def _render_one(problem: YamlProblem, name: str, lines: list[str]) -> str:
    mark = problem.mark
    if problem.where or mark is None:
        head = f"{problem.where or name}: {problem.message}"
        if problem.hint:
            return f"{head}\n  {problem.hint}"
        return head
    output = [f"{name}:{mark.line}:{mark.column}: {problem.message}"]
    width = len(str(mark.line))
    cut = max(0, min(mark.column - 1, mark.column + mark.length - _WIDTH))
    for number in range(max(1, mark.line - 1), mark.line + 1):
        line = ""
        if number <= len(lines):
            line = lines[number - 1].replace("\t", " ")
        part = line[cut : cut + _WIDTH]
        output.append(
            f"  {number:>{width}} | {'...' if cut and part else ''}{part}".rstrip()
        )
    indent = mark.column - 1 - cut + (3 if cut else 0)
    caret = "^" * max(1, min(mark.length, _WIDTH))
    output.append(
        f"  {' ' * width}   {' ' * indent}{caret}{' ' + problem.hint if problem.hint else ''}"
    )
    return "\n".join(output)


def _compose_with(text: str, loader: type) -> yaml.Node | None:
    """Refuse deep nesting and tags before anything recurses into them or constructs
    them.
    """
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise _Refused(
                YamlProblem(_mark(event), f"nested more than {MAX_DEPTH} levels deep")
            )
        if getattr(event, "tag", None) is not None:
            raise _Refused(
                YamlProblem(
                    _mark(event),
                    "tags ('!...') are not supported",
                    "write plain values",
                )
            )
    node: yaml.Node | None = yaml.compose(text, Loader=loader)
    return node


class _Builder:
    """Turns a node tree into plain data and notes where everything stands."""

    def __init__(self, places: Positions, problems: list[YamlProblem]) -> None:
        self.places = places
        self.problems = problems
        self.n_nodes = 0

    def build(self, node: yaml.Node, path: KeyPath, key: Mark) -> Any:
        self.n_nodes += 1
        if self.n_nodes > MAX_NODES:
            raise _Refused(
                YamlProblem(
                    _mark(node),
                    f"more than {MAX_NODES} values once all aliases are expanded",
                )
            )
        if len(path) > MAX_DEPTH:
            raise _Refused(YamlProblem(_mark(node), "an alias that contains itself"))
        self.places[path] = Position(key, _mark(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        return [
            self.build(item, (*path, i), _mark(item))
            for i, item in enumerate(node.value)
        ]

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            mark = _mark(key_node)
            if key_node.tag.endswith(":merge"):
                self.problems.append(
                    YamlProblem(
                        mark,
                        "merge keys ('<<') are not supported",
                        "write the keys out",
                    )
                )
                continue
            key = None
            if isinstance(key_node, yaml.ScalarNode):
                key = self._scalar(key_node)
            if not isinstance(key, str):
                self.problems.append(
                    YamlProblem(mark, "a key must be a text", "put it in quotes")
                )
                continue
            if key in values:
                first = self.places[(*path, key)].key
                hint = f"first given in line {first.line if first else '?'}"
                self.problems.append(YamlProblem(mark, f"duplicate key {key!r}", hint))
                continue
            values[key] = self.build(value_node, (*path, key), mark)
        return values

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        kind = node.tag.rpartition(":")[2]
        if character := hidden(node.value):
            self.problems.append(
                YamlProblem(
                    _mark(node), f"the invisible character {character}", "remove it"
                )
            )
        if kind not in ("int", "float"):
            constants = {"null": None, "bool": node.value.lower() == "true"}
            return constants.get(kind, node.value)
        value: int | float
        try:
            if kind == "int":
                value = int(node.value)
            else:
                value = float(node.value.lower().replace(".inf", "inf"))
        except ValueError:  # .nan, or more digits than Python converts
            value = math.nan
        # Neither NaN nor a whole number beyond all floats is below the limit.
        if abs(value) <= sys.float_info.max:
            return value
        message = "numbers must be finite and of reasonable length"
        self.problems.append(YamlProblem(_mark(node), message))
        return None


def _mark(node: Any) -> Mark:
    start = node.start_mark
    end = node.end_mark
    length = 1
    if end.line == start.line:
        length = end.column - start.column
    return Mark(start.line + 1, start.column + 1, max(1, length))


def _yaml_problem(error: yaml.YAMLError, text: str) -> YamlProblem:
    if isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position]
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        return YamlProblem(
            Mark(line, column),
            f"the character {sanitize(chr(error.character))} may not stand in YAML",
        )
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    location = None
    if mark is not None:
        location = Mark(mark.line + 1, mark.column + 1)
    text = str(getattr(error, "problem", None) or error)
    if "'\\t'" in text:
        return YamlProblem(
            location, "a tab where blanks are needed", "indent with blanks"
        )
    context = getattr(error, "context", None)
    return YamlProblem(
        location, f"not valid YAML: {text}" + (f" {context}" if context else "")
    )


# ---------------------------------------------------- problems of plain data


class Finding(NamedTuple):
    """Problem of a value in plain data, or of its key.

    Attributes
    ----------
    path : tuple
        Path of the value.
    message : str
    hint : str
        Remedy; "" for none.
    at_key : bool
        Whether the key is wrong, not the value.
    """

    path: KeyPath
    message: str
    hint: str = ""
    at_key: bool = False


class StrictModel(BaseModel):
    """Strict types (a quoted number is text), no unknown keys, immutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


_EXPECTED = {
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
}


#: Messages of pydantic, and their wording here.
_WORDS = {
    "Input should be": "must be",
    "String should match": "must match",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
}


def _as_it_is(path: KeyPath) -> KeyPath:
    return path


def schema_findings(
    error: ValidationError,
    data: Any,
    model: type[BaseModel],
    display_path: Callable[[KeyPath], KeyPath] = _as_it_is,
) -> Iterator[Finding]:
    """Yield the errors of pydantic, with the paths of the values that were validated.

    Parameters
    ----------
    error : ValidationError
    data : dict
        Data that were validated.
    model : type
        Model with which they were validated.
    display_path : callable, optional
        Returns the path to show in messages, if the data were rearranged before.
    """
    seen = set()
    for pydantic_error in error.errors(include_url=False):
        path, rest = _locate(data, pydantic_error["loc"])
        kind = pydantic_error["type"]
        if kind == "extra_forbidden":
            owner = _model_at(path[:-1], data, model)
            valid_keys = []
            if owner is not None:
                fields = owner.model_fields.items()
                valid_keys = [field.alias or name for name, field in fields]
            yield unknown_key(path, valid_keys, display_path)
        elif kind == "missing":
            key = display_path(rest[-1:])[0]
            message = f"missing key {key!r}{inside(display_path(path))}"
            yield Finding(path, message, at_key=True)
        elif path not in seen:
            # A union has an error for each alternative, but one message is enough.
            text = reworded(pydantic_error)
            if text.startswith("must"):
                visible_path = display_path(path)
                names = [step for step in visible_path if isinstance(step, str)]
                subject = "the file"
                if names and isinstance(visible_path[-1], int):
                    subject = f"an entry of {names[-1]!r}"
                elif visible_path:
                    subject = repr(visible_path[-1])
                text = f"{subject} {text}"
            value = pydantic_error.get("input")
            hint = ""
            if kind == "list_type" and isinstance(value, str | int | float):
                hint = f"write [{value}]"
            elif kind == "unknown_name":
                hint = pydantic_error["ctx"]["hint"]
            yield Finding(path, text, hint)
        seen.add(path)


def rendered(findings: Iterable[Finding], document: Document) -> str:
    """Write findings with their positions in a document."""
    problems = []
    for finding in findings:
        position = nearest(document.places, finding.path)
        mark = position.value
        if finding.at_key:
            mark = position.key
        problems.append(YamlProblem(mark, finding.message, finding.hint))
    return render(problems, document)


def unknown_key(
    path: KeyPath,
    valid_keys: Iterable[str],
    display_path: Callable[[KeyPath], KeyPath] = _as_it_is,
) -> Finding:
    """Return the finding of an unknown key, with the nearest valid key."""
    key = str(path[-1])
    message = f"unknown key {key!r}{inside(display_path(path[:-1]))}"
    hint = f"valid keys: {', '.join(valid_keys)}"
    near = suggest(key, valid_keys, 1)
    if near:
        hint = f"did you mean {near[0]!r}?   {hint}"
    return Finding(path, message, hint, at_key=True)


def inside(path: KeyPath) -> str:
    """Return `` in methods[0].params``, or nothing for the whole file."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}"
    text = text.lstrip(".")
    if text:
        return f" in {text}"
    return ""


def _locate(
    data: Any, location: tuple[str | int, ...]
) -> tuple[KeyPath, tuple[str | int, ...]]:
    """Split a pydantic location into the part that exists in the data and the rest;
    union tags are skipped.
    """
    path: list[str | int] = []
    rest: list[str | int] = []
    for step in location:
        try:
            data = data[step]
            path.append(step)
        except (KeyError, IndexError, TypeError):
            rest.append(step)
    return tuple(path), tuple(rest)


def reworded(finding: Any) -> str:
    """Return what pydantic found wrong with one value, in plain words: ``must be a
    number, not 'ten'``.
    """
    text = _EXPECTED.get(finding["type"]) or str(finding["msg"]).removeprefix(
        "Value error, "
    )
    for wording, words in _WORDS.items():
        text = text.replace(wording, words)
    value = finding.get("input")
    if (
        not text.startswith("must be ")
        or ", not " in text
        or isinstance(value, dict | list)
    ):
        return text
    # As in YAML where Python spells it differently.
    yaml_text = repr(value)
    if value is None:
        yaml_text = "null"
    elif isinstance(value, bool):
        yaml_text = yaml_text.lower()
    return f"{text}, not {yaml_text}"


def _model_at(
    path: KeyPath, data: Any, root: type[BaseModel]
) -> type[BaseModel] | None:
    """Return the model at a path; of several alternatives, the one with most of the
    keys.
    """
    models: list[type[BaseModel]] = [root]
    for step in path:
        data = data[step]
        matches = [
            m.model_fields[str(step)].annotation
            for m in models
            if step in m.model_fields
        ]
        if matches:
            models = [
                model for annotation in matches for model in _models_in(annotation)
            ]
    keys = set(data) if isinstance(data, dict) else set()
    return max(
        models, key=lambda model: len(keys & set(model.model_fields)), default=None
    )


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _models_in(part)
