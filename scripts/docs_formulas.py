"""Write the objectives of methods, which docstrings have as plain text, in TeX.

``||w_t||_2`` is a norm, ``'`` a transpose, ``x_ti`` has the indices t and i, and words
of several letters are parameters or English.
"""

from __future__ import annotations

import re

_GREEK = [
    "alpha",
    "beta",
    "gamma",
    "eta",
    "rho",
    "theta",
    "mu",
    "sigma",
    "Sigma",
    "Omega",
]
_SYMBOLS = {
    **{name: rf"\{name}" for name in _GREEK},
    "lam": r"\lambda",
    "lam1": r"\lambda_1",
    "lam2": r"\lambda_2",
    "S1": "S_1",
    "S2": "S_2",
    "s2": "s^2",
    "sum": r"\sum",
    "weight": r"\text{weight}",
    "log": r"\log",
    "exp": r"\exp",
    "max": r"\max",
    "min": r"\min",
    "tr": r"\operatorname{tr}",
    "||": r"\|",
    "<=": r"\leq",
    ">=": r"\geq",
    "<-": r"\leftarrow",
    "~": r"\sim",
    "'": r"^\top",
    "*": r"\cdot",
    "...": r"\ldots",
}
#: A symbol or a function with indices, a word, an index, or anything else.
_TOKEN = re.compile(
    r"""
    (?P<half>1/2)
    | (?P<number>\d+)
    | (?P<base>sum|weight|max|min|alpha|theta|sigma|Sigma|mu|[A-Za-z])
      _(?P<index>\{[^{}]*\}|[A-Za-z0-9]{1,2}\b|mean\b|features\b)
    | (?P<word>[A-Za-z][A-Za-z0-9]*(?:[_-][a-z]+)*)
    | (?P<norm>_[*F0-9])
    | (?P<other><=|>=|<-|\|\||\.\.\.|\S)
    """,
    re.VERBOSE,
)


def tex_of(objective: str) -> str:
    """Return an objective as TeX.

    Parameters
    ----------
    objective : str
        As in `Method.objective`.
    """
    parts: list[str] = []
    words: list[str] = []

    def end_words() -> None:
        text = " ".join(words)
        is_english = " " in text or text in ("where", "then", "loss")
        space = r"\;" if is_english else ""
        if text.startswith(("subject to", "where", "then")):
            # A line of its own.
            parts.append(r"\\")
        if text:
            parts.append(rf"{space}\text{{{text}}}{space}")
        words.clear()

    for token in _TOKEN.finditer(objective):
        word = token["word"]
        # Without an index, "sum" is English.
        is_symbol = word in _SYMBOLS and word not in ("sum", "weight")
        if word and len(word) > 1 and not is_symbol:
            words.append(word)
            continue
        end_words()
        if token["half"]:
            parts.append(r"\frac{1}{2}")
        elif token["base"]:
            index = token["index"].strip("{}")
            if index in ("mean", "features"):
                index = rf"\text{{{index}}}"
            base = token["base"]
            parts.append(f"{_SYMBOLS.get(base, base)}_{{{index}}}")
        else:
            parts.append(_SYMBOLS.get(token[0], token[0]))
    end_words()
    return " ".join(parts)
