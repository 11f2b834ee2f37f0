"""What the documents point at exists, and the generated ones are up to date."""

import importlib
import re
import runpy
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest

import mtlrun
from mtlrun.estimators.registry import METHODS
from mtlrun.runs.catalogue import catalogue

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGE = runpy.run_path(str(ROOT / "scripts" / "protocols_page.py"))
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "results" / "README.md", *sorted(DOCS.rglob("*.md"))]
TAUGHT = [DOCS / "index.md", *sorted((DOCS / "start").glob("*.md")), *sorted((DOCS / "guide").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))
_PATH = re.compile(r"`((?:mtlrun|tests|scripts|benchmarks|examples|configs|\.ci)/[\w./*-]+)")
REFERENCES = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (DOCS / "errata.md").read_text("utf-8"))))


def test_the_errata_name_tests():
    assert len(REFERENCES) > 10


@pytest.mark.parametrize(("file", "name"), REFERENCES)
def test_the_tests_named_in_the_errata_exist(file, name):
    assert f"def {name}(" in (ROOT / file).read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_files_named_on_a_page_exist(page):
    named = set(_PATH.findall(page.read_text("utf-8")))
    assert [path for path in sorted(named) if not any(ROOT.glob(path.rstrip("/")))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_prose_is_wrapped_at_100_characters(page):
    if page.name in ("methods.md", "README.md", "summary.md"):  # derived, or with derived tables
        return
    code = False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), start=1):
        code ^= line.lstrip().startswith("```") or line == "$$"
        apart = code or line.startswith(("|", "    ", "!", "#", "<"))
        assert apart or len(line) <= 100, f"{page.name}:{number}"


def test_the_protocols_are_those_of_the_experiment_files():
    text = (DOCS / "protocols.md").read_text("utf-8")
    assert PAGE["with_choices"](text) == text, "run: python scripts/protocols_page.py docs/protocols.md"
    for entry in catalogue():
        assert (f"### `{entry.id}`" in text) == (entry.kind != "train")


def test_choices_of_several_artefacts_are_listed_once():
    items = [" ".join(item.split()) for item in PAGE["choices"]("mtmkl").split("\n- ")]
    clean = [item for item in items if "The protocol is clean" in item]
    assert len(clean) == 1
    assert clean[0].endswith("(table1, table2)")
    with pytest.raises(ValueError, match="no experiments of the paper 'none'"):
        PAGE["choices"]("none")


def test_every_method_has_its_place_in_the_api():
    page = (DOCS / "api" / "estimators.md").read_text("utf-8")
    assert [name for name in METHODS if f"   mtlrun.estimators.{name}\n" not in page] == []


@pytest.mark.parametrize("package", ["data", "features"])
def test_what_a_package_exports_is_in_the_api(package):
    module = __import__(f"mtlrun.{package}", fromlist=["x"])
    page = (DOCS / "api" / f"{package}.md").read_text("utf-8")
    assert [name for name in module.__all__ if not re.search(rf"\.{name}$", page, re.MULTILINE)] == []


@pytest.mark.parametrize("page", TAUGHT, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"^```python[^\n]*\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE):
        if "MTNetwork" in code:
            pytest.importorskip("torch")
        exec(compile(code, page.name, "exec"), {"__name__": "__main__"})


def test_the_python_code_of_compare_runs(tmp_path, monkeypatch):
    """With one method, as all of them take a minute."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mtlrun, "compare", partial(mtlrun.compare, methods=["GraphMTL"], splits=3, repeats=1))
    table = pd.read_csv(ROOT / "examples" / "simulated-grades.csv").groupby("school").head(8)
    (code,) = re.findall(r"^```python\n(.*?)^```$", (DOCS / "compare.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    exec(compile(code, "compare.md", "exec"), {"__name__": "__main__", "mtlrun": mtlrun, "df": table})
    assert list((tmp_path / "out").iterdir())
    plt.close("all")


def test_every_chapter_has_all_its_parts():
    for page in sorted((DOCS / "guide").glob("*.md")):
        text = page.read_text("utf-8")
        parts = ("$$", "../pictures/", "```python", "## Cost", "## Use it when", "## Do not use it when", "## Tuning")
        assert page.stem == "index" or [part for part in parts if part not in text] == [], page.name


@pytest.mark.parametrize("name", [".", "start", "guide", "api", "reference"])
def test_an_index_links_its_pages(name):
    """A code host shows no table of contents, so that each page in it has a link besides."""
    page = DOCS / name / "index.md"
    text = page.read_text("utf-8")
    (listed,) = re.findall(r"^```{toctree}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    listed = re.findall(r"^(?:.* <)?([\w./-]+)>?$", listed.partition("\n\n")[2], re.MULTILINE)
    linked = {str((page.parent / link).resolve()) for link in re.findall(r"\]\(([^)#]+)", text)}
    for entry in listed:
        kinds = [path for end in (".md", ".ipynb") if (path := (page.parent / f"{entry}{end}").resolve()).is_file()]
        assert not kinds or linked & {str(path) for path in kinds}, entry
    assert len(listed) > 3


def test_pages_are_short():
    read = [*TAUGHT, *DOCS.glob("tutorials/*.md"), *DOCS.glob("compare*.md"), DOCS / "tables.md"]
    words = {page.stem: len(page.read_text("utf-8").split()) for page in read}
    assert max(words.values()) < 3000
    assert sum(len(page.read_text("utf-8").split()) for page in (DOCS / "start").glob("*.md")) < 3000


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_of_the_gallery_is_short(script):
    lines = [line for line in script.read_text("utf-8").splitlines() if line.strip()]
    assert 20 <= len(lines) <= 65


@pytest.mark.slow
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_of_the_gallery_draws(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("agg")
    runpy.run_path(str(script))
    assert plt.get_fignums()
    plt.close("all")


@pytest.mark.parametrize("page", sorted((DOCS / "api").glob("*.md")), ids=lambda page: page.stem)
def test_what_the_api_lists_exists(page):
    for name in re.findall(r"^   (mtlrun\.[\w.]+)$", page.read_text("utf-8"), re.MULTILINE):
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name
