"""References in the documents exist, and generated documents are up to date."""

import doctest
import importlib
import importlib.util
import re
import runpy
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import yaml

import mtlrun
from mtlrun.catalog.registry import METHODS
from mtlrun.cli.app import COMMANDS
from mtlrun.lab.experiment.catalogue import catalogue

pytestmark = pytest.mark.rendered

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGE = runpy.run_path(str(ROOT / "scripts" / "marked_pages.py"))
CHOICES = sorted((ROOT / "configs").glob("*/README.md"))
PAGES = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "results" / "README.md",
    *sorted((ROOT / "benchmarks").glob("*.md")),
    ROOT / "tests" / "README.md",
    ROOT / "examples" / "extending" / "INTERFACES.md",
    *CHOICES,
    *sorted(DOCS.rglob("*.md")),
]
CHAPTERS = [
    page
    for page in sorted((DOCS / "guide").glob("*.md"))
    if page.stem not in ("index", "choosing", "same-models")
]
TAUGHT = [
    *(DOCS / name for name in ("index.md", "scaling.md")),
    *sorted((DOCS / "start").glob("*.md")),
    *sorted((DOCS / "guide").glob("*.md")),
]
#: Reference pages, not read from start to end
REFERENCE = ("methods", "formats")
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))
_PATH = re.compile(
    r"`((?:mtlrun|tests|scripts|benchmarks|examples|configs|\.ci)/[\w./*-]+)"
)
REFERENCES = sorted(
    set(
        re.findall(
            r"`(tests/[\w/]+\.py)::(\w+)`",
            (ROOT / "configs" / "errata.md").read_text("utf-8"),
        )
    )
)


def test_the_errata_name_tests():
    assert len(REFERENCES) > 10


def test_the_tests_named_in_the_errata_exist():
    for file, name in REFERENCES:
        assert f"def {name}(" in (ROOT / file).read_text("utf-8"), f"{file}: {name}"


def test_files_named_on_pages_exist():
    pages_by_path = {
        path.rstrip("/"): page.name
        for page in PAGES
        for path in _PATH.findall(page.read_text("utf-8"))
    }
    absent = {
        path: page for path, page in pages_by_path.items() if not any(ROOT.glob(path))
    }
    assert absent == {}


def anchors(text):
    """Return the anchors of the headings of a page, as the site and code hosts do."""
    headings = re.findall(r"^#{1,4} (.*)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {
        re.sub(r"[^\w\- ]", "", name).strip().lower().replace(" ", "-")
        for name in plain
    }


def test_links_between_pages_lead_to_a_file_and_to_a_heading():
    # Written by the site's build:
    generated = ("gallery/index", "reference/cli.md", "reference/keys.md", "figures.md")
    broken = []
    for page in (*PAGES, *(ROOT / "results").glob("*/claims.md")):
        text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.S | re.M)
        for path, _, anchor in re.findall(
            r"\]\((?!\w+:)([^)#\s]*)(#([^)\s]+))?\)", text
        ):
            goal = (page.parent / path).resolve() if path else page
            if str(goal).endswith(generated):
                continue
            is_page = goal.is_file() and goal.suffix == ".md"
            if not goal.exists() or (
                anchor and is_page and anchor not in anchors(goal.read_text("utf-8"))
            ):
                broken.append(f"{page.relative_to(ROOT)}: {path}#{anchor}")
    assert broken == []


def long_lines(page):
    """Yield the places of lines of prose with more than 100 characters."""
    in_code = False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), start=1):
        in_code ^= line.lstrip().startswith("```") or line == "$$"
        is_prose = not in_code and not line.startswith(("|", "    ", "!", "#", "<"))
        if is_prose and len(line) > 100:
            yield f"{page.name}:{number}"


def test_prose_is_wrapped_at_100_characters():
    generated = ("methods.md", "README.md", "summary.md")
    pages = [page for page in PAGES if page.name not in generated]
    assert [place for page in pages for place in long_lines(page)] == []


def test_every_paper_states_what_it_leaves_open_beside_its_experiments():
    papers = {entry.id.split("/")[0] for entry in catalogue() if entry.kind != "train"}
    assert {path.parent.name for path in CHOICES} == papers


