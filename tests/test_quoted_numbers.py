"""Numbers that pages quote from tables of results are those of the tables."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def text_of(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def joined(path: str) -> str:
    """Return a page as one line."""
    return " ".join(text_of(path).replace("\n>", "\n").split())


@pytest.mark.parametrize(
    ("page", "sentence", "source", "row"),
    [
        (
            "docs/start/is-it-mine.md",
            r"extra trees gain (.*?\))",
            "docs/atlas.md",
            r"\| extra trees, labels .*",
        ),
        (
            "docs/atlas.md",
            r"holds: in (\d+ of the \d+) cases",
            "docs/compare-measured.md",
            r"On real tables with few rows.*",
        ),
        (
            "docs/benchmarks.md",
            r"in a run of its own and finds (\d+) times",
            "docs/papers/index.md",
            r".*printed form of the algorithm on Landmine.*\n.*",
        ),
        (
            "docs/tutorials/life-expectancy.md",
            r"16% less squared error than separate curves \(95% bounds (.*?)\)",
            "README.md",
            r"Multi-task learning reduces the error by 16%.*",
        ),
        (
            "docs/guide/index.md",
            r"gapminder.csv`, (\d+) countries",
            "examples/README.md",
            r"\| `gapminder.csv`.*",
        ),
    ],
)
def test_a_quoted_number_stands_in_its_table(page, sentence, source, row):
    quoted = re.search(sentence, joined(page))[1]
    if page == "docs/atlas.md":
        known = joined(source)
    else:
        known = re.search(f"^{row}", text_of(source), re.MULTILINE)[0]
    assert set(NUMBER.findall(quoted)) <= set(NUMBER.findall(known))


@pytest.mark.parametrize(
    "page",
    [
        "docs/index.md",
        "docs/start/first-comparison.md",
        "docs/tutorials/own-data.md",
        "docs/tutorials/life-expectancy.md",
    ],
)
def test_pages_quote_the_verdict_that_the_command_of_the_readme_prints(page):
    pattern = r"Multi-task learning reduces the error by .*? model for all tasks\."
    assert (
        re.search(pattern, joined(page))[0]
        == re.search(pattern, joined("README.md"))[0]
    )


def test_the_counts_of_right_verdicts_are_those_of_the_table():
    rows = re.findall(
        r"^\| (?:worse|helps|safe|no practical difference) \| (\d+) .*\| (\d+) \|$",
        text_of("docs/compare-measured.md"),
        re.MULTILINE,
    )
    times = sum(int(row[0]) for row in rows)
    right = sum(int(row[1]) for row in rows)
    first = re.search(
        r"of (\d+) verdicts that decide something, (\d+) agree",
        joined("docs/compare-measured.md"),
    )
    assert len(rows) == 4
    assert (int(first[1]), int(first[2])) == (times, right)


def test_the_coverage_of_intervals_is_quoted_from_the_table():
    shares = {"known": [], "new": []}
    rows = re.findall(
        r"^\| \w+ \| (known|new) \|(?:[^|]*\|){2} ([\d.]+) ",
        text_of("benchmarks/verdicts.md"),
        re.MULTILINE,
    )
    for design, share in rows:
        shares[design].append(float(share))
    quoted = re.search(
        r"they contained ([\d.]+) to ([\d.]+)% .*? and ([\d.]+) to ([\d.]+)% for new",
        joined("docs/compare-measured.md"),
    )
    known = shares["known"]
    new = shares["new"]
    limits = [min(known), max(known), min(new), max(new)]
    assert [float(number) for number in quoted.groups()] == limits
