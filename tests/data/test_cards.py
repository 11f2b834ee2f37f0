"""Shipped cards are valid; invalid ones are rejected with file, line and column."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from all_cases import all_cases

from mtlrun.data.sets.cards import Archive, card_paths, check_id, load_card, read_card
from mtlrun.data.sets.load import load_dataset
from mtlrun.errors import DataError, UnknownNameError

GOOD = """\
id: mine
title: Mine
task_type: binary
design: shared
reader: {name: mulan, options: {arff: [a.arff]}}
folder: mine
files:
  - name: a.arff
    sha256: 0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a
  - name: b.arff
    sha256: unknown
    bytes: 7
    containers: [gz, {archive: all.zip, member: data/b.arff}]
    urls: [{url: "https://example.org/b", unverified: true}]
uses: [a.arff]
variants:
  both: {options: {labels: 3}, uses: [a.arff, b.arff], statistics: {n: 9}, notes: and b}
licence: mine
citation: mine
statistics: {n: 5, x_density: 0.5}
notes: note
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def complaints(folder: Path, text: str) -> str:
    with pytest.raises(DataError) as caught:
        read_card(write(folder, text))
    return caught.value.message.replace(f"{folder}/", "")


def test_a_card_may_have_all_keys(tmp_path: Path) -> None:
    card = read_card(write(tmp_path, GOOD))
    assert [f.name for f in card.needed()] == ["a.arff"]
    assert [f.name for f in card.needed("both")] == ["a.arff", "b.arff"]
    both = card.variant("both")
    assert both.options == {"arff": ["a.arff"], "labels": 3}
    assert (both.statistics, both.notes) == ({"n": 9}, "note\nand b")
    b = card.file("b.arff")
    all_zip = Archive(archive="all.zip", member="data/b.arff")
    assert (b.sha256, b.bytes, b.compressions, b.archives) == (
        None,
        7,
        ["gz"],
        [all_zip],
    )
    assert b.urls[0].url == "https://example.org/b"
    assert b.urls[0].unverified
    assert card.file("a.arff").compressions == ["plain", "gz", "bz2", "xz"]


def test_unknown_variants_and_files_get_suggestions(tmp_path: Path) -> None:
    card = read_card(write(tmp_path, GOOD))
    with pytest.raises(UnknownNameError, match="'both'"):
        card.variant("bot")
    with pytest.raises(UnknownNameError, match=r"'a\.arff'"):
        card.file("a.arf")


@all_cases(
    ("old", "new", "text"),
    [
        ("title: Mine\n", "", "mine.yaml:1:1: missing key 'title'"),
        ("title: Mine", "title: 3", "mine.yaml:2:8: 'title' must be a text"),
        ("title: Mine", "titel: Mine", "mine.yaml:2:1: unknown key 'titel'"),
        ("title: Mine", "title: Mine\nid: mine", "mine.yaml:3:1: duplicate key 'id'"),
        (
            "id: mine",
            "id: Mine",
            "mine.yaml:1:5: may contain lower-case letters, digits, '-' and '_' only, "
            "not 'Mine'",
        ),
        (
            "id: mine",
            "id: other",
            "mine.yaml:1:5: id 'other' differs from the name of its file, 'mine.yaml'",
        ),
        (
            "task_type: binary",
            "task_type: bin",
            "mine.yaml:3:12: 'task_type' must be 'binary', 'regression' or "
            "'multiclass', not 'bin'",
        ),
        (
            "folder: mine",
            "folder: ../x",
            "mine.yaml:6:9: 'folder' must be a path below its folder, not '../x'",
        ),
        (
            "- name: a.arff",
            "- name: /a",
            "mine.yaml:8:11: 'name' must be a path below its folder, not '/a'",
        ),
        ("folder: mine\n", "", "mine.yaml:1:1: a card with files needs a folder"),
        (
            "sha256: 0a0a",
            "sha256: 0a0",
            "mine.yaml:9:13: 'sha256' must be 64 lower-case hexadecimal digits",
        ),
        ("bytes: 7", "bytes: true", "mine.yaml:12:12: 'bytes' must be a whole number"),
        (
            "[gz,",
            "[rar,",
            "mine.yaml:13:18: an entry of 'containers' must be 'plain', 'gz', 'bz2' or "
            "'xz', not 'rar'",
        ),
        ('"https:', '"http:', "mine.yaml:14:18: 'url' must start with https://"),
        (
            "uses: [a.arff]",
            "uses: [c.arff]",
            "mine.yaml:15:8: the card has no file 'c.arff'",
        ),
        (
            "b.arff\n    sha256: u",
            "a.arff\n    sha256: u",
            "mine.yaml:8:3: two files are named 'a.arff'",
        ),
        (
            "reader: {",
            "generator: {name: rmtl}\nreader: {",
            "mine.yaml:5:12: a real data set has a reader, not a generator",
        ),
        (
            "{name: mulan,",
            "{name: os.path,",
            "mine.yaml:5:16: 'name' must be name or module:name",
        ),
        (
            "statistics: {n: 5,",
            "statistics: {n: five,",
            "mine.yaml:20:17: 'n' must be a whole number",
        ),
        ("id: mine", "schema: 2\nid: mine", "mine.yaml:1:9: 'schema' must be 1, not 2"),
        ("files:\n", "files: 3\nother:\n", "mine.yaml:7:8: 'files' must be a list"),
        (
            "folder: mine",
            "folder: cards/x",
            "mine.yaml:6:9: 'folder' must not be the folder of the cards",
        ),
        (
            "- name: b.arff",
            "- name: A.arff",
            "mine.yaml:8:3: two files are named 'A.arff'",
        ),
        (
            "title: Mine",
            "title: !!python/name:os.system x",
            "mine.yaml:2:8: tags ('!...') are not supported",
        ),
    ],
)
def test_invalid_cards_are_rejected(
    tmp_path: Path, old: str, new: str, text: str
) -> None:
    assert old in GOOD
    assert any(
        line.startswith(text)
        for line in complaints(tmp_path, GOOD.replace(old, new, 1)).splitlines()
    )


