"""Words and bars of docstrings, as the site shows them.

Apart from the configuration of Sphinx, so that tests need no Sphinx.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


def plain_words(lines: Sequence[str]) -> list[str]:
    """Return the lines of a docstring with plain words and bars.

    References inherited from scikit-learn become their words, and a bar, as in an
    absolute value, is escaped, because reStructuredText reads it as a substitution.
    Code in backquotes and formulas that are set apart by ``::`` stay as they are.
    """
    plain = list(lines)
    literal = -1  # columns that a formula set apart is indented beyond
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent <= literal:
            literal = -1
        if literal < 0:
            line = re.sub(r":(?:ref|term):`([^`<]*?)\s*(?:<[^`]*>)?`", r"\1", line)
            parts = re.split(r"(``.*?``|`[^`]*`)", line)
            plain[i] = "".join(
                part if part[:1] == "`" else part.replace("|", "\\|") for part in parts
            )
            literal = indent if line.rstrip().endswith("::") else -1
    return plain
