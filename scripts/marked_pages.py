"""Write what stands between marks of pages; the text around the marks is kept.

Marks enclose tables copied from other pages, and the references of the user guide (from
BibTeX files)::

    python scripts/marked_pages.py docs
"""

from __future__ import annotations

import re
import sys
import textwrap
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_REFERENCES = re.compile(
    r"<!-- references: (?P<keys>[\w ]+?) -->\n.*?<!-- end of references -->", re.DOTALL
)
_COPY = re.compile(
    r"<!-- copied: (?P<mark>[^\n]+?) -->\n.*?<!-- end of copy -->", re.DOTALL
)
#: References of methods, and those of the guide alone.
BIBLIOGRAPHIES = ("mtlrun/estimators/methods.bib", "docs/references.bib")
#: References with more authors name the first one only.
MAX_AUTHORS = 4
_ENTRY = re.compile(r"^@\w+{(\w+),\n(.*?)^}$", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"(\w+) = {((?:[^{}]|{[^{}]*})*)}")


def filled(text: str) -> str:
    """Return a page with what belongs between its marks.

    Parameters
    ----------
    text : str
        The page. ``references: KEYS`` and ``end of references`` in comments enclose
        references. Between ``copied: PATH > HEADING > ROWS`` and ``end of copy`` stands
        the first table below a heading of another page, with all rows or those that
        start with one of the names in ``ROWS``. The first words of the heading are
        enough.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If a reference has no entry in the BibTeX files, or a copied table is not there.
    """

    def cited(match: re.Match[str]) -> str:
        keys = match["keys"]
        lines = "".join(f"* {reference(key)}\n" for key in keys.split())
        return f"<!-- references: {keys} -->\n{lines}<!-- end of references -->"

    def copied(match: re.Match[str]) -> str:
        table = copied_table(*match["mark"].split(" > "))
        return f"<!-- copied: {match['mark']} -->\n\n{table}\n\n<!-- end of copy -->"

    text = _REFERENCES.sub(cited, text)
    return _COPY.sub(copied, text)


def copied_table(path: str, heading: str, rows: str = "") -> str:
    """Return the first table below a heading of a page, or some of its rows.

    Raises
    ------
    ValueError
        If the page has no such heading, or no such row in its table.
    """
    page = (ROOT / path).read_text("utf-8")
    section = re.search(
        rf"^#+ {re.escape(heading)}\b.*?\n(.*?)(?=^#|\Z)",
        page,
        re.DOTALL | re.MULTILINE,
    )
    table = section and re.search(r"^\|.*\n(?:\|.*\n)+", section[1], re.MULTILINE)
    if not table:
        raise ValueError(f"{path} has no table below a heading {heading!r}")
    header, rule, *lines = table[0].splitlines()
    if rows:
        by_name = {line.strip("| ").split(" | ")[0]: line for line in lines}
        names = [name.strip() for name in rows.split(",")]
        if absent := [name for name in names if name not in by_name]:
            raise ValueError(f"{path}, {heading}: no row {', '.join(absent)}")
        lines = [by_name[name] for name in names]
    return "\n".join([header, rule, *lines])


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


def main(pages: list[str]) -> None:
    """Write pages, and all pages of folders, again."""
    for path in map(Path, pages):
        for page in sorted(path.rglob("*.md")) if path.is_dir() else [path]:
            text = page.read_text(encoding="utf-8")
            if (new := filled(text)) != text:
                page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
