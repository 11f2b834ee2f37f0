"""Run the Python blocks of pages and compare what they print with what the pages show.

``python scripts/docs_output.py docs/guide docs/start`` runs every block; with
``--write`` the printed output is stored in the pages. A block of Python that prints is
followed by a block of text with its output. The site is not built if the two differ.

Pages read the tables of examples/ by their names.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

#: Pages are run by this many processes: the site must be built quickly on two cores.
N_PROCESSES = 2
#: Tables that ship with the repository, which pages read by their names.
TABLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.csv"))

_FENCE = re.compile(
    r"^```(?P<head>[^\n]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE
)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


class Example(NamedTuple):
    """A block of Python on a page and the output shown below it.

    Attributes
    ----------
    code : str
    code_end : int
        Position in the page at which the block of code ends.
    output : str or None
        None if no block of output follows.
    output_span : (int, int) or None
        Positions in the page between which the output stands.
    line : int
        Line of the page on which the code starts, to name it in errors.
    """

    code: str
    code_end: int
    output: str | None
    output_span: tuple[int, int] | None
    line: int


def examples(page: str) -> list[Example]:
    """Return the blocks of Python on a page, each with the output that follows it.

    A block with a title is the content of a file; it is not run here.
    """
    fences = list(_FENCE.finditer(page))
    result = []
    for position, fence in enumerate(fences):
        if fence["head"] != "python":
            continue
        output = None
        span = None
        if position + 1 < len(fences) and fences[position + 1]["head"] == "text":
            following = fences[position + 1]
            output = following["body"]
            span = following.span("body")
        line = page.count("\n", 0, fence.start("body")) + 1
        result.append(Example(fence["body"], fence.end(), output, span, line))
    return result


def run(page: str, name: str) -> list[str]:
    """Return what each block of Python prints; later blocks see the names of earlier
    ones.

    Parameters
    ----------
    page : str
        Text of the page.
    name : str
        Name of the page, for tracebacks.

    Raises
    ------
    Exception
        Whatever the code raises. Warnings are errors: no page should show code that
        warns.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for table in TABLES:
            shutil.copy(table, folder)
        for example in examples(page):
            stream = io.StringIO()
            # Empty lines keep the line numbers of tracebacks those of the page.
            source = "\n" * (example.line - 1) + example.code
            with contextlib.redirect_stdout(stream), warnings.catch_warnings():
                warnings.simplefilter("error")
                exec(compile(source, name, "exec"), namespace)
            printed.append(stream.getvalue())
    return printed


def agrees(shown: str, printed: str) -> bool:
    """Whether an output is the one shown, up to blanks and one unit in the last digit
    shown.

    Another processor may round 2.345 up where this one rounds it down. Integers and all
    other text must be equal.
    """
    if _words(shown) != _words(printed):
        return False
    pairs = zip(_NUMBER.findall(shown), _NUMBER.findall(printed), strict=True)
    return all(_is_close(first, second) for first, second in pairs)


def _words(output: str) -> str:
    """Return an output with # for every number, without blanks: NumPy aligns
    columns.
    """
    return "".join(_NUMBER.sub("#", output).split())


def _is_close(shown: str, printed: str) -> bool:
    mantissa, _, exponent = shown.lower().partition("e")
    _, point, decimals = mantissa.partition(".")
    if not point and not exponent:
        return float(shown) == float(printed)
    unit = 10.0 ** (int(exponent or 0) - len(decimals))
    return abs(float(shown) - float(printed)) <= 1.001 * unit


def differences(page: str, name: str) -> list[str]:
    """Return a message for every block whose output is not the one shown."""
    messages = []
    for example, printed in zip(examples(page), run(page, name), strict=True):
        shown = example.output
        if shown is None and printed:
            messages.append(
                f"{name}:{example.line} prints, but no output is shown:\n{printed}"
            )
        elif shown is not None and not agrees(shown, printed):
            messages.append(
                f"{name}:{example.line} shows\n{shown}but prints\n{printed}"
            )
    return messages


def rewrite(page: str, name: str) -> str:
    """Return a page with the output that its code prints; equal output stays
    untouched.
    """
    pairs = list(zip(examples(page), run(page, name), strict=True))
    # From the end, so that positions of earlier blocks stay valid.
    for example, printed in reversed(pairs):
        if example.output_span is not None:
            if not agrees(example.output or "", printed):
                start, end = example.output_span
                page = page[:start] + printed + page[end:]
        elif printed:
            block = f"\n\n```text\n{printed}```"
            page = page[: example.code_end] + block + page[example.code_end :]
    return page


def process(path: Path, *, is_writing: bool) -> list[str]:
    """Check or rewrite one page; return messages."""
    page = path.read_text("utf-8")
    if is_writing:
        updated = rewrite(page, path.name)
        if updated != page:
            path.write_text(updated, "utf-8")
        return []
    try:
        return differences(page, path.name)
    except Exception as error:
        return [f"{path} fails: {type(error).__name__}: {error}"]


def pages(arguments: list[str]) -> list[Path]:
    """Return the pages among files and folders, those with the most code first."""
    paths = []
    for argument in map(Path, arguments):
        paths += sorted(argument.rglob("*.md")) if argument.is_dir() else [argument]
    return [path for path in paths if examples(path.read_text("utf-8"))]


def main(arguments: list[str]) -> int:
    """Check all pages; return 1 if an output differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", help="pages and folders of pages")
    parser.add_argument("--write", action="store_true", help="store the output")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    paths = pages(options.pages)
    messages = []
    with ProcessPoolExecutor(min(N_PROCESSES, len(paths) or 1)) as pool:
        jobs = [pool.submit(process, path, is_writing=options.write) for path in paths]
        for job in jobs:
            messages += job.result()
    sys.stderr.write("".join(f"{message}\n" for message in messages))
    if messages:
        sys.stderr.write(
            "Store the output with: python scripts/docs_output.py --write\n"
        )
    return int(bool(messages))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
