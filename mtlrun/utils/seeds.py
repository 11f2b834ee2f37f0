"""Seeds that belong to what they are used for. Standard library only."""

from __future__ import annotations

import hashlib


def derive_seed(base: int, *names: object) -> int:
    """Return a seed that depends on the base seed and these names alone.

    Adding a method or a data set therefore changes nobody else's numbers.

    Parameters
    ----------
    base : int
        Seed of the experiment.
    *names : object
        What the seed belongs to: data set, trial, purpose. Their texts count.

    Returns
    -------
    int
        In [0, 2**32).
    """
    text = "\x1f".join([str(base), *(str(name) for name in names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
