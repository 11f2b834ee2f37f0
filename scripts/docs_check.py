"""Check a built site: `python scripts/docs_check.py site` names broken links, and
what pages load from other hosts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: What a browser fetches by itself; `a` is followed by a person.
LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "link": "href",
}
_STYLE = re.compile(r"url\(\s*['\"]?(?:https?:)?//|@import\s+['\"](?:https?:)?//")


class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element."""
        found = {name: value for name, value in attrs if value is not None}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        place = found.get(LOADS.get(tag, ""))
        if place and found.get("rel") not in ("canonical", "next", "prev"):
            self.loads.append(place)


def _pages(site: Path) -> list[Path]:
    return [
        path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts
    ]  # templates of the theme


def faults(site: Path) -> Iterator[str]:
    """Yield what is wrong: a link or a load that leads nowhere, and loads and styles
    from another host.
    """
    pages = {path: Page(path.read_text("utf-8")) for path in _pages(site)}
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        for place in page.loads:
            if urlsplit(place).netloc:
                yield f"{name} loads {place}"
        for place in [*page.links, *page.loads]:
            parts = urlsplit(place)
            if parts.scheme or parts.netloc:
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            goal = goal / "index.html" if goal.is_dir() else goal
            if not goal.is_file():
                yield f"{name} leads to {place}, which does not exist"
            elif (
                goal in pages
                and (anchor := unquote(parts.fragment))
                and anchor not in pages[goal].anchors
            ):
                yield f"{name} leads to {place}, which has no such place"
    for path in sorted(site.rglob("*.css")):
        if _STYLE.search(path.read_text("utf-8")):
            yield f"{path.relative_to(site).as_posix()} loads from another host"


def main(site: Path) -> int:
    """Print what is wrong; 1 if something is."""
    found = sorted(set(faults(site.resolve())))
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
