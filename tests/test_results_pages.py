"""README's outcome, results/summary.md, the pages of papers and the reports are what the runs below results/ say."""

import json
import runpy
import shutil
from pathlib import Path

import pytest

from mtlrun.lab.report.build import build_report, render

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "scripts" / "results_pages.py"
pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="needs a checkout")


@pytest.fixture(scope="module")
def made():
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def texts(made):
    """What the runs say now; it takes seconds to read them all."""
    return made["texts"](ROOT)


@pytest.mark.slow
def test_committed_tables_are_up_to_date(texts):
    stale = [
        name
        for name, text in texts.items()
        if (ROOT / name).read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run: python scripts/results_pages.py --write"


@pytest.mark.slow
def test_every_run_is_linked_and_links_lead_somewhere(texts):
    for name in (
        "README.md",
        "results/summary.md",
        *(name for name in texts if name.startswith("docs/papers/")),
    ):
        links = [part.split(")")[0] for part in texts[name].split("](")[1:]]
        found = [link for link in links if not link.startswith("http")]
        assert [
            link
            for link in found
            if not (ROOT / name).parent.joinpath(link.split("#")[0]).exists()
        ] == []
    summary = texts["results/summary.md"]
    runs = {
        "/".join(path.parts[-4:-1])
        for path in (ROOT / "results").glob("[!r]*/*/*/run.json")
    }
    assert [
        name for name in sorted(runs) if f"[{name}]({name}/report.md)" not in summary
    ] == []


def test_a_new_run_changes_the_tables_and_nothing_else(made, tmp_path):
    shutil.copytree(
        ROOT / "results" / "fetr" / "audit", tmp_path / "results" / "fetr" / "audit"
    )
    text = f"before\n{made['BEGIN']}\n{made['END']}\nafter\n"
    (tmp_path / "README.md").write_text(text)
    main = made["main"]
    assert main(["--check"], tmp_path) == 1
    assert main(["--write"], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0
    first = (tmp_path / "README.md").read_text()
    assert first.startswith("before\n<!--")
    assert first.endswith("-->\nafter\n")
    page = (tmp_path / "docs" / "papers" / "fetr.md").read_text()
    claims = json.loads(
        render(build_report(tmp_path / "results/fetr/audit/quick"), "json")
    )["claims"]
    words = {
        "confirmed": "holds",
        "not confirmed": "does not hold",
        "undecided": "undecided",
    }
    for claim in claims:
        row = next(
            line for line in page.splitlines() if line.startswith(f"| {claim['text']} ")
        )
        assert (
            f"[{words[claim['verdict']]}](../../results/fetr/audit/quick/report.md#claims)"
            in row
        )
    audits = "Audits of its printed numbers and of its authors' files: 1 holds"
    assert f"{audits}, 1 does not hold." in first  # the third claim is our own
    folder = tmp_path / "results" / "fetr" / "audit"
    shutil.copytree(folder / "quick", folder / "full")
    info = json.loads((folder / "full" / "run.json").read_text())
    info["profile"] = "full"
    info["config"]["claims"] = info["config"]["claims"][:1]
    (folder / "full" / "run.json").write_text(json.dumps(info))
    assert main(["--check"], tmp_path) == 1
    main(["--write"], tmp_path)
    assert "1 artefact in 2 runs" in (tmp_path / "results" / "summary.md").read_text()
    assert f"{audits}, 1 does not hold" in (tmp_path / "README.md").read_text(), (
        "a claim counts once"
    )


def test_markers_that_are_missing_are_told(made, tmp_path):
    (tmp_path / "README.md").write_text("nothing")
    with pytest.raises(SystemExit, match="must be there"):
        made["main"](["--check"], tmp_path)


def test_every_figure_is_one_that_its_report_shows():
    """A figure of an earlier plan would be shown beside numbers that are not its own."""
    figures = sorted((ROOT / "results").glob("[!r]*/*/*/figures/*.svg"))
    assert figures
    assert [
        f
        for f in figures
        if f"figures/{f.name}" not in (f.parents[1] / "report.md").read_text("utf-8")
    ] == []
