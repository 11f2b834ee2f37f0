"""Numbers that pages quote from tables of results are those of the tables."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from all_cases import all_cases

from mtlrun.comparison.candidates import default_candidates
from mtlrun.data.dataset import Dataset
from mtlrun.errors import ConfigError
from mtlrun.lab.experiment.catalogue import catalogue, find

ROOT = Path(__file__).parent.parent
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def text_of(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def joined(path: str) -> str:
    """Return a page as one line."""
    return " ".join(text_of(path).replace("\n>", "\n").split())


@all_cases(
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
            "docs/guide/smooth.md",
            r"fit takes (.*? of 500 tasks)",
            "benchmarks/README.md",
            r".*20,000 rows in 500 tasks.*",
        ),
        (
            "docs/benchmarks.md",
            r"20,000 rows of 500 tasks take (.*?) s\.",
            "benchmarks/README.md",
            r".*20,000 rows in 500 tasks.*",
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
        "docs/start/install.md",
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


def test_the_number_of_default_methods_is_that_of_compare():
    table = pd.read_csv(ROOT / "examples" / "gapminder.csv")
    data = Dataset(
        X=table[["year", "log_gdp"]].to_numpy(),
        y=table.life_expectancy.to_numpy(),
        task_type="regression",
        task_id=table.country.factorize()[0],
    )
    n_methods = len(default_candidates(data, 0.8))
    for page, words in {
        "docs/start/install.md": r"(\d+) methods are",
        "docs/guide/evaluation.md": r"up to (\d+) methods",
        "docs/tutorials/life-expectancy.md": r"there are (\d+) methods",
    }.items():
        assert int(re.search(words, joined(page))[1]) == n_methods, page


def test_the_readme_promises_published_tables_only_where_papers_print_numbers():
    experiments = [entry.path.read_text("utf-8") for entry in catalogue()]
    report = re.search(r"Each report is (.*?):", joined("README.md"))[1]
    is_in_every_report = all("\nreference:" in text for text in experiments)
    assert is_in_every_report or "where the paper" in report


#: Pages that name methods for several targets, of which no learner gains for sure.
DOORS = ["README.md", "docs/index.md", "docs/methods.md", "docs/guide/choosing.md"]


def test_advice_on_several_targets_agrees_with_the_atlas():
    rows = re.findall(
        r"^\| .*, (?:targets|labels) +\|(.*?)\|", text_of("docs/atlas.md"), re.M
    )
    lows = [float(re.search(r"\((-?[\d.]+) to", row)[1]) for row in rows]
    assert len(lows) == 7
    for page in DOORS:
        is_warning = "atlas.md#several-targets-and-several-labels" in text_of(page)
        assert is_warning == (max(lows) <= 0), page


def test_the_part_of_curvature_in_a_gain_is_that_of_the_benchmark():
    names = "Milk|sleepstudy|egsingle by child"
    rows = re.findall(
        rf"^\| ({names}) \| (-?[\d.]+) / \S+ \| (-?[\d.]+) /",
        text_of("benchmarks/README.md"),
        re.M,
    )
    gains = {name: (float(both), float(curves)) for name, both, curves in rows[:3]}
    quoted = re.findall(
        rf"({names}) (-?[\d.]+) and (-?\d+\.\d)", joined("docs/benchmarks.md")
    )
    assert gains == {
        name: (float(both), float(curves)) for name, both, curves in quoted
    }
    shares = [curves / both for both, curves in gains.values()]
    assert "to nearly all" in joined("docs/compare.md")
    assert min(shares) < 0
    assert 0.8 < max(shares) < 1


def test_reliability_counts_the_runs_that_were_verified():
    """Later runs and checks may be more, but not by a fifth."""
    cells = []
    files = sorted((ROOT / "results").rglob("verified.json"))
    for file in files:
        cells += json.loads(file.read_text())["cells"]
    quoted = re.search(
        r"(\d+) of the results in (\d+) runs .*? to ([\d.]+) digits",
        joined("docs/reliability.md"),
    )
    assert int(quoted[1]) <= len(cells) <= 1.2 * int(quoted[1])
    assert int(quoted[2]) <= len(files) <= 1.2 * int(quoted[2])
    assert all(cell["agrees"] for cell in cells)
    assert min(cell["digits"] for cell in cells) >= float(quoted[3])


def test_short_names_of_experiments_are_those_of_the_tutorial():
    exceptions = re.findall(
        r"`(\w+)` alone, which several have, stands for `([\w/]+)`",
        joined("docs/tutorials/reproduce.md"),
    )
    ids = {}
    for entry in catalogue():
        ids.setdefault(entry.artefact, []).append(entry.id)
    shared = {name for name, same_name in ids.items() if len(same_name) > 1}
    assert {"table1", "table2"} <= shared
    for name in shared - dict(exceptions).keys():
        with pytest.raises(ConfigError):
            find(name)
    for name, goal in {**dict(exceptions), "lemma": "dcrmtl/lemma"}.items():
        assert find(name) == find(goal)


def test_no_page_installs_from_an_index_that_does_not_have_the_package():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    is_published = "not on PyPI" not in joined("docs/start/install.md")
    commands = [
        line
        for page in pages
        for line in page.read_text("utf-8").splitlines()
        if re.search(r"(?:pip|conda) (?:install|update)(?: --?\w+)* mtlrun", line)
    ]
    assert bool(commands) == is_published


def test_the_strength_of_a_penalty_is_not_called_a_price():
    """In pictures, their alternative texts and chapters."""
    files = [
        ROOT / "scripts" / "docs_pictures.py",
        *(ROOT / "docs" / "guide").glob("*.md"),
    ]
    assert [file.name for file in files if "price" in file.read_text("utf-8")] == []


def test_the_average_gains_of_mt_mkl_are_those_of_the_stored_table():
    table = pd.read_csv(ROOT / "results/mtmkl/table1/full/table.csv")
    scores = table.pivot(index="dataset", columns="method", values="accuracy_mean")
    gains = (100 * (scores["Proposed"] - scores["STL"])).dropna()
    means = gains.groupby(lambda name: name.partition(" (")[2]).mean()
    (quoted,) = re.findall(
        r"points on average, ours (\S+) to (\S+)\)", joined("docs/papers/mtmkl.md")
    )[:1]
    assert (f"{means.min():.2f}", f"{means.max():.2f}") == quoted
