"""A coverage-guided fuzzer of one reader: ``python tests/fuzz/guided.py arff --seconds
300``. Needs the extra `fuzz`.

It starts from the regression corpus and a few valid files, keeps inputs that reach new
lines of mtlrun in FOLDER, and stops at the first input that violates
`fuzztargets.check`, which it writes to FOLDER/crash-*. Move that file to tests/corpus
once it is understood.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["mtlrun"]):
    from fuzztargets import READERS, check

CORPUS = Path(__file__).parents[1] / "corpus"


def seeds(name: str, folder: Path, count: int = 30) -> None:
    """Write the regression corpus and some valid files of a reader into a folder."""
    from hypothesis.errors import NonInteractiveExampleWarning
    from mutation import VALID

    random.seed(0)
    warnings.simplefilter("ignore", NonInteractiveExampleWarning)
    contents = [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]
    contents += [VALID[name].example()[0] for _ in range(count)]
    for number, content in enumerate(contents):
        (folder / f"seed-{number}").write_bytes(content)


def main() -> None:
    """Read the command line and fuzz."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", choices=sorted(READERS))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument(
        "--folder", type=Path, help="kept inputs; default: a temporary folder"
    )
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="mtlrun-guided-"))
    folder.mkdir(parents=True, exist_ok=True)
    seeds(arguments.reader, folder)
    options = [
        f"-max_total_time={arguments.seconds}",
        "-max_len=20000",
        "-rss_limit_mb=4096",
        "-print_final_stats=1",
    ]
    folders = [f"-artifact_prefix={folder}/", str(folder)]
    atheris.Setup(
        [sys.argv[0], *options, *folders],
        lambda data: check(arguments.reader, data) and None,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