def test_all_problems_are_listed_in_order(tmp_path: Path) -> None:
    lines = complaints(
        tmp_path,
        GOOD.replace("title: Mine", "title: 1").replace(
            "citation: mine", "citation: 2"
        ),
    )
    assert [line for line in lines.splitlines() if line.startswith("mine.yaml")] == [
        "mine.yaml:2:8: 'title' must be a text, not 1",
        "mine.yaml:19:11: 'citation' must be a text, not 2",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"mine\.yaml: the card is empty"),
        ("[1, 2]", r"mine\.yaml:1:1: the file must be a mapping"),
        ("id: mine\n\ttitle: x", r"mine\.yaml:2:1: a tab where blanks are needed"),
        ("id: [", r"mine\.yaml:\d:\d: .*expected.*"),
    ],
)
def test_a_missing_card_is_reported(tmp_path: Path, text: str, message: str) -> None:
    assert re.fullmatch(message, complaints(tmp_path, text).splitlines()[0])


def test_unreadable_cards_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        read_card(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"title: caf\xe9")
    with pytest.raises(
        DataError, match=r"latin\.yaml:1:1: not UTF-8 text \(byte 0xe9\)"
    ):
        read_card(tmp_path / "latin.yaml")


def test_shipped_cards_are_valid() -> None:
    for id in card_paths():
        card = load_card(id)
        assert card.license, id
        assert card.citation, id
        assert {"n", "d", "tasks"} <= set(card.statistics), id
        is_simulated = id.startswith(("simulated", "gauss2d", "eurlex-like"))
        assert card.simulated == is_simulated, id
        if card.simulated:
            assert "imulat" in card.title or "imulat" in card.notes, id


def test_files_from_a_single_host_state_their_origin() -> None:
    for id in card_paths():
        for spec in load_card(id).files:
            hosts = {source.url.split("/")[2] for source in spec.urls}
            assert len(hosts) != 1 or spec.origin, f"{id}: {spec.name}"


def test_an_unknown_id_gets_a_suggestion(lacking) -> None:
    with pytest.raises(UnknownNameError) as caught:
        load_card("delicius")
    assert not lacking(caught.value, "data set 'delicius'", "'delicious'?")


def test_cards_of_the_user_are_found_and_refused_under_the_name_of_a_shipped_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "cards").mkdir()
    write(tmp_path / "cards", GOOD)
    (tmp_path / "cards" / "enron.yaml").write_text(GOOD)
    assert load_card("mine", tmp_path).title == "Mine"
    with pytest.raises(DataError, match="enron") as caught:
        load_card("enron", tmp_path)
    assert "another name" in caught.value.remedy


@pytest.mark.parametrize("key", ["license", "licence"])
def test_the_license_may_have_the_spelling_of_earlier_versions(
    tmp_path: Path, key: str
) -> None:
    text = GOOD.replace("licence:", f"{key}:")
    assert key in text
    assert read_card(write(tmp_path, text)).license


@all_cases("id", ["../enron", "a/b", "", "Enron", "a.b", "-x", "a\n"])
def test_ids_cannot_be_paths(id: str) -> None:
    with pytest.raises(DataError, match="is not the name of a data set"):
        check_id(id)


def test_an_unknown_option_of_a_reader_is_named_with_its_card(
    tmp_path: Path,
) -> None:
    (tmp_path / "cards").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "t.csv").write_text("a,y,task\n1,2,u\n")
    write(
        tmp_path / "cards",
        "{id: mine, title: Mine, task_type: regression, design: ragged, folder: mine, "
        "reader: {name: table, options: {data: t.csv, tarrget: y}}, "
        "files: [{name: t.csv, sha256: unknown}], license: mine, citation: mine}",
    )
    with pytest.raises(UnknownNameError, match=r"mine\.yaml.*'tarrget'"):
        load_dataset("mine", data_dir=tmp_path)
