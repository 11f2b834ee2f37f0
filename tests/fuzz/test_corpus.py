"""Files of tests/corpus, which once caused problems, are rejected (bad-*) or read."""

from pathlib import Path

import pytest
from fuzztargets import READERS, check

CORPUS = Path(__file__).parents[1] / "corpus"
FILES = sorted(path for path in CORPUS.glob("*/*") if path.is_file())


@pytest.mark.parametrize("reader", READERS)
def test_files_of_the_corpus_are_rejected_or_read(reader):
    for path in (CORPUS / reader).iterdir():
        error = check(reader, path.read_bytes())
        assert path.name.startswith("bad-" if error else "ok-"), f"{path}: {error}"


def test_every_reader_has_a_corpus_and_every_file_is_described():
    assert {path.parent.name for path in FILES} == set(READERS)
    lines = (CORPUS / "README.md").read_text(encoding="utf-8").splitlines()
    listed = {line.split("`")[1] for line in lines if line.startswith("* `")}
    assert listed == {f"{path.parent.name}/{path.name}" for path in FILES}
    assert max(path.stat().st_size for path in FILES) < 20_000
