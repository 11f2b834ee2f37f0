"""Output that a page does not show is detected; `make docs` runs the pages themselves."""

import runpy
from pathlib import Path

import pytest
from all_cases import all_cases

ROOT = Path(__file__).parent.parent
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "docs_output.py"))
#: Pages whose output is checked when the site is built, and the other tutorials.
CHECKED = [
    ROOT / "docs" / "index.md",
    *sorted((ROOT / "docs").glob("guide/*.md")),
    *sorted((ROOT / "docs").glob("start/*.md")),
    *sorted((ROOT / "docs").glob("tutorials/*.md")),
]


def page(code: str, output: str | None = None) -> str:
    block = "" if output is None else f"\n```text\n{output}```\n"
    return f"# Title\n\n```python\n{code}```\n{block}"


@all_cases(
    ("output", "printed"),
    [
        ("gain 0.12\n", "gain 0.15\n"),
        ("gain 0.12\n", "loss 0.12\n"),
        ("gain 0.12\n", "gain 0.12\ngain 0.12\n"),
        ("18 tasks\n", "19 tasks\n"),
        ("[1.2 0.3]\n", "[1.2 -0.3]\n"),
        ("1.2e-05\n", "1.2e-04\n"),
        ("True\n", "False\n"),
    ],
)
def test_a_changed_output_fails(output, printed):
    text = page(f"print({printed!r}, end='')\n", output)
    assert len(SCRIPT["differences"](text, "page.md")) == 1


@pytest.mark.parametrize(
    ("output", "printed"),
    [
        ("gain 0.12\n", "gain 0.13\n"),
        ("[ 1.2 -0.0]\n", "[1.2  0.0]\n"),
        ("1.2e-05\n", "1.3e-05\n"),
    ],
)
def test_the_last_digit_may_differ_by_one(output, printed):
    text = page(f"print({printed!r}, end='')\n", output)
    assert SCRIPT["differences"](text, "page.md") == []


def test_code_that_prints_must_show_its_output():
    assert len(SCRIPT["differences"](page("print(1)\n"), "page.md")) == 1
    assert SCRIPT["differences"](page("x = 1\n"), "page.md") == []


def test_later_blocks_use_names_of_earlier_ones():
    text = page("x = 1\n") + page("print(x + 1)\n", "2\n")
    assert SCRIPT["differences"](text, "page.md") == []


def test_code_that_warns_fails():
    with pytest.raises(UserWarning):
        SCRIPT["run"](page("import warnings\nwarnings.warn('x')\n"), "page.md")


def test_writing_stores_the_printed_output():
    without = page("print('a 2.5')\n")
    stored = SCRIPT["rewrite"](without, "page.md")
    assert "```text\na 2.5\n```" in stored
    assert SCRIPT["differences"](stored, "page.md") == []
    changed = stored.replace("a 2.5\n", "a 9.5\n")
    assert SCRIPT["rewrite"](changed, "page.md") == stored


def test_the_output_of_a_page_is_checked_without_fetched_data():
    loading = []
    for path in CHECKED:
        blocks = SCRIPT["examples"](path.read_text("utf-8"))
        if any("load_dataset" in block.code for block in blocks):
            loading.append(path.relative_to(ROOT).as_posix())
    assert CHECKED
    assert loading == []