def test_details_of_the_site_are_neither_in_its_menu_nor_in_its_search():
    script = runpy.run_path(str(ROOT / "scripts" / "docs_source.py"))
    details = [path for name in script["DETAILS"] for path in ROOT.glob(name)]
    assert {path.name for path in details} >= {"claims.md", "README.md"}
    for path in (*details, DOCS / "compare.md"):
        place = path.relative_to(ROOT)
        header = script["page"]("# Title\n", place, path).partition("# Title")[0]
        is_hidden = "orphan: true" in header and "nosearch: true" in header
        assert is_hidden == (path in details), place


def test_every_method_is_listed_in_the_api():
    page = (DOCS / "api" / "estimators.md").read_text("utf-8")
    assert [
        name for name in METHODS if f"   mtlrun.estimators.{name}\n" not in page
    ] == []


@pytest.mark.parametrize("package", ["data", "features"])
def test_exports_of_every_package_are_listed_in_the_api(package):
    module = __import__(f"mtlrun.{package}", fromlist=["x"])
    page = (DOCS / "api" / f"{package}.md").read_text("utf-8")
    assert [
        name
        for name in module.__all__
        if not re.search(rf"\.{name}$", page, re.MULTILINE)
    ] == []


@pytest.mark.parametrize("page", [DOCS / "scaling.md"], ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    """The guide, the start and the home page show output (test_docs_output.py)."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for code in re.findall(
        r"^```python[^\n]*\n(.*?)^```$",
        page.read_text("utf-8"),
        re.DOTALL | re.MULTILINE,
    ):
        exec(compile(code, page.name, "exec"), names)


@pytest.mark.slow
def test_the_python_code_of_compare_runs(tmp_path, monkeypatch):
    """Uses one method, because all of them take a minute."""
    monkeypatch.chdir(tmp_path)
    short = partial(mtlrun.compare, methods=["GraphMTL"], splits=3, repeats=1)
    package = SimpleNamespace(compare=short)
    table = (
        pd.read_csv(ROOT / "examples" / "simulated-grades.csv")
        .groupby("school")
        .head(8)
    )
    (code,) = re.findall(
        r"^```python\n(.*?)^```$",
        (DOCS / "compare.md").read_text("utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    exec(
        compile(code, "compare.md", "exec"),
        {"__name__": "__main__", "mtlrun": package, "df": table},
    )
    assert list((tmp_path / "out").iterdir())
    plt.close("all")


def test_the_python_code_of_distributed_runs(tmp_path, monkeypatch):
    """Replaces HOST by a scheduler and a worker inside this process."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "distributed.md").read_text("utf-8")
    code = next(
        code
        for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        if "HOST" in code
    )
    with distributed.LocalCluster(
        n_workers=1, processes=False, dashboard_address=None
    ) as cluster:
        code = code.replace("tcp://HOST:8786", cluster.scheduler_address).replace(
            "n=2000, d=200", "n=400, d=20"
        )
        names = {"__name__": "__main__"}
        exec(compile(code, "distributed.md", "exec"), names)
    assert names["model"].coef_.shape[1] == 20


def test_a_chapter_has_all_its_parts():
    for page in CHAPTERS:
        text = page.read_text("utf-8")
        parts = [line for line in text.splitlines() if line.startswith("## ")]
        assert parts[:3] == ["## The data", "## The model", "## In code"]
        use = ["## Cost", "## Use it when", "## Do not use it when", "## Tuning"]
        assert parts[-6:] == [*use, "## See also", "## References"]
        assert re.search(r"^Related terms: ", text, re.MULTILINE)
        assert re.search(r"^\$\$\n.+?\n\$\$$", text, re.DOTALL | re.MULTILINE)
        assert re.search(r"^\| symbol \| meaning \| in code \|$", text, re.MULTILINE)
        assert len(re.findall(r"\(https://doi\.org/[^)]+\)", text)) >= 2
        assert "../api/" in text
        # Every code block ends with its output.
        fences = re.findall(r"^```(\w+)", text, re.MULTILINE)
        assert fences.count("python") == fences.count("text") >= 1


def test_figures_of_a_chapter_are_drawn_and_stored():
    drawn = runpy.run_path(str(ROOT / "scripts" / "docs_pictures.py"))["PICTURES"]
    for page in CHAPTERS:
        text = page.read_text("utf-8")
        pictures = re.findall(r"!\[[^\]]+\]\(\.\./pictures/([\w-]+)\.svg\)", text)
        assert pictures
        assert set(pictures) <= drawn.keys()
        assert all((DOCS / "pictures" / f"{name}.svg").is_file() for name in pictures)


def test_the_references_of_a_chapter_come_from_the_bibliography():
    for page in CHAPTERS:
        text = page.read_text("utf-8")
        assert PAGE["filled"](text) == text, f"{page}: run scripts/marked_pages.py"


PAGES_WITH_MARKS = [page for page in sorted(DOCS.rglob("*.md")) if page not in CHAPTERS]


def test_tables_copied_from_other_pages_are_up_to_date():
    for page in PAGES_WITH_MARKS:
        text = page.read_text("utf-8")
        assert PAGE["filled"](text) == text, f"{page}: run scripts/marked_pages.py"


def test_a_copied_table_or_row_that_is_not_there_is_an_error():
    with pytest.raises(ValueError, match="'Nothing'"):
        PAGE["copied_table"]("benchmarks/README.md", "Nothing")
    with pytest.raises(ValueError, match="no row Unicorns"):
        PAGE["copied_table"]("benchmarks/README.md", "Later rows", "Milk, Unicorns")


def test_commands_of_pages_name_the_paper_of_a_table():
    """`table1` is the name of several experiments, and so is `table2`."""
    places = [
        f"{page.name}: {command}"
        for page in PAGES
        for command in re.findall(
            r"mtlrun \w+ table\d\b(?!\.)", page.read_text("utf-8")
        )
        if page.name not in ("CHANGELOG.md", "architecture.md")
    ]
    examples = [line for panel in COMMANDS.values() for line in panel.values()]
    assert places == []
    assert [line for line in examples if " table" in line] == []


def test_a_reference_without_an_entry_is_an_error():
    with pytest.raises(ValueError, match="'nobody2000'"):
        PAGE["reference"]("nobody2000")


def test_terms_of_statisticians_are_explained_beside_ours():
    taught = " ".join(page.read_text("utf-8") for page in CHAPTERS)
    table = (DOCS / "start" / "is-it-mine.md").read_text("utf-8")
    for word in (
        "partial pooling",
        "random slope",
        "random intercept",
        "multilevel",
        "multi-output",
        "multilabel",
    ):
        assert word in " ".join(taught.split()), word
        assert word in table, word


@pytest.mark.parametrize("name", ["start/is-it-mine", "guide/choosing"])
def test_a_chart_shows_all_questions_and_commands(name):
    text = (DOCS / f"{name}.md").read_text("utf-8")
    script = runpy.run_path(str(ROOT / "scripts" / "docs_chart.py"))
    steps = script["steps"](text)
    assert len(steps) == len(re.findall(r"^## \d+\. ", text, re.MULTILINE)) >= 4
    root = ET.fromstring("<a>" + script["chart"](text) + "</a>")
    texts = [part.text for part in root.iter("text")]
    for step in steps:
        lines = script["command_lines"](step.command)
        assert "\n".join(lines).replace(" \\\n ", "") == step.command
        assert max(map(len, lines)) <= 45  # The width of a phone
        assert set(lines) <= set(texts)
        assert step.question.split()[0] in " ".join(texts)
    assert len(texts) > 3 * len(steps)
    assert "<!-- chart -->" in text


def test_a_question_without_a_command_is_an_error():
    steps = runpy.run_path(str(ROOT / "scripts" / "docs_chart.py"))["steps"]
    with pytest.raises(ValueError, match="'Is it\\?' has no"):
        steps("## 1. Is it?\n\n**Yes: it is.**\n")


def test_the_check_of_the_site_finds_broken_links(tmp_path):
    check = runpy.run_path(str(ROOT / "scripts" / "docs_check.py"))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.html").write_text(
        '<p id="here"></p><a href="../a.html">a</a>', "utf-8"
    )
    good = '<a href="sub/b.html#here">b</a><a href="https://example.org">away</a><link rel="canonical" href="https://x">'
    (tmp_path / "a.html").write_text(good, "utf-8")
    assert check["main"](tmp_path) == 0
    bad = [
        '<a href="none.html">x</a>',
        '<a href="sub/b.html#there">x</a>',
        '<script src="https://cdn.org/x.js"></script>',
    ]
    for text in bad:
        (tmp_path / "a.html").write_text(good + text, "utf-8")
        assert check["main"](tmp_path) == 1, text
    (tmp_path / "a.html").write_text(good, "utf-8")
    (tmp_path / "site.css").write_text(
        "@font-face { src: url(https://fonts.org/x.woff2) }", "utf-8"
    )
    assert check["main"](tmp_path) == 1


