"""Tables of DNA strings."""

import pytest

KIND = {"task_type": "binary", "design": "ragged"}
ROWS = b"organism,sequence,label,note\nfly,acgu,1,x\n\nworm,NNRT,-1,\nfly,TTTT,0,y\n"


def test_strings_labels_and_tasks_are_read(own_set):
    data = own_set.write("sequences", {"a.csv": ROWS}, {"task": "organism"}, **KIND)()
    assert data.X.tolist() == [b"ACGT", b"NNRT", b"TTTT"]
    assert data.y.tolist() == [1, -1, -1]
    assert data.task_id.tolist() == [0, 1, 0]
    assert data.tasks == ["fly", "worm"]


def test_several_files_tabs_and_named_labels(own_set):
    files = {"a.tsv": b"s\tkind\nAC\tsite\nGG\tdecoy\n", "b.tsv": b"kind\ts\r\nsite\tTT\r\n"}
    options = {"sequence": "s", "label": "kind", "positive": "site", "delimiter": "\t"}
    data = own_set.write("sequences", files, options, **KIND)()
    assert data.X.tolist() == [b"AC", b"GG", b"TT"]
    assert data.y.tolist() == [1, -1, 1]
    assert data.tasks == ["all"]


@pytest.mark.parametrize(
    ("content", "options", "text"),
    [
        (b"sequence,label\nAC,1\nAX,1\n", {}, "t.csv:3:2: 'X' is not an IUPAC letter of DNA"),
        (b"label,sequence\n1,AC\n1,A-\n", {}, "t.csv:3:2: '-' is not an IUPAC letter of DNA"),
        (b"sequence,label\nAC,1\nACG,1\n", {}, "t.csv:3: a sequence of 3 bases where the first has 2"),
        (b"sequence,label\n,1\n", {}, "t.csv:2: a sequence of 0 bases"),
        (b"sequence,label\nAC,2\n", {}, "t.csv:2: the label '2' is none of 1, +1, -1, 0"),
        (b"sequence,label\nAC\n", {}, "t.csv:2: 1 cell where the first line has 2"),
        (b"sequence,label\n", {}, "t.csv: no rows below the header"),
        (b"", {}, "t.csv: no rows"),
        (b"sequence,label\nA\xff,1\n", {}, "t.csv:2:2: byte 0xff is not UTF-8 text"),
        (b"sequences,label\nAC,1\n", {}, "unknown column of t.csv 'sequence'\nDid you mean 'sequences'?"),
        (ROWS, {"task": "species"}, "unknown column of t.csv 'species'"),
    ],
)
def test_bad_tables(own_set, content, options, text):
    assert own_set.error("sequences", {"t.csv": content}, options, **KIND).startswith(text)
