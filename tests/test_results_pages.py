"""The README's outcome, results/summary.md, the pages of papers and the reports match
the runs below results/.
"""

import json
import re
import runpy
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from mtlrun.engine.store import Store
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.claims import ClaimVerdict
from mtlrun.lab.report.formats import render
from mtlrun.lab.stored import read_plan
from mtlrun.show.figures import SQUARES

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "scripts" / "results_pages.py"
pytestmark = [
    pytest.mark.skipif(not SCRIPT.is_file(), reason="needs a checkout"),
    pytest.mark.rendered,
]


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def texts(script):
    """Return the results of all runs, which take seconds to read."""
    return script["texts"](ROOT)


def test_a_claim_counts_for_its_part_of_the_paper(script):
    for where, group in [
        ("Theorem 4.1", "theory"),
        ("Proposition 4.2", "theory"),
        ("Section 3 (theory)", "theory"),
        ("Section 3.1, Algorithm 2", "algorithms"),
        ("Figure 2 (b)", "Figure 2"),
        ("Tables II and III", "Table II"),
        ("Section 6.3", "text"),
        (None, "text"),
    ]:
        claim = ClaimVerdict("c", "it is so", where, "confirmed", "")
        assert script["part_of_paper"](claim) == group


@pytest.mark.slow
def test_committed_tables_are_up_to_date(texts):
    stale = [
        name
        for name, text in texts.items()
        if (ROOT / name).read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run: python scripts/results_pages.py --write"


@pytest.mark.slow
def test_every_run_is_linked_and_links_are_valid(texts):
    for name in (
        "README.md",
        "results/summary.md",
        *(name for name in texts if name.startswith("docs/papers/")),
    ):
        links = [part.split(")")[0] for part in texts[name].split("](")[1:]]
        local_links = [link for link in links if not link.startswith("http")]
        assert [
            link
            for link in local_links
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


def test_a_new_run_changes_only_the_tables(script, tmp_path):
    shutil.copytree(
        ROOT / "results" / "fetr" / "audit", tmp_path / "results" / "fetr" / "audit"
    )
    text = f"before\n{script['BEGIN']}\n{script['END']}\nafter\n"
    (tmp_path / "README.md").write_text(text)
    main = script["main"]
    assert main(["--check"], tmp_path) == 1
    assert main(["--write"], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0
    first = (tmp_path / "README.md").read_text()
    assert first.startswith("before\n<!--")
    assert first.endswith("-->\nafter\n")
    page = (tmp_path / "results" / "fetr" / "claims.md").read_text()
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
            line for line in page.splitlines() if line.startswith(f"| {claim['id']} ")
        )
        assert claim["text"] in row
        assert f"[{words[claim['verdict']]}](audit/quick/report.md#claims)" in row
    audits = "Audits of its printed numbers or its authors' files: 2 hold"
    outcome = tmp_path / "docs" / "papers" / "fetr.md"
    assert f"{audits}, 1 does not hold." in " ".join(outcome.read_text().split())
    folder = tmp_path / "results" / "fetr" / "audit"
    shutil.copytree(folder / "quick", folder / "full")
    info = read_plan(folder / "full", Store.of_run(folder / "full"))
    info.pop("plan", None)  # All fields are in the file itself.
    info["profile"] = "full"
    info["config"]["claims"] = info["config"]["claims"][:1]
    (folder / "full" / "run.json").write_text(json.dumps(info))
    assert main(["--check"], tmp_path) == 1
    main(["--write"], tmp_path)
    assert "1 artifact in 2 runs" in (tmp_path / "results" / "summary.md").read_text()
    assert f"{audits}, 1 does not hold" in " ".join(outcome.read_text().split()), (
        "a claim counts once"
    )


@pytest.mark.slow
def test_figures_and_the_strip_of_verdicts_follow_the_runs(script, tmp_path):
    folder = tmp_path / "results" / "fetr" / "school"
    shutil.copytree(ROOT / "results" / "fetr" / "school", folder)
    (tmp_path / "README.md").write_text(f"{script['BEGIN']}\n{script['END']}\n")
    index = tmp_path / script["INDEX"]
    index.parent.mkdir(parents=True)
    index.write_text(f"before\n{script['INDEX_BEGIN']}\n{script['INDEX_END']}\nafter\n")
    main = script["main"]
    assert main(["--write"], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0
    text = index.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    claims = json.loads(render(build_report(folder / "quick"), "json"))["claims"]
    strip = (tmp_path / script["STRIP"]).read_text()
    theirs = [c["id"] for c in claims if c["source"] not in ("audit", "ours")]
    assert theirs
    assert all(f'-{name}"' in strip for name in theirs)
    assert f"](fetr.md) | {len(theirs):6} |" in text
    drawn = folder / "quick" / "figures" / "published-and-ours-school.svg"
    assert drawn.is_file()
    drawn.rename(drawn.with_name("earlier.svg"))
    assert main(["--check"], tmp_path) == 1
    assert main(["--write"], tmp_path) == 0
    assert [path.name for path in drawn.parent.iterdir()] == [drawn.name]
    word = next(word for word in SQUARES.values() if f">{word}<" in strip)
    for changed in (strip.replace(theirs[0], "another"), strip.replace(word, "other")):
        assert changed != strip
        (tmp_path / script["STRIP"]).write_text(changed)
        assert main(["--check"], tmp_path) == 1


@pytest.mark.parametrize(
    ("verdicts", "text"),
    [
        (
            {"a": "confirmed", "b": "confirmed", "c": "not confirmed"},
            ": does not hold under 'c'",
        ),
        (
            {"a": "confirmed", "b": "not confirmed", "c": "not confirmed"},
            ": holds only under 'a'",
        ),
        (
            {"a": "confirmed", "b": "undecided", "c": "not confirmed"},
            ": holds only under 'a', does not hold under 'c'",
        ),
    ],
)
def test_if_some_interpretations_are_undecided_both_sides_are_named(
    script, verdicts, text
):
    claim = SimpleNamespace(readings=verdicts, compared_only=())
    assert script["_dependence"](claim) == text


def test_missing_markers_are_reported(script, tmp_path):
    (tmp_path / "README.md").write_text("nothing")
    with pytest.raises(SystemExit, match="must be there"):
        script["main"](["--check"], tmp_path)


def test_every_figure_belongs_to_its_report():
    """A figure of an earlier plan would be shown with other numbers."""
    figures = sorted((ROOT / "results").glob("[!r]*/*/*/figures/*.svg"))
    assert figures
    assert [
        f
        for f in figures
        if f"figures/{f.name}" not in (f.parents[1] / "report.md").read_text("utf-8")
    ] == []


def table_rows(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the tables below the matching headings."""
    rows = []
    is_inside = False
    for line in text.splitlines():
        if line.startswith("#"):
            is_inside = re.search(heading, line) is not None
        elif is_inside and line.startswith("| "):
            rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def first_words(text: str) -> str:
    """Return a verdict without its link, its numbers, and the interpretations."""
    return re.sub(r"\[|\].*|:.*| \(.*", "", text)


def committed(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def linked_verdict(cell: str) -> re.Match[str] | None:
    """Return the verdict of a row and the report that it leads to; names of
    interpretations may have brackets."""
    return re.fullmatch(r"\[(.*)\]\((\S+)#claims\)", cell)


def claims_of_pages() -> dict[str, tuple[str, str]]:
    """Return id -> verdict and report of every claim on the pages of the papers that
    one run tests."""
    claims = {}
    for path in sorted((ROOT / "results").glob("*/claims.md")):
        paper = f"results/{path.parent.name}"
        text = path.read_text(encoding="utf-8")
        for row in table_rows(text, r"^## (What|On other data|Audits)"):
            link = linked_verdict(row[-2])
            if link and not linked_verdict(row[-1]):
                claims[row[0]] = (first_words(link[1]), f"{paper}/{link[2]}")
    return claims


def test_a_claim_that_two_runs_test_links_both_reports():
    rows = table_rows(
        committed("results/dcrmtl/claims.md"), "^## What the paper claims"
    )
    (row,) = (row for row in rows if row[0] == "dcrmtl-4")
    assert first_words(linked_verdict(row[-2])[1]) == "does not hold"
    reports = re.findall(r"\((parts/\w+)/report\.md#claims\)", " ".join(row))
    assert sorted(reports) == ["parts/delicious", "parts/quick"]


def test_pages_and_reports_have_the_same_verdicts():
    pages = claims_of_pages()
    assert len(pages) > 100
    for name, (verdict, report) in pages.items():
        rows = table_rows(committed(report), "^## Claims")
        reported = [first_words(row[4]) for row in rows if row[0] == name]
        # A verdict over interpretations may come from another run of the same item.
        assert reported == [verdict], name


def paper_pages() -> list[Path]:
    return sorted((ROOT / "docs" / "papers").glob("[!i]*.md"))


def lines_of_index(page: Path) -> list[str]:
    """Return the main claims of a paper on the index of the papers."""
    _, _, after = committed("docs/papers/index.md").partition(f"]({page.name})**\n")
    claims = re.match(r"(?:  .*\n)+", after)[0]
    return re.split(r"^  \* ", claims, flags=re.M)[1:]


def test_claims_on_other_data_count_neither_for_nor_against_a_paper(script, tmp_path):
    shutil.copytree(ROOT / "results/dcrmtl/parts", tmp_path / "dcrmtl" / "parts")
    overview = script["read_overview"](tmp_path)
    (entries,) = script["runs_by_paper"](overview.entries).values()
    elsewhere = {claim.id for _, claim in script["claims_from"](entries, "other data")}
    theirs = {claim.id for _, claim in script["claims_from"](entries, "paper")}
    assert elsewhere == {"dcrmtl-4-excerpt"}
    assert "dcrmtl-4" in theirs
    assert not elsewhere & theirs


def test_the_counts_in_the_readme_match_the_claims():
    for path in paper_pages():
        text = committed(f"results/{path.stem}/claims.md")
        _, _, *rows = table_rows(text, "^## What the paper claims")
        counts = Counter(first_words(linked_verdict(row[-2])[1]) for row in rows)
        header, *others = table_rows(committed("README.md"), "^## Published results")
        (row,) = (row for row in others if f"(docs/papers/{path.name})" in row[0])
        named = {
            name: int(count) for name, count in zip(header[2:], row[2:], strict=True)
        }
        assert int(row[1]) == len(rows), path.name
        assert +Counter(named) == counts, path.name


def counts_of_printed_numbers(text: str) -> Counter[str]:
    """Return the published numbers within tolerance and out of it that a page counts."""
    counts = re.search(
        r"ours: (\d+) are within tolerance, (\d+) are not", " ".join(text.split())
    )
    within, outside = counts.groups() if counts else (0, 0)
    return Counter(within=int(within), outside=int(outside))


def test_the_pages_of_the_papers_count_the_printed_numbers_of_the_readme():
    pages = Counter()
    for path in paper_pages():
        pages += counts_of_printed_numbers(path.read_text(encoding="utf-8"))
    assert pages == counts_of_printed_numbers(committed("README.md"))


def test_results_readme_counts_the_interpretations_of_each_run():
    """A row says "five interpretations" of a run that has five."""
    words = [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
    ]
    for row in committed("results/README.md").splitlines():
        run = re.match(r"\| \[(.*?)\]", row)
        count = re.search(r"(?<! of )\b(\w+) interpretations", row)
        if run is None or count is None or count[1] not in words:
            continue
        folder = ROOT / "results" / run[1]
        plan = read_plan(folder, Store.of_run(folder))
        n_readings = len(plan["readings"])
        assert words.index(count[1]) + 1 == n_readings, run[1]


def test_the_main_claims_on_the_index_match_the_page_of_the_paper():
    def plain(text: str) -> str:
        return " ".join(text.split()).lower()

    for path in paper_pages():
        page = plain(path.read_text(encoding="utf-8"))
        claims = lines_of_index(path)
        assert claims
        for text in claims:
            # A page has one line per claim that holds where the index has one.
            held = re.match(r"(?:What holds|It holds that): (.*)\.$", text, re.S)
            parts = held[1].split("; ") if held else [text]
            assert [part for part in parts if plain(part) not in page] == [], path.name