def test_vertical_bars_in_docstring_code_are_unchanged():
    plain_words = runpy.run_path(str(ROOT / "scripts" / "docs_words.py"))["plain_words"]
    lines = ["The call ``(x || task)``, `a|b`, and |w| of w."]
    assert plain_words(lines) == [r"The call ``(x || task)``, `a|b`, and \|w\| of w."]


@pytest.mark.slow
def test_an_estimator_without_an_example_gets_one_that_runs():
    """It is on its API page; test_doctests.py covers those in docstrings."""
    example = runpy.run_path(str(ROOT / "scripts" / "docs_examples.py"))["example"]
    listed = re.findall(
        r"^   mtlrun\.estimators\.(\w+)$",
        (DOCS / "api" / "estimators.md").read_text("utf-8"),
        re.M,
    )
    output, ran = [], []
    runner = doctest.DocTestRunner()
    for name in dict.fromkeys(listed):
        estimator = getattr(importlib.import_module("mtlrun.estimators"), name)
        if hasattr(estimator, "fit") and ">>> " not in estimator.__doc__:
            if name == "MTNetwork" and not importlib.util.find_spec("torch"):
                continue
            text = "\n".join(example(estimator)) + "\n"
            runner.run(
                doctest.DocTestParser().get_doctest(text, {}, name, None, 0),
                out=output.append,
            )
            ran.append(name)
    assert runner.failures == 0, "".join(output)
    assert len(ran) > 10


