"""EUR-Lex and Mediamill from small files in the public format."""

import hashlib
import itertools

import numpy as np
import pytest
import yaml
from scipy import sparse
from typer.testing import CliRunner

from mtlrun.cli.app import app
from mtlrun.data import load_dataset
from mtlrun.data.sets.cards import datasets_dir
from mtlrun.errors import DataError

N, D, LABELS = 40, 12, 6


def labels_xml(names):
    """Return the list of labels in Mulan's format."""
    lines = "".join(f'<label name="{name}"></label>\n' for name in names)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<labels xmlns="http://mulan.sourceforge.net/labels">\n{lines}</labels>\n'
    )


def eurlex(X, Y):
    """Return the text of sparse documents: nonzero term weights, then labels."""
    names = [f"{i:02d}_10_{i}" for i in range(LABELS)]
    head = [f"@attribute {j} numeric" for j in range(D)] + [
        f"@attribute {name} {{0,1}}" for name in names
    ]
    rows = []
    for x, y in zip(X, Y, strict=True):
        cells = [f"{j} {v:.6f}" for j, v in enumerate(x) if v] + [
            f"{D + k} 1" for k in np.flatnonzero(y)
        ]
        rows.append("{" + ",".join(cells) + "}")
    return "@relation EUR-Lex\n\n" + "\n".join(head) + "\n\n@data\n" + "\n".join(
        rows
    ) + "\n", labels_xml(names)


def mediamill(X, Y):
    """Return the text of dense shots: real features, then concepts."""
    names = [f"Class{i + 1}" for i in range(LABELS)]
    head = [f"@ATTRIBUTE Att{j + 1} NUMERIC" for j in range(D)] + [
        f"@ATTRIBUTE {name} {{0, 1}}" for name in names
    ]
    rows = [
        ",".join([*(f"{v:g}" for v in x), *map(str, y)])
        for x, y in zip(X, Y, strict=True)
    ]
    return "@RELATION mediamill\n\n" + "\n".join(head) + "\n\n@DATA\n" + "\n".join(
        rows
    ) + "\n", labels_xml(names)


FORMATS = {"eurlex-dc": eurlex, "mediamill": mediamill}


@pytest.fixture(params=FORMATS)
def small(request, tmp_path):
    """Write small files in place of the public ones; return the card's id, X and Y."""
    id = request.param
    rng = np.random.default_rng(0)
    X = np.round(
        rng.random((N, D)) * (rng.random((N, D)) < 0.4 if id == "eurlex-dc" else 1), 6
    )
    Y = (X @ rng.normal(size=(D, LABELS)) > 0).astype(int)
    card = yaml.safe_load((datasets_dir() / f"{id}.yaml").read_text(encoding="utf-8"))
    folder = tmp_path / card["folder"]
    folder.mkdir()
    for spec, text in zip(card["files"], FORMATS[id](X, Y), strict=True):
        (folder / spec["name"]).write_text(text, encoding="utf-8")
        spec.update(
            sha256=hashlib.sha256(text.encode()).hexdigest(), bytes=len(text.encode())
        )
    card.update(id=f"small-{id}", statistics={"n": N, "d": D, "tasks": LABELS})
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards" / f"small-{id}.yaml").write_text(
        yaml.safe_dump(card), encoding="utf-8"
    )
    return card["id"], X, Y


def test_they_are_read_unchanged(small, tmp_path):
    id, X, Y = small
    data = load_dataset(id, data_dir=tmp_path)
    assert sparse.issparse(data.X) == id.endswith("eurlex-dc")
    np.testing.assert_allclose(
        data.X.toarray() if sparse.issparse(data.X) else data.X, X, atol=1e-6
    )
    np.testing.assert_array_equal(data.y, 2 * Y - 1)
    assert len(data.tasks) == LABELS
    assert load_dataset(id, data_dir=tmp_path, sample=25).n_samples == 25


@pytest.mark.slow
@pytest.mark.every(2)
def test_table_2_runs_on_them(small, tmp_path, monkeypatch):
    id, _, _ = small
    monkeypatch.chdir(tmp_path)
    sets = [f"datasets=[{id}]", "split.train=0.5"]
    options = [
        "--profile",
        "smoke",
        "--data-dir",
        str(tmp_path),
        "--only",
        "method=APG-DC-*,method=RidgeReg",
    ]
    sets.append("methods.APG-DC-RMTL-10%.params.n_blocks=3")
    sets = list(itertools.chain.from_iterable(("--set", text) for text in sets))
    result = CliRunner().invoke(app, ["reproduce", "table2", *options, *sets])
    assert result.exit_code == 0, result.output
    assert "3 of 10 results done" in result.stdout


@pytest.mark.parametrize("id", FORMATS)
def test_files_with_other_content_are_rejected(id, tmp_path):
    card = yaml.safe_load((datasets_dir() / f"{id}.yaml").read_text(encoding="utf-8"))
    (tmp_path / card["folder"]).mkdir()
    for spec in card["files"]:
        (tmp_path / card["folder"] / spec["name"]).write_text(
            "@relation other\n", encoding="utf-8"
        )
    with pytest.raises(DataError, match=card["files"][0]["sha256"][:12]):
        load_dataset(id, data_dir=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("id", FORMATS)
def test_if_they_are_missing_the_table_prints_the_remedy(
    id, tmp_path, monkeypatch, lacking
):
    monkeypatch.chdir(tmp_path)
    command = [
        "reproduce",
        "table2",
        "--profile",
        "full",
        "--only",
        f"dataset={id}",
        "--data-dir",
        str(tmp_path),
    ]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert not lacking(result.stderr, f"{id}.arff, {id}.xml", str(tmp_path))
    assert "mtlrun reproduce dcrmtl/table2 --profile demo" in result.stderr
