"""Commands of the tutorials, run in an empty folder, print the lines shown.

Numbers may differ from those on the page, as seconds do, and a line that ends with
``...`` is compared up to there. Comments before a block are instructions: ``needs
data``, ``not run``, ``fails``, ``FILE = OTHER with TEXT -> TEXT, TEXT -> TEXT``.
"""

import contextlib
import io
import re
import runpy
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer.main
from typer.testing import CliRunner

from mtlrun.cli.app import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
README = ROOT / "README.md"
INSTALL = DOCS / "start" / "install.md"
#: Tutorial that begins with the comparison of README, home page and page on installing
OWN_DATA = DOCS / "tutorials" / "own-data.md"
#: Pages with questions, from which the site draws charts
CHARTS = [DOCS / "start" / "is-it-mine.md", DOCS / "guide" / "choosing.md"]
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
#: Other pages whose blocks run: Python in test_docs_output.py and test_docs.py, other
#: languages here or as named
RUN = {
    "python": {
        "README.md",  # test_readme.py
        "docs/extending.md",  # test_extending.py
        *(
            str(page.relative_to(ROOT))
            for folder in ("start", "guide")
            for page in DOCS.glob(f"{folder}/*.md")
        ),
        *(f"docs/{name}.md" for name in ("index", "compare", "scaling", "distributed")),
    },
    "sh": {
        "README.md",
        "docs/extending.md",  # test_extending.py
        *(str(page.relative_to(ROOT)) for page in (INSTALL, *CHARTS)),
        "docs/compare.md",
        "docs/scaling.md",
    },
    "yaml": {"docs/scaling.md"},
}
_BLOCK = re.compile(
    r"(?:<!-- (?P<note>[^\n]*?) -->\n\n)?^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_EDIT = re.compile(r"(?P<new>\S+) = (?P<old>\S+) with (?P<changes>.*)")
_CODE = re.compile(r"^```.*?^```$|^    .*$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"(?:^`?| {4}|&& )(mtlrun [a-z][^`\n]*)", re.MULTILINE)


def _commands_of(page):
    blocks = _BLOCK.finditer(page.read_text("utf-8"))
    return [
        line
        for block in blocks
        if block["language"] == "sh"
        for line in block["body"].splitlines()
    ]


@pytest.mark.parametrize("page", [README, DOCS / "index.md", INSTALL])
def test_the_first_comparison_is_that_of_own_data(page):
    tutorial = " ".join(OWN_DATA.read_text("utf-8").split())
    blocks = list(_BLOCK.finditer(page.read_text("utf-8")))
    first = next(k for k, block in enumerate(blocks) if " compare " in block["body"])
    command = blocks[first]["body"].splitlines()[-1].replace("examples/", "")
    shown = re.split(r"^\.\.\.$", blocks[first + 1]["body"], flags=re.MULTILINE)
    parts = [" ".join(part.split()) for part in (command, *shown)]
    assert [part for part in parts if part not in tutorial] == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_prints_the_lines_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # Like `python FILE`
    monkeypatch.delenv("MTLRUN_DATA", raising=False)
    for table in (ROOT / "examples").glob("*.csv"):
        shutil.copy(table, table.name)
    output: str | None = ""
    previous = ""
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        note, language, body = block["note"] or "", block["language"], block["body"]
        is_output_of_python = previous == "python" and language == "text"
        previous = language
        if is_output_of_python:  # Checked in test_docs_output.py
            continue
        if note.startswith(("needs data", "not run")):
            output = None  # Text that follows is the output of this block.
            continue
        if edit := _EDIT.search(note):
            text = Path(edit["old"]).read_text(encoding="utf-8")
            for change in edit["changes"].split(", "):
                text = text.replace(*change.split(" -> "))
            Path(edit["new"]).write_text(text, encoding="utf-8")
        if block["title"]:
            Path(block["title"]).write_text(body, encoding="utf-8")
        elif language == "sh":
            output = "".join(
                _run(line, fails=note.startswith("fails")) for line in body.splitlines()
            )
        elif language == "text" and output is not None:
            assert not _unprinted(body, output), output


@pytest.mark.slow
@pytest.mark.every(2)
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "line", dict.fromkeys(line for page in CHARTS for line in _commands_of(page))
)
def test_the_commands_at_the_ends_of_a_chart_run_on_the_shipped_tables(
    line, tmp_path, monkeypatch
):
    """With a single method and few splits, because all of them take minutes."""
    monkeypatch.chdir(tmp_path)
    table = line.split()[2]
    shutil.copy(ROOT / "examples" / table, table)
    named = "" if "--methods" in line else " --methods GraphMTL"
    printed = _run(
        f"{line}{named} --splits 2 --repeats 1 --folds 2 --quiet", fails=False
    )
    wanted = re.search(r"--methods (\S+)", line + named)[1].split(",")
    assert [name for name in wanted if name not in printed] == []
    pages = Path("results/runs/compare").glob(f"{Path(table).stem}*/leaderboard.html")
    assert len(list(pages)) == 1


def test_every_kind_of_problem_has_its_command_and_table():
    options = [line for page in CHARTS for line in _commands_of(page)]
    for option in (
        "--task country",
        "--targets heating_load,cooling_load",
        "--targets 'tag_*'",
        "--group",
        "--time",
    ):
        assert any(option in line for line in options), option


