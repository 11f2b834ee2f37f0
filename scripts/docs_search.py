"""Check the search of a built site: `python scripts/docs_search.py site` names the
searches of docs/searches.yaml whose page is not among the first results.

The ranking is that of Sphinx's searchtools.js with the scores of
docs/search_scorer.js; both run in a browser only, so they are repeated here.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from sphinx.search.en import SearchEnglish

DOCS = Path(__file__).resolve().parents[1] / "docs"
#: The page that answers a search must be among this many results.
MAX_RANK = 3
#: Sphinx shows entries of an index that are not marked as main ones below all others.
BELOW_ALL = -1000.0
_BONUS = re.compile(r'^  \["([\w/-]*)", (-?\d+)\],', re.MULTILINE)
_SCORE = re.compile(r"^  (\w+): (\d+),", re.MULTILINE)


class Ranking:
    """The order in which the site shows the pages that a search finds.

    Parameters
    ----------
    index : mapping
        Content of searchindex.js.
    scorer : str
        Text of search_scorer.js.
    """

    def __init__(self, index: Mapping[str, Any], scorer: str) -> None:
        self.index = index
        self.bonuses = [(folder, int(n)) for folder, n in _BONUS.findall(scorer)]
        self.scores = {name: int(number) for name, number in _SCORE.findall(scorer)}
        self.language = SearchEnglish({})

    def pages(self, query: str) -> list[str]:
        """Return the names of the pages, best first."""
        best: dict[str, float] = {}
        for file, score in self._matches(query.lower().strip()):
            name = self.index["docnames"][file]
            total = score + self._bonus(name)
            best[name] = max(total, best.get(name, total))
        title_of = dict(zip(self.index["docnames"], self.index["titles"], strict=True))
        return sorted(best, key=lambda name: (-best[name], title_of[name].lower()))

    def _bonus(self, name: str) -> int:
        return next(n for folder, n in self.bonuses if name.startswith(folder))

    def _matches(self, query: str) -> Iterator[tuple[int, float]]:
        """Yield the number of a page and the score of each way to find it."""
        for title, places in self.index["alltitles"].items():
            if _covers(query, title.lower().strip()):
                for file, _ in places:
                    boost = int(self.index["titles"][file] == title)
                    yield (
                        file,
                        round(self.scores["title"] * len(query) / len(title)) + boost,
                    )
        for entry, places in self.index["indexentries"].items():
            if _covers(query, entry):
                for file, _, is_main in places:
                    yield (
                        file,
                        round(100 * len(query) / len(entry))
                        + (0 if is_main else BELOW_ALL),
                    )
        yield from self._objects(query)
        yield from self._terms(query)

    def _objects(self, query: str) -> Iterator[tuple[int, float]]:
        """Yield the pages of classes and functions whose names contain all words."""
        words = query.split()
        for prefix, objects in self.index["objects"].items():
            for file, _, priority, _, name in objects:
                full_name = f"{prefix}.{name}".lower()
                if all(word in full_name for word in words):
                    is_exact = full_name.rpartition(".")[2] in words
                    kind = "objNameMatch" if is_exact else "objPartialMatch"
                    yield file, self.scores[kind] + {0: 15, 1: 5, 2: -5}[priority]

    def _terms(self, query: str) -> Iterator[tuple[int, float]]:
        """Yield the pages that have all words of a search, in text or titles."""
        words = [
            self.language.stem(word)
            for word in re.findall(r"\w+", query)
            if word not in self.language.stopwords and not word.isdigit()
        ]
        found: dict[int, dict[str, int]] = {}
        for word in words:
            for file, score in self._term(word):
                found.setdefault(file, {})[word] = score
        for file, scores in found.items():
            if len(scores) == len(words):
                yield file, max(scores.values())

    def _term(self, word: str) -> Iterator[tuple[int, int]]:
        """Yield the pages of one stemmed word; a later score replaces an earlier one."""
        for terms, exact, partial in (
            ("terms", "term", "partialTerm"),
            ("titleterms", "title", "partialTitle"),
        ):
            index = self.index[terms]
            if word in index:
                for file in _files(index[word]):
                    yield file, self.scores[exact]
            elif len(word) > 2:
                for term, files in index.items():
                    if word in term:
                        for file in _files(files):
                            yield file, self.scores[partial]


def _covers(query: str, entry: str) -> bool:
    """Whether a search is at least half of a title or entry."""
    return query in entry and len(query) >= len(entry) / 2


def _files(files: int | list[int]) -> list[int]:
    return files if isinstance(files, list) else [files]


def faults(ranking: Ranking, searches: Mapping[str, str]) -> Iterator[str]:
    """Yield the searches whose page is not among the first results."""
    for query, page in searches.items():
        pages = ranking.pages(query)
        if page not in pages[:MAX_RANK]:
            first = ", ".join(pages[:MAX_RANK]) or "nothing"
            yield f"search {query!r} shows {first} before {page}"


def main(site: Path) -> int:
    """Print the searches that fail; return 1 if there are some."""
    text = (site / "searchindex.js").read_text("utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    scorer = (DOCS / "search_scorer.js").read_text("utf-8")
    searches = yaml.safe_load((DOCS / "searches.yaml").read_text("utf-8"))["searches"]
    messages = list(faults(Ranking(index, scorer), searches))
    sys.stdout.write("".join(f"{message}\n" for message in messages))
    return int(bool(messages))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
