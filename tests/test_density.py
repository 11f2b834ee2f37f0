"""The code of a room does not become denser (see scripts/density.py)."""

import runpy
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "density.py"))
PATHS_BY_ROOM = SCRIPT["find_rooms"]()
BASELINE = SCRIPT["read_baseline"]()
REMEDY = """
Unfold the new lines: `python scripts/density.py --files mtlrun/{room}*` shows which
files have the highest figures. tests/density.json has the stored ones. When they have
become lower, `python scripts/density.py --write` stores them. Only after merging
branches that rose together: `python scripts/density.py --reset`.
"""


def test_the_baseline_has_all_rooms():
    assert set(BASELINE) == set(PATHS_BY_ROOM), "run: python scripts/density.py --write"


@pytest.mark.slow
def test_no_figure_of_a_room_rises():
    for room in PATHS_BY_ROOM:
        present = SCRIPT["figures"](SCRIPT["count_files"](PATHS_BY_ROOM[room]))
        problems = SCRIPT["problems"](room, present, BASELINE[room])
        assert not problems, "\n".join(problems) + REMEDY.format(room=room)


def test_each_form_is_counted(tmp_path):
    file = tmp_path / "dense.py"
    file.write_text(
        '"""What is said of the ones that wait."""\n'
        "found, other = 1, [x if x else y for x in z]\n"
        "# A comment.\n"
        "f = lambda own: (n := own)\n"
    )
    counts = SCRIPT["count"](file)
    assert counts == Counter(
        statements=3,
        lines=2,
        tokens=27,
        packed=4,
        conditionals=1,
        stacked=2,
        double=1,
        filler=2,
        comments=1,
        docstrings=1,
        prose=2,
        dialect=2,
    )


def rising(baseline, column, figure):
    present = {**baseline, column: figure}
    return SCRIPT["problems"]("cli", present, baseline)


def test_a_figure_may_rise_up_to_its_goal_but_not_above():
    baseline = dict.fromkeys(SCRIPT["COLUMNS"], 10.0)
    assert rising(baseline, "tokens", 10.0) == []
    (problem,) = rising(baseline, "tokens", 10.3)
    assert problem.startswith("cli: tokens rose from 10.0 to 10.3")
    assert rising(baseline, "packed", 50.0) == []
    assert len(rising(baseline, "packed", 50.1)) == 1


def test_the_baseline_is_only_lowered():
    baseline = dict.fromkeys(SCRIPT["GOALS"], 10.0)
    present = {**baseline, "tokens": 9.0, "packed": 60.0}
    assert SCRIPT["improved"](present, baseline) == {**baseline, "tokens": 9.0}