@pytest.mark.slow
def test_the_commands_and_settings_of_large_tables_run(tmp_path, monkeypatch):
    """Runs those of docs/scaling.md on folders of small files."""
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("sales", "sensors"):
        Path(name).mkdir()
    for part in range(2):
        rows = pd.DataFrame(
            rng.normal(size=(90, 3)), columns=["price", "size", "stock"]
        )
        rows.assign(y1=rows["price"] + rng.normal(size=90), y2=rows["size"]).to_parquet(
            f"sensors/{part}.parquet"
        )
        sales = rows.assign(
            store=np.arange(90) % 3, amount=rows["price"] + rng.normal(size=90)
        )
        sales.to_csv(f"sales/{part}.csv", index=False)
    (text,) = (
        block["body"]
        for block in _BLOCK.finditer((DOCS / "scaling.md").read_text("utf-8"))
        if block["language"] == "yaml"
    )
    Path("sales.yaml").write_text(text, encoding="utf-8")
    for line in [*_commands_of(DOCS / "scaling.md"), "mtlrun train sales.yaml"]:
        if line.startswith("mtlrun compare") and "--methods" not in line:
            line = f"{line} --methods GraphMTL --splits 3"
        _run(f"{line} --quiet", fails=False)


@pytest.mark.slow
def test_the_inputs_of_compare_are_read(tmp_path, monkeypatch):
    """Runs the first block of docs/compare.md on a table of each kind."""
    pytest.importorskip("openpyxl")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    rows.assign(school=np.arange(60) % 4, grade=rows["a"] + rng.normal(size=60)).to_csv(
        "grades.csv", index=False
    )
    rows.assign(
        school=np.arange(60) % 4, pupil=np.arange(60) // 4, score=rows["a"]
    ).to_csv("growth.csv", index=False)
    rows.assign(
        **{name: rows["a"] + rng.normal(size=60) for name in ("oil", "gas", "water")}
    ).to_csv("yields.csv", index=False)
    genes = rows.assign(
        **{f"y{j}": (rows["b"] + rng.normal(size=60) > 0).astype(int) for j in range(3)}
    )
    genes.to_csv("genes.csv", index=False)
    genes.to_excel("genes.xlsx", index=False)
    header = [f"@attribute {name} numeric" for name in "abc"] + [
        f"@attribute y{j} {{0,1}}" for j in range(3)
    ]
    lines = genes.to_csv(index=False, header=False)
    Path("enron.arff").write_text(
        "\n".join(["@relation enron", *header, "@data", lines]), encoding="utf-8"
    )
    names = "".join(f'<label name="y{j}"></label>' for j in range(3))
    Path("enron.xml").write_text(
        f'<labels xmlns="http://mulan.sourceforge.net/labels">{names}</labels>', "utf-8"
    )
    lines = [
        line
        for line in _commands_of(DOCS / "compare.md")
        if line.startswith("mtlrun compare")
    ]
    assert len(lines) == 6
    for number, line in enumerate(lines):
        # The table of this test has fewer labels.
        line = line.replace("--targets-last 27", "--targets-last 3")
        methods = "GraphMTL,SmoothMTL" if "--also-grouped-by" in line else "GraphMTL"
        printed = _run(
            f"{line} --methods {methods} --splits 2 --repeats 1 --folds 2 --output {number} --quiet",
            fails=False,
        )
        assert "GraphMTL" in printed, line


def test_code_is_fenced():
    """Tests find fenced code only."""
    for page in PAGES:
        outside = re.sub(
            r"^```.*?^```$|^\$\$.*?^\$\$$",
            "",
            page.read_text(encoding="utf-8"),
            flags=re.DOTALL | re.MULTILINE,
        )
        loose = re.findall(r"\n\n    (?:mtlrun|python|from|import) [^\n]*", outside)
        assert loose == [], page.name


def test_every_block_of_code_runs_or_states_why_not():
    for page in PAGES:
        # Pages on papers use a table of the reader; their options are checked below.
        if page in TUTORIALS or page.parent.name == "papers":
            continue
        name = str(page.relative_to(ROOT))
        for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            is_code = block["language"] in ("python", "sh", "yaml", "toml")
            is_run = name in RUN.get(block["language"], ())
            has_reason = (block["note"] or "").startswith("not run: ")
            assert not is_code or is_run or has_reason, f"{name}: {block['body']}"


def _run(line, *, fails):
    words = shlex.split(line)
    if words[0] == "python":
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path(words[1])
        return printed.getvalue()
    assert words[0] == "mtlrun", line
    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == (2 if fails else 0), f"{line}\n{result.output}"
    return result.output


def _unprinted(expected, actual):
    """Return the expected lines that were not printed; for a line that ends with dots
    only its start counts.
    """
    lines = {_plain(line) for line in actual.splitlines()}

    def found(line):
        start = line.removesuffix("...").rstrip()
        return (
            not start
            or line in lines
            or (line != start and any(line_.startswith(start) for line_ in lines))
        )

    return [line for line in map(_plain, expected.splitlines()) if not found(line)]


def _plain(line):
    """Return a line with # for each number and single spaces."""
    return " ".join(re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "#", line).split())


def _commands():
    for page in PAGES:
        for code in _CODE.findall(page.read_text(encoding="utf-8")):
            for line in _COMMAND.findall(code):
                for part in re.split(r" && | \| |  +#", line):
                    if part.startswith("mtlrun "):
                        yield page.name, part


def test_commands_and_options_in_the_documents_exist():
    application = typer.main.get_command(app)
    for page, line in _commands():
        words = line.replace("'", "").split()[1:]
        command = application
        while words and hasattr(command, "commands"):
            name = words.pop(0).rstrip(".,:;")
            assert name in command.commands, f"{page}: {line}"
            command = command.commands[name]
        options = {
            option
            for parameter in command.params
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        used = {
            word.partition("=")[0].rstrip(".,:;")
            for word in words
            if re.match(r"--?[a-z]", word)
        }
        assert used <= options | {"--help"}, f"{page}: {line}"
