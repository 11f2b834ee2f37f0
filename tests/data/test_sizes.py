"""Small files that claim to be large are rejected before memory is allocated, with one
kind of message.
"""

import contextlib
import gzip
import hashlib
import io
import json
import lzma
import resource
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

import mtlrun
from mtlrun.comparison.options import CompareOptions
from mtlrun.data import load_dataset
from mtlrun.data.reading.read import read_table
from mtlrun.engine.packed import PACKED, unpack
from mtlrun.errors import DataError, UserError
from mtlrun.lab.experiment.load import chunk_training, load_experiment
from mtlrun.lab.plan import plan
from mtlrun.model.plots import plot_model
from mtlrun.problem.statistics import TaskStatistics
from mtlrun.utils import sizes
from mtlrun.utils.arrays import NpzArchive
from mtlrun.utils.sizes import SizeError

#: Limit of the memory that an error may take
FEW_BYTES = 1 << 30


@pytest.fixture
def traced():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    ) * 1024 < FEW_BYTES


def zipped(**members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


def header(shape, descr="<f8"):
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        content, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return content.getvalue() + bytes(64)


def workbook(sheet):
    """Return a workbook with another sheet of cells."""
    pytest.importorskip("openpyxl")
    content, output = io.BytesIO(), io.BytesIO()
    pd.DataFrame({"a": [1]}).to_excel(content, index=False)
    with (
        zipfile.ZipFile(content) as source,
        zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in source.namelist():
            target.writestr(
                name, sheet if name == "xl/worksheets/sheet1.xml" else source.read(name)
            )
    return output.getvalue()


XMLNS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
FAR = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
#: The same in a row that takes no time to reach
NEAR = FAR.replace("1048576", "2000")
SHEET = (
    f'<worksheet xmlns="{XMLNS}"><sheetData><row r="1"><c '
    f'r="A1"><v>1</v></c></row>{{}}</sheetData></worksheet>'
)
SHEETS = {
    "as Excel writes": SHEET.format(FAR),
    "single quotes": SHEET.format(NEAR.replace('"', "'")),
    "entities": SHEET.format(NEAR.replace("X", "&#88;")),
    "attributes in another order": SHEET.format(NEAR.replace('<c r="', '<c t="n" r="')),
    "prefix": SHEET.format(NEAR)
    .replace("<", "<m:")
    .replace("<m:/", "</m:")
    .replace("xmlns=", "xmlns:m="),
    "a row that no sheet has": SHEET.format(
        '<row r="99999999999"><c r="A1"><v>1</v></c></row>'
    ),
    "wide and tall": SHEET.format(
        '<row r="20000"><c r="A20000"><v>1</v></c><c r="ZZZ20000"><v>1</v></c></row>'
    ),
}


def parquet(rows):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    content = io.BytesIO()
    column = pa.array(np.zeros(rows, dtype=np.int8))
    pq.write_table(pa.table({f"x{k}": column for k in range(8)}), content)
    return content.getvalue()


def matlab():
    content = io.BytesIO()
    scipy.io.savemat(
        content, {"X": sp.csc_matrix(([1.0], ([0], [0])), shape=(1_000_000, 1_000_000))}
    )
    return content.getvalue()


def forged_parts():
    rows = np.zeros(1, dtype=np.int64)
    return {
        "data": rows,
        "indices": rows,
        "indptr": np.array([0, 1]),
        "shape": np.array([1, 1 << 40]),
    }


def sparse_archive():
    content = io.BytesIO()
    np.savez(content, **forged_parts())
    return content.getvalue()


TABLES = {
    "line ends": (
        "a.csv.gz",
        lambda: gzip.compress(b"a,b\n" + b"\n" * (sizes.EXPANDED_BYTES + 1), 1),
    ),
    "line ends first": ("a.csv", lambda: b"\n" * 20_000_000 + b"a,b\n1,2\n"),
    "columns": (
        "a.csv",
        lambda: (
            b",".join(b"c%d" % k for k in range(300_000))
            + b"\n"
            + b"0," * 299_999
            + b"0\n"
        ),
    ),
    "columns of blanks": ("a.txt", lambda: b"1 " * 3_000_000),
    "shape of an array": ("a.npz", lambda: zipped(**{"X.npy": header((36 << 40,))})),
    "columns without rows": (
        "a.npz",
        lambda: zipped(**{"X.npy": header((0, 1 << 40))[:-64]}),
    ),
    "sparse columns": ("a.npz", sparse_archive),
    "index of svmlight": ("a.svm", lambda: b"1 500000000:1\n"),
    "sparse matrix of MATLAB": ("a.mat", matlab),
    "rows of parquet": ("a.parquet", lambda: parquet(7_000_000)),
    **{
        f"sheet, {name}": ("a.xlsx", lambda sheet=sheet: workbook(sheet))
        for name, sheet in SHEETS.items()
    },
}


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("case", TABLES)
def test_tables_that_claim_too_much_are_rejected(tmp_path, case):
    name, make = TABLES[case]
    path = tmp_path / name
    path.write_bytes(make())
    with pytest.raises(UserError) as caught:
        read_table(path)
    assert name in str(caught.value)
    assert caught.value.remedy
    if "array" not in case:  # In this format it counts as damage.
        assert isinstance(caught.value, SizeError)
        assert "the limit is" in caught.value.message


@pytest.mark.slow
def test_large_tables_of_the_claimed_size_are_read(tmp_path):
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame(
        np.arange(5_000).reshape(50, 100) % 7, columns=[f"c{k}" for k in range(100)]
    )
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    frame.to_csv(tmp_path / "a.csv.gz", index=False)
    for name in ("a.xlsx", "a.csv.gz"):
        assert (
            read_table(tmp_path / name).frame.astype(float).equals(frame.astype(float))
        )
    wide = pd.DataFrame(np.zeros((2, 2000)), columns=[f"c{k}" for k in range(2000)])
    wide.to_csv(tmp_path / "wide.csv", index=False)
    assert read_table(tmp_path / "wide.csv").frame.shape == (2, 2000)
    # Reading a column takes half a millisecond.
    assert sizes.COLUMNS > 20_000


def test_a_workbook_in_another_layout_is_read(tmp_path):
    cells = "<row r='1'><c r='A1'><v>1</v></c><c><v>2</v></c></row><row><c><v>3</v></c><c><v>4</v></c></row>"
    sheet = f'<worksheet xmlns="{XMLNS}"><sheetData>{cells}</sheetData></worksheet>'
    (tmp_path / "a.xlsx").write_bytes(workbook(sheet))
    assert read_table(tmp_path / "a.xlsx").frame.to_numpy().tolist() == [[1, 2], [3, 4]]


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_packed_columns_do_not_expand(tmp_path):
    content = lzma.compress(b"a" * 200_000_000, preset=0)
    (tmp_path / PACKED).write_bytes(content)
    with pytest.raises(ValueError, match="the limit is"):
        unpack(tmp_path / PACKED)


def test_packed_columns_that_claim_too_many_records_are_rejected(tmp_path):
    content = {
        "schema": 1,
        "n_records": 10**12,
        "records": {"values": []},
        "denominators": [],
    }
    text = json.dumps(content).encode()
    digest = hashlib.sha256(text).hexdigest().encode()
    (tmp_path / PACKED).write_bytes(lzma.compress(digest + b"\n" + text))
    with pytest.raises(ValueError, match="the limit is"):
        unpack(tmp_path / PACKED)


EXPERIMENT = """\
schema: 1
id: lab/tiny
title: A tiny experiment
kind: evaluate
datasets: [{id: simulated-rmtl, n: 60, d: 8, m: 6, rank: 2}]
split: {kind: random, train: 0.5, trials: TRIALS}
metrics: [nmse]
selection: {folds: FOLDS}
methods:
  - {label: a, estimator: "sklearn.linear_model:Ridge", params: {}, grid: {alpha: &v VALUES, tol: *v, max_iter: *v}}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(
    ("trials", "folds", "values"),
    [
        (2_000_000_000, 2, [1]),
        (900_000, 9, [1]),
        (1, 2_000_000_000, [1]),
        (1, 2, list(range(1, 800))),
    ],
)
def test_experiments_with_too_many_jobs_are_rejected(tmp_path, trials, folds, values):
    text = (
        EXPERIMENT.replace("TRIALS", str(trials))
        .replace("FOLDS", str(folds))
        .replace("VALUES", json.dumps(values))
    )
    (tmp_path / "tiny.yaml").write_text(text)
    with pytest.raises(UserError, match=r"tiny\.yaml"):
        plan(load_experiment(tmp_path / "tiny.yaml"), output=tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("folds", [5, 2_000_000_000])
def test_grids_named_elsewhere_in_a_file_are_counted(tmp_path, folds):
    """In an experiment, where grids have names, and in a training file for chunks."""
    values = json.dumps(list(range(1, 800)))
    named = (
        EXPERIMENT.replace("TRIALS", "1")
        .replace("FOLDS", "2")
        .replace("&v VALUES", "g")
        .replace("*v", "g")
    )
    (tmp_path / "tiny.yaml").write_text(f"{named}grids: {{g: {values}}}\n")
    with pytest.raises(UserError, match=r"tiny\.yaml:\d+:\d+.*510,082,399"):
        plan(load_experiment(tmp_path / "tiny.yaml"), output=tmp_path)
    grid = {"alpha": "&v " + values, "beta": "*v", "gamma": "*v"} if folds == 5 else {}
    many = ", ".join(f"{name}: {text}" for name, text in grid.items())
    head = (
        f"schema: 1\nid: own/c\nkind: train\nfolds: {folds}\n"
        f"data: {{files: rows, target: y, task: t}}\n"
    )
    (tmp_path / "chunks.yaml").write_text(
        f"{head}method: {{estimator: TraceNormMTL, grid: {{{many}}}}}\n"
    )
    with pytest.raises(UserError, match=r"chunks\.yaml:\d+:\d+"):
        chunk_training(str(tmp_path / "chunks.yaml"))


HUGE = 10**12
SIMULATED = [
    ("simulated-rmtl", "n d m rank"),
    ("simulated-fetr", "n d m"),
    ("gauss2d", "n"),
    ("simulated-kernel-groups", "rows tasks d"),
    ("eurlex-like", "n d m draws rank"),
    ("simulated-breast-cancer", "n_genes factors"),
    ("simulated-splice", "n length"),
]


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(
    ("name", "size"),
    [(name, size) for name, sizes in SIMULATED for size in sizes.split()],
)
def test_simulated_data_with_too_many_numbers_are_rejected(name, size):
    with pytest.raises(SizeError, match="the limit is"):
        load_dataset(name, **{size: HUGE})


@pytest.mark.parametrize(
    ("n", "length"), [(6_400_000, 75), (6_392_176, 141)], ids=["table 2", "figure 3"]
)
def test_the_strings_of_the_papers_are_not_too_many(n, length):
    with pytest.raises(
        DataError, match="shared <= 1"
    ):  # The error occurs after the size check.
        load_dataset("simulated-splice", n=n, length=length, shared=2)


@pytest.mark.parametrize(
    "options", [{"splits": 2 << 40}, {"folds": 2 << 40}, {"repeats": 2 << 40}]
)
def test_comparisons_with_too_many_splits_are_rejected(options):
    with pytest.raises(UserError, match="the limit is"):
        CompareOptions(**options)
    frame = pd.DataFrame({"x": range(40), "t": ["a", "b"] * 20, "y": range(40)})
    with pytest.raises(UserError, match="the limit is"):
        mtlrun.compare(frame, target="y", task="t", **options)


def test_archives_written_by_mtlrun_are_checked_first(tmp_path):
    bomb = zipped(
        **{
            f"{name}.npy": header((1 << 42,))
            for name in ("coef", "tasks", "features", "about")
        }
    )
    for name in ("coefficients.npz", "s.npz"):
        (tmp_path / name).write_bytes(bomb)
    facts = {
        "schema": 2,
        "files": {},
        "tasks": [],
        "input": {"n_features": 1},
        "design": "shared",
        "task_type": "regression",
    }
    (tmp_path / "model.json").write_text(
        json.dumps({**facts, "estimator": {}, "dataset": {}})
    )
    with pytest.raises(UserError, match=r"is damaged|model description"):
        plot_model(tmp_path, "coefficients", tmp_path / "x.svg")
    with pytest.raises(UserError, match="is damaged"):
        TaskStatistics.load(tmp_path / "s.npz")


def test_a_changed_bit_in_an_archive_is_damage_or_changes_nothing():
    content = io.BytesIO()
    np.savez(content, a=np.arange(4.0))
    for position in range(len(content.getvalue())):
        changed = bytearray(content.getvalue())
        changed[position] ^= 1
        with contextlib.suppress(ValueError, OSError):
            assert NpzArchive(bytes(changed), "f").arrays().get(
                "a", np.arange(4.0)
            ).tolist() == [0, 1, 2, 3]


def test_all_limits_have_the_same_kind_of_message():
    with pytest.raises(SizeError) as caught:
        sizes.allow("f.csv:3", 12345, 1000, "columns", "Do this.")
    assert (caught.value.message, caught.value.remedy) == (
        "f.csv:3: 12,345 columns, the limit is 1,000",
        "Do this.",
    )
