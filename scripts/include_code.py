"""Put files into the pages that show them: behind ``<!-- include: PATH -->`` stands the content of PATH.

``python scripts/include_code.py docs/extending.md`` writes the page again. Standard library only.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_BLOCK = re.compile(r"<!-- include: (?P<path>\S+) -->\n(?:\n```python\n.*?\n```\n)?", re.DOTALL)


def included(text: str) -> str:
    """Return a page with the present content of the files that it names."""

    def block(found: re.Match[str]) -> str:
        code = (ROOT / found["path"]).read_text(encoding="utf-8")
        return f"<!-- include: {found['path']} -->\n\n```python\n{code}```\n"

    return _BLOCK.sub(block, text)


def main(pages: list[str]) -> None:
    """Write pages again."""
    for page in map(Path, pages):
        page.write_text(included(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
