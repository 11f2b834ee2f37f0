"""Records on disk: an altered line is refused, packed ones are the same bytes, published runs need nothing else."""

import pytest

from mtlrun.cli.look import status
from mtlrun.engine.plan import other_versions, rerun_reasons, survey
from mtlrun.engine.record import PACKED, Record, Records, pack, unpack
from mtlrun.lab.report.build import FILES, build_report
from mtlrun.utils.outputs import publish


def record(key="a", **fields):
    return Record(key, "fit", {"x": 1}, metrics={"auc": 0.75}, **fields)


def test_a_line_is_read_as_it_was_written():
    made = record(error="é \u2028", seconds={"fit": float("nan")})
    again = Record.from_line(made.line())
    assert again == record(error="é \u2028", seconds={"fit": None})
    assert again.line() == made.line()
    assert made.line().count("\n") == 1


@pytest.mark.parametrize(
    "altered",
    [
        lambda line: line.replace("0.75", "0.85"),
        lambda line: line[:-2],
        lambda line: line + line,
        lambda line: "",
        lambda line: line.replace('"sha256":"', '"sha256":"0', 1),
        lambda line: line.replace('"record"', '"recorx"'),
    ],
)
def test_an_altered_line_is_refused_and_its_file_named(tmp_path, altered):
    line = altered(record().line())
    with pytest.raises(ValueError, match=r"digest|not a record"):
        Record.from_line(line)
    stored = Records(tmp_path, tmp_path / "run")
    stored.cells_folder.mkdir()
    stored.path("a").write_text(line)
    with pytest.raises(ValueError, match=r"cells/a\.json is damaged"):
        stored.read("a")
    assert stored.load("a") is None


def test_a_record_under_another_name_is_refused(tmp_path):
    stored = Records(tmp_path)
    stored.cells_folder.mkdir()
    stored.path("b").write_text(record("a").line())
    with pytest.raises(
        ValueError, match=r"cells/b\.json is damaged: it holds the cell a"
    ):
        stored.read("b")


def test_packing_is_stable_to_the_byte(tmp_path):
    lines = {key: record(key).line() for key in "cab"}
    packed = pack(lines.items())
    assert packed == pack(sorted(lines.items()))
    (tmp_path / PACKED).write_bytes(packed)
    found = unpack(tmp_path / PACKED)
    assert list(found) == ["a", "b", "c"]
    assert pack(found.items()) == packed
    assert {key: Record.from_line(line) for key, line in found.items()} == {
        key: record(key) for key in "abc"
    }


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[:-9],
        lambda b: b"",
        lambda b: b"{}",
        lambda b: b[:30] + b"x" + b[31:],
    ],
)
def test_a_damaged_pack_is_named(tmp_path, damage):
    packed = damage(pack([("a", record().line())]))
    (tmp_path / PACKED).write_bytes(packed)
    with pytest.raises(ValueError, match=r"cells\.jsonl\.gz is damaged"):
        unpack(tmp_path / PACKED)


def test_a_published_run_has_the_report_of_its_cells(lab, tmp_path_factory):
    text = lab.tiny + "keep: [predictions]\n"
    made = lab.plan(text)
    lab.run(text)
    made.store().pack(row.job.key for row in made.rows)
    before = {name: writer(build_report(made.folder)) for name, writer in FILES.items()}
    place = tmp_path_factory.mktemp("published") / "run"
    made.folder.rename(place)
    lab.output.rename(lab.root / "gone")
    assert {
        name: writer(build_report(place)) for name, writer in FILES.items()
    } == before


def test_cells_of_other_versions_are_named(lab, capsys):
    lab.run()
    made = lab.plan()
    assert other_versions(made, survey(made)) is None
    store, key = made.store(), made.rows[0].job.key
    one = store.load(key)
    one.environment["packages"]["numpy"] = "0.9"
    store.save(one)
    states = survey(made)
    assert [state.name for state in states] == ["done"] * 4
    assert states[0].versions == {"numpy": "0.9"}
    assert other_versions(made, states).startswith(
        "1 cell computed with numpy 0.9 (here: numpy "
    )
    status(str(lab.root / "tiny.yaml"), output_dir=lab.output)
    assert (
        "1 cell computed with numpy 0.9 (here: numpy "
        in capsys.readouterr().out.replace("\n", " ")
    )


def test_a_cell_of_the_first_protocol_says_so(lab):
    made = lab.plan()
    made.write()
    old = [Record("0" * 63 + str(i), "fit", {}, protocol=1) for i in range(4)]
    (made.folder / PACKED).write_bytes(pack((one.key, one.line()) for one in old))
    run_file = made.folder / "run.json"
    text = run_file.read_text()
    for row, one in zip(made.rows, old, strict=True):
        text = text.replace(row.job.key, one.key)
    run_file.write_text(text)
    now = lab.plan()
    states = survey(now)
    assert {(state.name, state.reason) for state in states} == {
        ("outdated", "made by an earlier version of mtlrun")
    }
    assert rerun_reasons(now, states)[0].endswith(
        "/2 trials: made by an earlier version of mtlrun"
    )


SEPARATORS = ["\u2028", "\u2029", "\x85", "\x1c", "\x1d", "\x1e", "\x0b", "\x0c", "\r"]


@pytest.mark.parametrize("separator", SEPARATORS)
def test_names_with_other_line_separators_survive_packing(tmp_path, separator):
    made = {key: record(key, result={"tasks": [f"a{separator}b", "c"]}) for key in "ab"}
    (tmp_path / PACKED).write_bytes(
        pack((key, one.line()) for key, one in made.items())
    )
    found = unpack(tmp_path / PACKED)
    assert {key: Record.from_line(line) for key, line in found.items()} == made
    stored = Records(tmp_path)
    stored.cells_folder.mkdir()
    stored.path("a").write_text(made["a"].line())
    assert stored.read("a") == made["a"]


def test_obsolete_files_may_have_any_name(tmp_path):
    names = [f"a{separator}b" for separator in SEPARATORS if separator != "\r"]
    for name in [*names, "a", "b"]:
        (tmp_path / name).touch()
    with publish(tmp_path, obsolete=names):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