@pytest.mark.parametrize(
    "name", [".", "start", "guide", "tutorials", "api", "reference"]
)
def test_an_index_links_its_pages(name):
    """A code host shows no table of contents, so each page is linked separately."""
    page = DOCS / name / "index.md"
    text = page.read_text("utf-8")
    (listed,) = re.findall(r"^```{toctree}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    listed = re.findall(
        r"^(?:.* <)?([\w./-]+)>?$", listed.partition("\n\n")[2], re.MULTILINE
    )
    linked = {
        str((page.parent / link).resolve())
        for link in re.findall(r"\]\(([^)#]+)", text)
    }
    for entry in listed:
        kinds = [
            path
            for end in (".md", ".ipynb")
            if (path := (page.parent / f"{entry}{end}").resolve()).is_file()
        ]
        assert not kinds or linked & {str(path) for path in kinds}, entry
    assert len(listed) > 3


def _words(page, tables=True):
    lines = page.read_text("utf-8").splitlines()
    return len(
        " ".join(line for line in lines if tables or not line.startswith("|")).split()
    )


def test_a_page_is_short():
    """Reference pages and tables of results may be longer."""
    n_words = {
        page.name: _words(page, tables=page in TAUGHT)
        for page in DOCS.rglob("*.md")
        if page.stem not in REFERENCE
    }
    assert [name for name, words in n_words.items() if words >= 3000] == []


def test_the_documentation_has_at_most_59500_words():
    """Generated pages and tables are counted, too: a new method adds about 60 words."""
    assert sum(map(_words, DOCS.rglob("*.md"))) < 59_500


def test_the_start_is_read_in_ten_minutes():
    assert sum(map(_words, (DOCS / "start").glob("*.md"))) < 3300


