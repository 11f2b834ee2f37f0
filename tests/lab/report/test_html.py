"""The HTML report is complete, escaped, self-contained, and opens in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from mtlrun.cli.app import app
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.formats import TONES, html_report, render
from mtlrun.lab.report.summary import read_overview, render_overview, write_overview
from mtlrun.show.figures import Figure, Panel
from mtlrun.show.page import html_page, tone_of
from mtlrun.show.report_table import Column, ReportTable, Section

CHROMIUM = (
    shutil.which("chromium")
    or shutil.which("chromium-browser")
    or shutil.which("google-chrome")
)
DC = "LADM-DC-RMTL-10%"
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Checker(HTMLParser):
    """Records ids, links, and tags that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids += [values["id"]] if values.get("id") else []
        self.links += [values["href"]] if tag == "a" and values.get("href") else []
        self.loads += [
            values[n]
            for n in ("src", "href")
            if tag in ("script", "link", "img") and values.get(n)
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


@pytest.fixture(scope="module")
def swept(folder_maker, tmp_path_factory):
    """Return a run with an axis, claims, references, a failure and markup."""
    maker = folder_maker(tmp_path_factory.mktemp("html"))
    maker.info["kind"] = "sweep"
    maker.info["title"] = "A <table> & more"
    maker.config["sweep"] = {
        "name": "t",
        "params": ["n_blocks"],
        "values": [2, 4],
        "scale": "log",
    }
    facts = maker.info["datasets"].pop("alpha")
    for index, value in enumerate((2, 4)):
        label = f"alpha (t {value})"
        maker.info["datasets"][label] = {
            **facts,
            "axis": {"of": "alpha", "value": value},
        }
        for method in maker.info["methods"]:
            for trial in range(2):
                maker.cell(
                    label,
                    method,
                    trial,
                    auc=0.7 + 0.1 * index + 0.02 * trial,
                    fit=2.0**index,
                )
    maker.fail(
        "alpha (t 4)", "APG-RMTL", 0, error="ValueError: <script>alert(1)</script>"
    )
    maker.records[
        "alpha (t 4)", "APG-RMTL", 0
    ].log = "Traceback\n<script>alert(1)</script>"
    ratio = {
        "kind": "ratio",
        "quantity": "seconds",
        "of": "APG-RMTL",
        "over": DC,
        "at_least": 5,
    }
    maker.config["claims"] = [
        {"id": "c1", "text": "DC <b>fast</b>", "checks": [ratio], "where": "Table II"}
    ]
    maker.config["reference"] = [
        {"dataset": "alpha (t 2)", "method": DC, "quantity": "auc", "value": 0.71}
    ]
    return maker


@pytest.fixture(scope="module")
def page_text(swept):
    return html_report(build_report(swept.write()))


def test_the_page_is_complete(page_text):
    page = Checker(page_text)
    assert page.wrong == []
    assert page.open == []
    assert len(page.ids) == len(set(page.ids)), (
        "ids of several figures must not be the same"
    )
    inside = {link[1:] for link in page.links if link.startswith("#")}
    assert inside <= set(page.ids), inside - set(page.ids)
    words = [
        "1 claim of the paper: 1 does not hold",
        "Table II",
        "0.7100",
        "within",
        "Cells",
        "mtlrun reproduce",
    ]
    words += ["f" * 16, "a" * 64, "cells/alpha_(t_2)-APG-...", "Traceback"]
    assert [word for word in words if word not in page_text] == []


def test_text_of_users_is_escaped(page_text):
    assert "<script>alert(1)" not in page_text
    assert "&lt;script&gt;alert(1)" in page_text
    assert "DC &lt;b&gt;fast" in page_text
    assert "<title>A &lt;table&gt; &amp; more</title>" in page_text


def test_no_external_resources_are_loaded(page_text):
    assert all(address.startswith("data:") for address in Checker(page_text).loads)
    assert "@import" not in page_text
    assert not re.search(r"url\((?!#)", page_text)


def test_the_page_is_reproducible(swept, page_text):
    assert render(build_report(swept.folder), "html") == page_text


def test_numbers_are_sorted_by_value_and_not_as_text(page_text):
    assert re.search(
        r'data-value="0\.71" title="0\.71"><a class="ours best" href="#cell-0">0\.7100 ± 0\.0141',
        page_text,
    )


@pytest.mark.parametrize(
    ("word", "class_"),
    [
        ("confirmed", "good"),
        ("failed 1/5", "bad"),
        ("not confirmed", "bad"),
        ("partly", "part"),
        ("not run", "none"),
    ],
)
def test_verdicts_have_colors(word, class_):
    assert tone_of(word, TONES) == class_


def test_sections_can_be_rendered_as_a_page():
    grid = ReportTable([Column("a"), Column("b", "score")], [["x|y", 0.5]])
    sections = [
        Section("One", ["* first `code`", "* second"]),
        Section("Two", ["A sentence."], [grid]),
    ]
    text = html_page("Made <by hand>", ["It is so."], sections)
    assert Checker(text).open == []
    assert "<li>first <code>code</code></li>" in text
    assert "0.5000" in text
    assert "Made &lt;by hand&gt;" in text


def test_options_of_commands_are_not_broken_behind_their_hyphens():
    section = Section("One", ["* say `--drop a` or --time-blocks, not a--b or -- c"])
    text = html_page("Page", [], [section])
    options = re.findall(r'<span class="option">(.*?)</span>', text)
    assert options == ["--drop a", "--time-blocks"]
    assert '<code><span class="option">--drop a</span></code>' in text


def test_an_option_stays_on_one_line_with_its_value_but_not_with_a_path():
    path = "folder/" * 9
    section = Section("One", [f"* --repeats 10 or --splits=5 or --output {path}"])
    text = html_page("Page", [], [section])
    options = re.findall(r'<span class="option">(.*?)</span>', text)
    assert options == ["--repeats 10", "--splits=5", "--output"]


def test_names_of_tasks_are_wrapped_only_where_they_are_long():
    rows = [["School of the Holy Cross 1"], ["word " * 12]]
    grid = ReportTable.of("task", rows=rows)
    text = html_page("Page", [], [Section("One", [], [grid])])
    classes = [value.split() for value in re.findall(r'<td class="([^"]*)"', text)]
    assert classes == [["whole"], ["long"]]


@pytest.mark.slow
def test_the_index_lists_all_runs(swept):
    folder, tmp_path = swept.write(), swept.folder.parents[2]
    runner = CliRunner()
    done = runner.invoke(app, ["report", str(folder), "--format", "html"])
    assert done.exit_code == 1, "a cell failed"
    assert done.stdout.splitlines() == [
        f"report: {folder / 'report.html'}",
        f"index: {tmp_path / 'index.html'}",
    ]
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    page = "made/table1/quick/report.html"
    assert Checker(index).links == [f"{page}#claims", page]
    assert (
        '<span class="badge bad">does not hold' in index
        or 'badge">does not hold' in index
    )
    words = [
        "1 artifact, 11 of 12 results done, 1 failed.",
        "1 claim of the papers: 1 does not hold.",
        "1 printed number: 1 within tolerance.",
        "DC &lt;b&gt;",
    ]
    assert [word for word in words if word not in index] == []
    assert Checker(index).open == []
    assert Checker(index).wrong == []
    (tmp_path / "index.html").unlink()
    everything = runner.invoke(app, ["report", str(tmp_path), "--format", "html"])
    assert everything.exit_code == 1, "a cell failed"
    assert (tmp_path / "index.html").read_text(encoding="utf-8") == index
    (folder / "report.html").unlink()
    write_overview(read_overview(tmp_path), tmp_path, ("html",))
    assert 'href="made/table1/quick/report.md"' in (tmp_path / "index.html").read_text(
        encoding="utf-8"
    )


def test_a_damaged_run_is_named_in_the_index(swept):
    folder, root = swept.write(), swept.folder.parents[2]
    (folder.with_name("full")).mkdir(exist_ok=True)
    (folder.with_name("full") / "run.json").write_text("{")
    overview = read_overview(root)
    assert [entry.path for entry in overview.entries] == ["made/table1/quick"]
    assert "cannot be read" in overview.left_out["made/table1/full"]
    assert "made/table1/full" in render_overview(overview, "html", root)
    shutil.rmtree(folder.with_name("full"))


def test_the_output_may_be_a_file(maker, tmp_path):
    folder = maker.fill().write()
    out = tmp_path / "elsewhere" / "made.html"
    done = CliRunner().invoke(
        app, ["report", str(folder), "--format", "html", "--out", str(out)]
    )
    assert done.exit_code == 0, done.stderr
    assert "</html>" in out.read_text(encoding="utf-8")
    assert not (folder / "report.html").exists()


def browse(path, width, tmp_path) -> tuple[str, str]:
    """Open a file in headless Chromium; return the page and the console output."""
    options = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    options += " --disable-component-update --disable-sync --dump-dom --enable-logging=stderr --virtual-time-budget=2000"
    command = [
        CHROMIUM,
        *options.split(),
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--window-size={width},900",
    ]
    done = subprocess.run(
        [*command, path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, "\n".join(
        line for line in done.stderr.splitlines() if "CONSOLE" in line
    )


TRIAL = """
<script>
const heading = [...document.querySelectorAll("#results th")].find((h) => h.textContent.includes("One Norm"));
const rows = () => [...heading.closest("table").tBodies[0].rows];
const column = () => rows().map((r) => r.cells[1].dataset.value ?? "none");
const shown = () => [...document.querySelectorAll(".matrix:not([hidden])")].map((t) => t.dataset.title);
const first = shown(); document.querySelectorAll(".switch button")[1].click(); const second = shown();
heading.querySelector("button").click(); const up = column();
heading.querySelector("button").click(); const down = column();
const size = { wide: document.documentElement.scrollWidth, page: window.innerWidth };
document.title = JSON.stringify({ up, down, first, second, ...size });
</script>
"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("width", [1200, 500])
def test_the_page_works_in_a_browser(page_text, tmp_path, width):
    path, page = tmp_path / "report.html", page_text
    path.write_text(page.replace("</body>", f"{TRIAL}</body>"), encoding="utf-8")
    dom, console = browse(path, width, tmp_path)
    assert console == ""
    assert dom.count("<img") == page.count("<img") >= 1
    assert dom.count("<table") >= 5
    content = json.loads(
        re.search(r"<title>(.*?)</title>", dom)[1].replace("&quot;", '"')
    )
    assert [content["first"], content["second"]] == [
        ["AUC, alpha"],
        ["seconds to fit, alpha"],
    ], "one table is shown at a time"
    assert len(content["up"]) == 2
    assert content["up"] == sorted(content["up"], key=float)
    assert content["down"] == sorted(content["down"], key=float, reverse=True)
    assert content["wide"] <= content["page"], (
        "the page itself does not scroll sideways"
    )


def test_figures_without_a_common_axis_have_a_caption():
    panel = Panel("gap", True, [], axis="seconds")
    assert Figure("a", "Alpha", [panel, panel]).caption == "Alpha: gap against seconds"
