"""Write what stands between marks of pages; the text around the marks is kept.

Marks enclose what the papers leave open and what we chose (from the experiment files),
the content of files, and the references of the user guide (from BibTeX files)::

    python scripts/marked_pages.py docs/protocols.md docs/extending.md docs/guide/*.md
"""

from __future__ import annotations

import re
import sys
import textwrap
from functools import cache
from pathlib import Path

from mtlrun.lab.experiment.catalogue import catalogue
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.experiment.spec import FULL, Experiment
from mtlrun.lab.report.sections import format_mapping, format_value

ROOT = Path(__file__).resolve().parents[1]
_CHOICES = re.compile(
    r"<!-- choices: (?P<paper>\S+) -->\n.*?<!-- end of choices -->", re.DOTALL
)
_FILE = re.compile(
    r"<!-- include: (?P<path>\S+) -->\n(?:\n```python\n.*?\n```\n)?", re.DOTALL
)
_REFERENCES = re.compile(
    r"<!-- references: (?P<keys>[\w ]+?) -->\n.*?<!-- end of references -->", re.DOTALL
)
#: References of methods, and those of the guide alone.
BIBLIOGRAPHIES = ("mtlrun/estimators/methods.bib", "docs/references.bib")
#: References with more authors name the first one only.
MAX_AUTHORS = 4
_ENTRY = re.compile(r"^@\w+{(\w+),\n(.*?)^}$", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"(\w+) = {((?:[^{}]|{[^{}]*})*)}")
_PAGE = re.compile(r"docs/(\w+)\.md")
#: Sections of an experiment that are quoted, with the word before each, and what in
#: them does not say much.
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
        The page. ``choices: PAPER`` and ``end of choices`` in comments enclose the
        lists of a paper, which is the first part of the ids of its experiments; behind
        ``include: PATH`` stands the content of a file.

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

    def cited(match: re.Match[str]) -> str:
        keys = match["keys"]
        lines = "".join(f"* {reference(key)}\n" for key in keys.split())
        return f"<!-- references: {keys} -->\n{lines}<!-- end of references -->"

    text = _REFERENCES.sub(cited, text)
    return _FILE.sub(code, _CHOICES.sub(block, text))


@cache
def bibliography() -> dict[str, dict[str, str]]:
    """Return the fields of all references, by key."""
    entries = {}
    for name in BIBLIOGRAPHIES:
        for key, body in _ENTRY.findall((ROOT / name).read_text("utf-8")):
            entries[key] = dict(_FIELD.findall(body))
    return entries


def reference(key: str) -> str:
    """Return a reference as Markdown: authors, title linked to its DOI, where, year.

    Raises
    ------
    ValueError
        If neither file has an entry of this key.
    """
    if key not in bibliography():
        raise ValueError(f"no reference {key!r} in {' or '.join(BIBLIOGRAPHIES)}")
    fields = {
        name: _without_latex(value) for name, value in bibliography()[key].items()
    }
    surnames = [author.split(",")[0] for author in fields["author"].split(" and ")]
    authors = surnames[0]
    if len(surnames) > MAX_AUTHORS:
        authors = f"{surnames[0]} et al."
    elif len(surnames) > 1:
        authors = f"{', '.join(surnames[:-1])} and {surnames[-1]}"
    title = fields["title"]
    if "doi" in fields:
        title = f"[{title}](https://doi.org/{fields['doi']})"
    venue = fields.get("journal") or fields.get("booktitle") or fields["publisher"]
    text = f"{authors} ({fields['year']}). {title}. {venue}."
    wrapped = textwrap.fill(text, 97, break_long_words=False, break_on_hyphens=False)
    return textwrap.indent(wrapped, "  ").lstrip()


def _without_latex(value: str) -> str:
    """Return a field with its accents as letters and without braces."""
    accents = {'\\"a': "ä", '\\"o': "ö", '\\"u': "ü", "\\'e": "é", "\\'a": "á"}
    for written, letter in accents.items():
        value = value.replace(f"{{{written}}}", letter).replace(written, letter)
    return " ".join(value.replace("{", "").replace("}", "").replace("--", "-").split())


def choices(paper: str) -> str:
    """Return the choices of a paper as Markdown: those of several artefacts once,
    then every artefact.
    """
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
        parts.append("\n### In several tables and figures\n\n" + "".join(lines))
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
    """Return a line per reading: its name and reason, and the rule that made one of
    them the main one.
    """
    lines = []
    for name, reading in experiment.spec.readings.items():
        more = "" if reading.plausible else " For comparison; not used in the verdict."
        if reading.main is not None:
            of = f" of {', '.join(reading.main.of)}" if reading.main.of else ""
            more = f" *Main interpretation, by the rule: {reading.main.rule}{of}.* {reading.because or ''}".rstrip()
        lines.append(_item(f"Interpretation `{name}`: {_markdown(reading.why)}{more}"))
    return lines


def _protocol(experiment: Experiment) -> list[str]:
    """Return splits, search, timing and metrics, of the data sets with their own
    too, in one line, or no line.
    """
    spec, config = experiment.spec, dict(experiment.config)
    said = [f"{spec.repeats} repeats"] if spec.repeats > 1 else []
    if spec.sweep:
        values = format_value(list(spec.sweep.values))
        if spec.sweep.split:
            config["split"] = {**config["split"], spec.sweep.split: values}
        else:
            said.append(f"{spec.sweep.name} {values}")
    for name, title in _QUOTED.items():
        section = {
            k: v for k, v in (config.get(name) or {}).items() if k not in _SILENT
        }
        said += [f"{title}: {format_mapping(section)}"] if section else []
    if not spec.is_analysis:
        said.append(
            f"{', '.join(spec.metrics)} averaged over the {'rows' if spec.average == 'sample' else 'tasks'}"
        )
    said += [
        f"for {dataset.name}: {format_mapping(dataset.sections)}"
        for dataset in spec.datasets
        if dataset.sections
    ]
    return [_item(f"Full profile: {'; '.join(said)}.")] if said else []


if __name__ == "__main__":
    main(sys.argv[1:])
