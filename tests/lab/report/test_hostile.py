"""An untrusted results folder: injected names, outside keys, damage."""

import json
import re

import pytest
from all_cases import all_cases

from mtlrun.errors import DataError
from mtlrun.lab.merging import merge
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.formats import FORMATS, html_report, render, write_report
from mtlrun.lab.report.summary import read_overview, write_overview
from mtlrun.show.report_table import Column, ReportTable, csv_grid

pytestmark = pytest.mark.rendered

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "image": '"><img src=x onerror=alert(1)>',
    "latex": r"\input{/etc/passwd}\write18{id}",
    "formula": '=cmd|" /C calc"!A0',
    "ansi": "red\x1b[31m\x1b]0;title\x07",
    "direction": "a\u202egnp.exe",
    "lines": "a\n\n## Verdict\r\nb",
    "path": "../../../x",
    "math": r"$\frac{$ and $x$",
    "link": "[a](javascript:alert(1)) ![b](https://example.org/x.png)",
    "template": "{{ 7919*7907 }} {% raw %}",
}


def _spoil(maker, text):
    """Insert a text wherever a name or a sentence is allowed."""
    info = maker.info
    info.update(
        title=text,
        profile=text,
        command=text,
        methods=[text, "APG-RMTL"],
    )
    info["paper"] = {"cite": text, "artefact": text, "doi": text}
    facts = {
        **info["datasets"].pop("alpha"),
        "title": text,
        "licence": text,
        "notes": text,
        "citation": text,
    }
    info["kind"] = "sweep"
    maker.config["sweep"] = {
        "name": text,
        "params": ["n_blocks"],
        "values": [2, 4],
        "scale": "log",
    }
    maker.config["methods"] = [
        {"label": text, "estimator": text, "params": {text: text}}
    ]
    maker.config["deviations"] = [text]
    for value in (2, 4):
        label = f"{text} (t {value})"
        info["datasets"][label] = {**facts, "axis": {"of": text, "value": value}}
        for method in info["methods"]:
            maker.cell(
                label, method, 0, params={text: text}
            ).key = f"{value}-{info['methods'].index(method)}"
    failed = maker.records[f"{text} (t 4)", "APG-RMTL", 0]
    failed.status, failed.error, failed.log = "failed", text, text
    check = {
        "kind": "ratio",
        "quantity": "seconds",
        "of": text,
        "over": "APG-RMTL",
        "at_least": 5,
    }
    maker.config["claims"] = [
        {"id": "c1", "text": text, "checks": [check], "where": text}
    ]
    maker.config["reference"] = [
        {"dataset": f"{text} (t 2)", "method": text, "quantity": "auc", "value": 0.71}
    ]
    return maker


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", [" ".join(HOSTILE.values()), HOSTILE["formula"], "x" * 300]
)
def test_names_inject_nothing(folder_maker, tmp_path, text):
    folder = _spoil(folder_maker(tmp_path), text).write()
    before = sorted(tmp_path.rglob("*"))
    report = build_report(folder)
    files = {form: render(report, form) for form in FORMATS}
    write_report(report, folder)
    index = write_overview(read_overview(tmp_path), tmp_path, ("md", "html"))
    files |= {path.name: path.read_text() for path in index}
    new = [
        path
        for path in sorted(tmp_path.rglob("*"))
        if path not in before and not path.is_relative_to(folder)
    ]
    assert sorted(new) == sorted(index)
    for form, text in files.items():
        assert not set(text) & set("\x1b\x07\x00\u202e"), form
    for form in ("html", "md", "index.html", "index.md"):
        assert "<script>alert" not in files[form]
        assert "<img src=x" not in files[form]
    assert not re.search(r"(href|src)=\W*(javascript|https://example)", files["html"])
    assert r"\input{/etc" not in files["tex"]
    assert r"\write18{" not in files["tex"]
    assert "62615533" not in files["html"]
    for line in files["csv"].splitlines():
        assert not line.startswith(("=", "@"))
    drawn = "".join(path.read_text() for path in (folder / "figures").glob("*.svg"))
    assert drawn
    assert "<script>alert" not in drawn
    assert "<img" not in drawn


def test_csv_cells_are_not_formulas():
    grid = ReportTable(
        [Column("=a"), Column("b", "number")],
        [["=1+1", -1.5], ["-1", 2.0], ["@x", 1.0], ["+1 of 2", 0.5]],
    )
    assert csv_grid(grid).splitlines() == [
        "'=a,b",
        "'=1+1,-1.5",
        "-1,2.0",
        "'@x,1.0",
        "'+1 of 2,0.5",
    ]


