"""What stands between marks of pages: what the papers leave open and what we chose, made from the experiment files, and
the content of files.

``python scripts/marked_pages.py docs/protocols.md docs/extending.md`` writes it again; the text around it is kept.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

from mtlrun.lab.catalogue import catalogue
from mtlrun.lab.load import load_experiment
from mtlrun.lab.report.sections import facts, value_text
from mtlrun.lab.spec import FULL, Experiment

ROOT = Path(__file__).resolve().parents[1]
_CHOICES = re.compile(
    r"<!-- choices: (?P<paper>\S+) -->\n.*?<!-- end of choices -->", re.DOTALL
)
_FILE = re.compile(
    r"<!-- include: (?P<path>\S+) -->\n(?:\n```python\n.*?\n```\n)?", re.DOTALL
)
_PAGE = re.compile(r"docs/(\w+)\.md")
#: Sections of an experiment that are quoted, with the word before each, and what in them does not say much.
_QUOTED = {
    "split": "split",
    "selection": "parameter search",
    "timing": "timing",
    "limits": "limits",
}
_SILENT = ("warmup",)


def filled(text: str) -> str:
    """Return a page with what belongs between its marks.

    Parameters
    ----------
    text : str
        The page. ``choices: PAPER`` and ``end of choices`` in comments enclose the lists of a paper, which is the first
        part of the ids of its experiments; behind ``include: PATH`` stands the content of a file.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the page names a paper without experiments.
    """

    def block(found: re.Match[str]) -> str:
        return f"<!-- choices: {found['paper']} -->\n{choices(found['paper'])}<!-- end of choices -->"

    def code(found: re.Match[str]) -> str:
        content = (ROOT / found["path"]).read_text(encoding="utf-8")
        return f"<!-- include: {found['path']} -->\n\n```python\n{content}```\n"

    return _FILE.sub(code, _CHOICES.sub(block, text))


def choices(paper: str) -> str:
    """Return the choices of a paper as Markdown: those of several artefacts once, then every artefact."""
    experiments = [
        load_experiment(entry.id, profile=FULL)
        for entry in catalogue()
        if entry.kind != "train" and entry.id.split("/")[0] == paper
    ]
    if not experiments:
        raise ValueError(f"no experiments of the paper {paper!r}")
    homes: dict[str, list[str]] = {}
    for experiment in experiments:
        for line in experiment.spec.deviations:
            homes.setdefault(line, []).append(experiment.id)
    shared = {line: ids for line, ids in homes.items() if len(ids) > 1}
    parts = []
    if shared:
        lines = [
            _item(f"{_markdown(line)} ({_names(ids, len(experiments))})")
            for line, ids in shared.items()
        ]
        parts.append("\n### In several artefacts\n\n" + "".join(lines))
    for experiment in experiments:
        lines = [
            _item(_markdown(line))
            for line in experiment.spec.deviations
            if line not in shared
        ]
        parts += [
            f"\n### `{experiment.id}`\n\n{textwrap.fill(experiment.spec.title, 100)}\n\n",
            *_protocol(experiment),
            *_readings(experiment),
            *lines,
        ]
    return "".join(parts) + "\n"


def main(pages: list[str]) -> None:
    """Write pages again."""
    for page in map(Path, pages):
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


def _names(ids: list[str], of: int) -> str:
    return (
        "all" if len(ids) == of else ", ".join(name.partition("/")[2] for name in ids)
    )


def _markdown(line: str) -> str:
    return _PAGE.sub(r"[\1](\1.md)", line.replace("*", "\\*"))


def _item(text: str) -> str:
    """Return an item of a list, wrapped."""
    wrapped = textwrap.fill(text, 97, break_long_words=False, break_on_hyphens=False)
    return f"- {textwrap.indent(wrapped, '  ').lstrip()}\n"


def _readings(experiment: Experiment) -> list[str]:
    """Return a line per reading: its name and reason, and the rule that made one of them the main one."""
    lines = []
    for name, reading in experiment.spec.readings.items():
        more = "" if reading.plausible else " For comparison; not used in the verdict."
        if reading.main is not None:
            of = f" of {', '.join(reading.main.of)}" if reading.main.of else ""
            more = f" *Main reading, by the rule: {reading.main.rule}{of}.* {reading.because or ''}".rstrip()
        lines.append(_item(f"Reading `{name}`: {_markdown(reading.why)}{more}"))
    return lines


def _protocol(experiment: Experiment) -> list[str]:
    """Return splits, search, timing and metrics, of the data sets with their own too, in one line, or no line."""
    spec, config = experiment.spec, dict(experiment.config)
    said = [f"{spec.repeats} repeats"] if spec.repeats > 1 else []
    if spec.sweep:
        values = value_text(list(spec.sweep.values))
        if spec.sweep.split:
            config["split"] = {**config["split"], spec.sweep.split: values}
        else:
            said.append(f"{spec.sweep.name} {values}")
    for name, title in _QUOTED.items():
        section = {
            k: v for k, v in (config.get(name) or {}).items() if k not in _SILENT
        }
        said += [f"{title}: {facts(section)}"] if section else []
    if not spec.measures:
        said.append(
            f"{', '.join(spec.metrics)} averaged over the {'rows' if spec.average == 'sample' else 'tasks'}"
        )
    said += [
        f"for {dataset.name}: {facts(dataset.own)}"
        for dataset in spec.datasets
        if dataset.own
    ]
    return [_item(f"Full profile: {'; '.join(said)}.")] if said else []


if __name__ == "__main__":
    main(sys.argv[1:])