def test_a_selector_of_the_style_has_its_rules_in_one_place():
    style = (DOCS / "static" / "site.css").read_text("utf-8")
    style = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    style = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*\s*\}", "", style)
    selectors = [" ".join(text.split()) for text in re.findall(r"([^{}]+)\{", style)]
    assert len(selectors) > 20
    assert len(set(selectors)) == len(selectors)


def test_the_gallery_has_sixteen_examples():
    assert len(EXAMPLES) == 16


def test_examples_of_the_gallery_are_short():
    for script in EXAMPLES:
        lines = [
            line for line in script.read_text("utf-8").splitlines() if line.strip()
        ]
        assert 20 <= len(lines) <= 65, script.name


def test_names_listed_in_the_api_exist():
    for page in sorted((DOCS / "api").glob("*.md")):
        for name in re.findall(
            r"^   (mtlrun\.[\w.]+)$", page.read_text("utf-8"), re.MULTILINE
        ):
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute), name


SCORER = (DOCS / "search_scorer.js").read_text("utf-8")


def test_the_site_uses_the_scores_of_the_search():
    assert "search_scorer.js" in (DOCS / "conf.py").read_text("utf-8")
    # Sphinx declares the same name: with const the browser would reject its script.
    assert "\nvar Scorer = {" in SCORER


def test_no_folder_of_the_site_outweighs_a_title():
    bonuses = [int(n) for n in re.findall(r'^  \["[\w/]*", (-?\d+)\],', SCORER, re.M)]
    scores = dict(re.findall(r"^  (\w+): (\d+),", SCORER, re.M))
    assert 0 < max(bonuses) < int(scores["title"]) - int(scores["term"])


def test_words_and_answers_of_the_search_are_pages():
    searches = yaml.safe_load((DOCS / "searches.yaml").read_text("utf-8"))
    assert len(searches["searches"]) >= 30
    for page in (*searches["words"], *searches["searches"].values()):
        assert (DOCS / f"{page}.md").is_file(), page


def test_the_words_of_a_search_become_main_entries_of_the_index():
    script = runpy.run_path(str(ROOT / "scripts" / "docs_source.py"))
    text = script["page"]("# Title\n\nText\n", Path("tables.md"), DOCS / "tables.md")
    assert text.startswith("# Title\n\n```{index} ! missing values, ! NaN, ")


@pytest.fixture
def ranking():
    """The search in five pages, of which one has a word in its title."""
    pytest.importorskip("sphinx")
    script = runpy.run_path(str(ROOT / "scripts" / "docs_search.py"))
    titles = ["Tables", "Missing values", "Clusters", "Fields", "A report"]
    index = {
        "docnames": ["guide/a", "tables", "guide/c", "formats", "results/r"],
        "titles": titles,
        "alltitles": {title: [[file, None]] for file, title in enumerate(titles)},
        "indexentries": {
            "absent numbers": [[3, "", True]],
            "gap": [[0, "", False], [3, "", True]],
        },
        "objects": {},
        "terms": {"miss": [0, 1, 2, 4], "valu": [0, 1, 2, 4], "gap": [2]},
        "titleterms": {"miss": 1, "valu": 1, "cluster": 2},
    }
    return script["Ranking"](index, SCORER)


def test_a_title_outweighs_the_guide_in_the_search(ranking):
    pages = ranking.pages("missing values")
    assert pages == ["tables", "guide/c", "guide/a", "results/r"]


def test_an_entry_of_the_search_leads_and_other_entries_come_last(ranking):
    assert ranking.pages("absent numbers") == ["formats"]
    assert ranking.pages("gap") == ["formats", "guide/c", "guide/a"]


def test_a_search_that_does_not_show_its_page_is_named(ranking):
    script = runpy.run_path(str(ROOT / "scripts" / "docs_search.py"))
    searches = {"missing values": "tables", "gap": "tables", "WinError": "formats"}
    first, second = script["faults"](ranking, searches)
    assert first.startswith(
        "search 'gap' shows formats, guide/c, guide/a before tables"
    )
    assert second == "search 'WinError' shows nothing before formats"
