"""The LaTeX report is well formed, and compiles if LaTeX is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.formats import latex
from mtlrun.show.report_table import Column, ReportTable, escape_tex, tex_grid

RESULTS = Path(__file__).parents[3] / "results"
RUNS = [
    RESULTS / name
    for name in ("dcrmtl/table2/real", "fetr/fig3/quick", "mtmkl/audit/quick")
]
LATEX = shutil.which("pdflatex") or shutil.which("tectonic")
#: Commands of LaTeX and booktabs; no others are allowed.
ALLOWED = {
    *(
        "begin",
        "end",
        "centering",
        "caption",
        "linewidth",
        "textbf",
        "toprule",
        "midrule",
        "bottomrule",
        "pm",
        "times",
        "le",
        "ge",
    ),
    *(
        "textbackslash",
        "textasciitilde",
        "textasciicircum",
        "textless",
        "textgreater",
        "textbar",
        "ldots",
    ),
    *[
        "alpha",
        "beta",
        "gamma",
        "delta",
        "lambda",
        "mu",
        "rho",
        "sigma",
        "tau",
        "omega",
    ],
}
NASTY = r"50% & more_x #1 $5 ~a ^2 \input{/etc/passwd} {b} <c> |d| ± λ ≤ … 漢 %"


def problems(text: str) -> list[str]:
    """Return everything that LaTeX would reject."""
    messages = []
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    body = "\n".join(lines)
    messages += [
        f"unknown command \\{name}"
        for name in re.findall(r"\\([A-Za-z]+)", body)
        if name not in ALLOWED
    ]
    plain = re.sub(r"\\[\\&%$#_{}]", "", body)  # Escaped characters and row ends
    plain = re.sub(r"\$\\[a-z]+\$", "", plain)  # Symbols
    messages += [f"bare {c!r}" for c in "%$#_~^" if c in plain]
    depth = 0
    for c in plain:
        depth += (c == "{") - (c == "}")
        messages += ["a brace is closed that was not open"] * (depth < 0)
    messages += ["a brace stays open"] * (depth > 0)
    stack: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", body):
        if kind == "begin":
            stack.append(name)
        elif not stack or stack.pop() != name:
            messages.append(f"\\end{{{name}}} without its beginning")
    messages += [f"{name} stays open" for name in stack]
    for spec, inside in re.findall(
        r"\\begin\{tabular\}\{(.*?)\}\n(.*?)\\end\{tabular\}", body, flags=re.DOTALL
    ):
        columns = len(re.findall(r"[lrc]|p\{[^}]*\}?", spec))
        rows = [line for line in inside.splitlines() if line.endswith(r"\\")]
        counts = {len(re.findall(r"(?<!\\)&", line)) + 1 for line in rows}
        messages += (
            [f"rows of {sorted(counts)} columns, not {columns}"]
            if counts != {columns}
            else []
        )
    return messages


@pytest.mark.slow
@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: "-".join(folder.parts[-3:]))
def test_tables_of_committed_runs_are_well_formed(folder):
    text = latex(build_report(folder))
    assert problems(text) == []
    assert (
        text.count(r"\begin{tabular}")
        == text.count(r"\toprule")
        == text.count(r"\bottomrule")
        >= 1
    )
    head = [line.lstrip("% ") for line in text.splitlines() if line.startswith("%")]
    assert {
        r"\documentclass{article}",
        r"\usepackage{booktabs}",
        r"\begin{document}",
        r"\end{document}",
    } <= set(head)


@pytest.fixture
def nasty(maker):
    """Return a run whose names contain all special characters of LaTeX."""
    maker.info["title"] = NASTY
    maker.info["methods"] = [NASTY, "plain"]
    maker.info["datasets"] = {NASTY: {"id": NASTY, "title": NASTY}}
    maker.config["claims"] = [
        {"id": "c_1", "text": NASTY, "where": NASTY, "not_testable": NASTY}
    ]
    maker.config["reference"] = [
        {"dataset": NASTY, "method": NASTY, "quantity": "auc", "value": 0.5}
    ]
    for index, method in enumerate((NASTY, "plain")):
        for trial in range(2):
            maker.cell(
                NASTY, method, trial, auc=0.7 + 0.1 * trial, key=f"cell-{index}-{trial}"
            )
    return maker


def test_text_of_users_is_not_interpreted(nasty):
    text = latex(build_report(nasty.write()))
    assert problems(text) == []
    assert r"\input{/etc" not in text
    assert (
        r"50\% \& more\_x \#1 \$5 \textasciitilde{}a \textasciicircum{}2 \textbackslash{}input\{"
        in text
    )


@pytest.mark.parametrize(
    "broken",
    [r"a & b & c \\", r"50% of \\", r"a_1 & b \\", r"{a & b \\", r"\siunitx{a} & b \\"],
)
def test_the_check_detects_mistakes(broken):
    good = tex_grid(ReportTable([Column("x"), Column("y")], [["1", "2"]]))
    assert problems(good) == []
    assert problems(good.replace(r"1 & 2 \\", broken)) != []


def test_a_line_break_or_a_tab_does_not_end_a_row():
    assert escape_tex("a\n\nb\t c") == "a b c"


@pytest.mark.skipif(LATEX is None, reason="no LaTeX on this machine")
def test_the_report_compiles(nasty, tmp_path):
    report = tmp_path / "report.tex"
    head = [
        line[1:].strip()
        for line in latex(build_report(nasty.write())).splitlines()
        if line.startswith("%")
    ]
    (tmp_path / "all.tex").write_text(
        "\n".join(head[head.index(r"\documentclass{article}") :]) + "\n"
    )
    options = (
        []
        if LATEX.endswith("tectonic")
        else ["-interaction=nonstopmode", "-halt-on-error"]
    )
    for folder in [nasty.folder, *RUNS]:
        report.write_text(latex(build_report(folder)), encoding="utf-8")
        done = subprocess.run(
            [LATEX, *options, "all.tex"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{folder}: {done.stdout[-2000:]}"


@pytest.mark.slow
def test_a_transposed_table_has_the_same_numbers_and_is_well_formed():
    report = build_report(RUNS[0])
    upright, turned = (
        latex(report, transpose=transpose, metrics=["auc"])
        for transpose in (False, True)
    )
    for text in (upright, turned):
        assert problems(text) == []
    numbers = [
        sorted(re.findall(r"0\.\d{4}", text.partition(r"\midrule")[2]))
        for text in (upright, turned)
    ]
    assert numbers[0]
    assert numbers[0] == numbers[1]
    assert "LADM-RMTL &" in (upright + turned)