@pytest.mark.parametrize(
    "key",
    [
        "../../../etc/passwd",
        "/etc/passwd",
        "..",
        ".x",
        "a/b",
        "a\\b",
        "",
        "c:x",
        "a\0b",
    ],
)
def test_keys_that_name_other_files_are_rejected(maker, key):
    folder = maker.fill().write()
    content = json.loads((folder / "run.json").read_text())
    content["cells"][0]["key"] = key
    (folder / "run.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="key"):
        build_report(folder)


def test_a_method_without_an_estimator_is_shown_without_it(maker):
    folder = maker.fill().write()
    content = json.loads((folder / "run.json").read_text())
    del content["config"]["methods"][0]["estimator"]
    (folder / "run.json").write_text(json.dumps(content))
    assert "Protocol" in render(build_report(folder), "md")


GOOD_SEARCH = {
    "key": "s",
    "metric": "auc",
    "means": [0.5],
    "scores": [[0.5]],
    "grid": {"alpha": [1]},
    "edges": {},
    "chosen": {"alpha": 1},
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": ["a"]},
        {"metric": None},
        {"means": 3},
        {"means": {"a": 1}},
        {"scores": 1},
        {"scores": [1]},
        {"grid": 5},
        {"grid": {"alpha": 3}},
        {"edges": ["a"]},
        {"edges": {"alpha": [1]}},
    ],
)
def test_a_job_with_an_invalid_search_is_reported_and_skipped(maker, wrong):
    maker.fill()
    maker.cell("alpha", "One Norm", 0, selection={**GOOD_SEARCH, **wrong})
    maker.cell(
        "alpha",
        "One Norm",
        1,
        selection={**GOOD_SEARCH, "chosen": {"alpha": "x"}, "edges": {"alpha": "x"}},
    )
    report = build_report(maker.write())
    assert report.run.unreadable == ["alpha/One Norm/trial 0"]
    for form in FORMATS:
        assert render(report, form)


@all_cases(
    "text",
    [
        *(
            "[]",
            "{",
            '{"cells": {}}',
            '{"cells": [1]}',
            '{"cells": [{"key": 1}]}',
            '{"methods": 3}',
            '{"datasets": []}',
        ),
        *(
            '{"cells": [{"key": "a", "dataset": "b", "method": "c", "trial": NaN}]}',
            '{"config": [1]}',
            "\xff",
        ),
        *(
            '{"a": ' + "[" * 100_000,
            '{"seed": Infinity}',
            '{"cells": [{"key": "a", "dataset": "b", "method": "c", "trial": 1e99}]}',
        ),
    ],
)
def test_an_invalid_plan_is_rejected(tmp_path, text):
    (tmp_path / "run.json").write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=r"run\.json"):
        build_report(tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"status": "ok"', '"status": ["ok"]'),
        ('"family": "fit"', '"family": 1'),
        ('"auc": 0.7', '"auc": "<b>"'),
        ('"auc": 0.7', '"auc": [0.7]'),
        ('"counts": {', '"counts": [], "x": {'),
        ('"params": {}', '"params": ' + "[" * 100_000 + "]" * 100_000),
    ],
)
def test_an_invalid_job_is_reported_and_skipped(maker, old, new):
    folder = maker.fill().write()
    maker.change(old, new, "alpha", "One Norm", 0)
    assert build_report(folder).run.unreadable == ["alpha/One Norm/trial 0"]


def test_merging_follows_no_links_and_takes_no_foreign_jobs(folder_maker, tmp_path):
    here = folder_maker(tmp_path / "here")
    for trial in range(2):
        here.skip("alpha", "One Norm", trial)
    plan = here.write()
    keys = [
        cell["key"] for cell in json.loads((plan / "run.json").read_text())["cells"]
    ]
    there = folder_maker(tmp_path / "there")
    good, linked = (there.cell("alpha", "One Norm", trial) for trial in range(2))
    good.key, linked.key = keys
    foreign = there.cell("alpha", "APG-RMTL", 0)
    foreign.key = "foreign"
    there.write()
    secret = tmp_path / "secret"
    (there.cells / f"{keys[1]}.json").rename(secret)
    (there.cells / f"{keys[1]}.json").symlink_to(secret)
    (there.cells / f"{keys[0]}.npz").symlink_to(secret)
    done = merge(plan, there.output)
    assert (done.copied, done.foreign, done.unfinished) == (1, 1, 0)
    assert [path.name for path in here.cells.glob("*.json")] == [f"{keys[0]}.json"]
    assert not list(here.cells.glob("*.npz"))


def test_the_page_can_show_numbers_of_any_size(maker):
    maker.fill()
    maker.cell("alpha", "One Norm", 0, auc=1e149, fit=1e149)
    maker.cell("alpha", "One Norm", 1, auc=-1e149, fit=5e-324)
    maker.cell("alpha", "APG-RMTL", 0, auc=1e308)
    maker.cell("alpha", "APG-RMTL", 1, fit=1e308)
    report = build_report(maker.write())
    assert report.run.unreadable == ["alpha/APG-RMTL/trial 0", "alpha/APG-RMTL/trial 1"]
    for form in FORMATS:
        assert render(report, form)
    assert html_report(report)
