"""Draw the questions of a page as a chart, an SVG inside the page: `python
scripts/docs_chart.py PAGE`.

A question is a heading `## 1. ...?`. Below it stand the answer, `**Yes: ...**`, and the
first block of code, which is what to run. The colours are those of the theme, light or
dark; the width is that of a phone.
"""

from __future__ import annotations

import re
import sys
import textwrap
from html import escape
from pathlib import Path
from typing import NamedTuple

WIDTH, MARGIN = 380, 34
_SECTION = re.compile(
    r"^## (?P<number>\d+)\. (?P<question>.+?)$(?P<body>.*?)(?=^## |\Z)",
    re.DOTALL | re.MULTILINE,
)
_ANSWER = re.compile(r"\*\*Yes: (.+?)\*\*", re.DOTALL)
_CODE = re.compile(r"^```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
STYLE = """
.chart { display: block; width: 100%; max-width: 34rem; margin: 1rem 0; font-family: inherit; }
.chart text { fill: var(--pst-color-text-base, #222); font-size: 15px; }
.chart .answer { font-weight: 600; }
.chart .run { font: 12.5px var(--pst-font-family-monospace, monospace); white-space: pre; }
.chart .way { fill: var(--pst-color-text-muted, #555); font-size: 13px; }
.chart rect { fill: var(--pst-color-background, #fff); stroke: var(--pst-color-border, #999); }
.chart .ask { fill: var(--pst-color-surface, #f3f4f5); stroke: var(--pst-color-primary, #0a7d91); stroke-width: 1.5; }
.chart path { fill: none; stroke: var(--pst-color-text-muted, #555); stroke-width: 1.5; }
"""


class Step(NamedTuple):
    """A question, the answer if it is "yes", and what to run then."""

    number: str
    question: str
    answer: str
    command: str


def steps(page: str) -> list[Step]:
    """Return the questions of a page; one without an answer or without code is an
    error.
    """
    found = []
    for section in _SECTION.finditer(page):
        answer, code = _ANSWER.search(section["body"]), _CODE.search(section["body"])
        if not answer or not code:
            raise ValueError(
                f"'{section['question']}' has no '**Yes: ...**' or no code"
            )
        words = " ".join(answer[1].split()).rstrip(".")
        words = words[0].upper() + words[1:]
        found.append(
            Step(section["number"], section["question"], words, code[1].splitlines()[0])
        )
    return found


def command_lines(command: str, width: int = 40) -> list[str]:
    """Return a command in lines that a shell reads as one: they break before
    options.
    """
    first, *options = re.split(r" (?=--)", command)
    lines = [first]
    for option in options:
        if len(lines[-1]) + len(option) + 3 > width:
            lines[-1] += " \\"
            lines.append(f"  {option}")
        else:
            lines[-1] += f" {option}"
    return lines


def chart(page: str) -> str:
    """Return the chart of a page as SVG, with links to its sections."""
    parts, y, found = [], 2, steps(page)
    for step in found:
        lines = textwrap.wrap(f"{step.number}. {step.question}", 43)
        height = 20 * len(lines) + 14
        parts.append(
            f'<rect class="ask" x="2" y="{y}" width="{WIDTH - 4}" height="{height}" rx="8"/>'
        )
        parts += [
            f'<text x="12" y="{y + 22 + 20 * i}">{escape(line)}</text>'
            for i, line in enumerate(lines)
        ]
        y += height
        parts.append(
            _arrow(MARGIN + 26, y, y + 26)
            + f'<text class="way" x="{MARGIN + 36}" y="{y + 18}">yes</text>'
        )
        top, lines, code = (
            y,
            textwrap.wrap(step.answer, 38),
            command_lines(step.command),
        )
        y += 26
        height = 20 * len(lines) + 18 * len(code) + 18
        parts.append(
            f'<rect x="{MARGIN}" y="{y}" width="{WIDTH - MARGIN - 2}" height="{height}" rx="3"/>'
        )
        inner = "".join(
            f'<text class="answer" x="{MARGIN + 10}" y="{y + 22 + 20 * i}">{escape(line)}</text>'
            for i, line in enumerate(lines)
        )
        parts.append(f'<a href="#{_anchor(step)}">{inner}</a>')
        below = y + 20 * len(lines) + 24
        parts += [
            f'<text class="run" x="{MARGIN + 10}" y="{below + 18 * i}">{escape(line)}</text>'
            for i, line in enumerate(code)
        ]
        y += height
        if step is not found[-1]:
            parts.append(
                _arrow(16, top, y + 24)
                + f'<text class="way" x="22" y="{y + 16}">no</text>'
            )
            y += 24
    return (
        f'<style>{STYLE}</style>\n<svg class="chart" viewBox="0 0 {WIDTH} {y + 4}" role="group" '
        f'aria-label="Chart of the questions below">\n' + "\n".join(parts) + "\n</svg>"
    )


def _arrow(x: int, top: int, end: int) -> str:
    return f'<path d="M{x} {top}V{end - 1}m-4 -6l4 6l4 -6"/>'


def _anchor(step: Step) -> str:
    words = re.sub(r"[^\w\s-]", "", f"{step.number}. {step.question}").lower()
    return re.sub(r"\s", "-", words)


if __name__ == "__main__":
    sys.stdout.write(chart(Path(sys.argv[1]).read_text("utf-8")) + "\n")
