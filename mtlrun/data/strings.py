"""Simulated splice-site windows: strings drawn from position weight matrices, one per organism.

Used where more strings are needed than there are real ones; always called simulated.
"""

from __future__ import annotations

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.errors import DataError

#: A + T content of the background, roughly that of the genomes.
AT_CONTENT = {"fly": 0.58, "mouse": 0.58, "human": 0.59, "cow": 0.58, "worm": 0.64, "cress": 0.64}
BASES = np.frombuffer(b"ACGT", dtype=np.uint8)
LEVELS = 256
#: Bases before the site that lean towards pyrimidines, and bases around the site that carry a consensus.
TRACT, CONSENSUS = 16, 4
_CHUNK = 1 << 16


def simulate_splice(
    *,
    n: int = 20000,
    length: int = 42,
    organisms: tuple[str, ...] | list[str] = ("fly", "mouse", "human", "cow"),
    decoys: int = 10,
    shared: float = 0.75,
    strength: float = 1.0,
    seed: int = 0,
) -> Dataset:
    """Draw acceptor windows and decoys.

    Every window has AG at positions ``(length - 2) // 2`` and the next (20 and 21 of 42). Decoys have background bases
    elsewhere: independent, with the organism's A + T content. Sites draw the base at position p from a position weight
    matrix proportional to ``background * exp(strength * (shared * g[p] + (1 - shared) * h[p]))``: g leans to T and C
    in the 16 bases before the site and to a random consensus in the 4 bases on each side of it, and is the same for all
    organisms; h is made alike, with another consensus for every organism. Probabilities are multiples of 1/256.

    Parameters
    ----------
    n : int, default=20000
        Strings in all; organisms differ by at most one.
    length : int, default=42
        Bases per string, at least 24.
    organisms : list of str
        Tasks; those without a known A + T content get 0.59.
    decoys : int, default=10
        Decoys per site.
    shared : float, default=0.75
        Share of the signal that organisms have in common, 0..1.
    strength : float, default=1.0
        Scale of the signal.
    seed : int, default=0

    Returns
    -------
    Dataset
        Ragged and binary, `X` byte strings, `truth`: ``pwm`` (organisms, length, 4) and ``site``.

    Raises
    ------
    DataError
        If a parameter is out of range.
    """
    _check(n, length, organisms, decoys, shared)
    site = (length - 2) // 2
    pwm = np.stack([_matrix(o, k, length, site, shared, strength, seed) for k, o in enumerate(organisms)])
    sizes = np.full(len(organisms), n // len(organisms)) + (np.arange(len(organisms)) < n % len(organisms))
    X, y = np.empty((n, length), dtype=np.uint8), np.empty(n)
    start = 0
    for k, (organism, size) in enumerate(zip(organisms, sizes, strict=True)):
        generator = np.random.default_rng([seed, 1, k])
        background = _levels(np.tile(_background(organism), (length, 1)))
        signal = _levels(pwm[k])
        for begin in range(start, start + size, _CHUNK):
            rows = slice(begin, min(begin + _CHUNK, start + size))
            positive = generator.random(rows.stop - rows.start) < 1 / (1 + decoys)
            y[rows] = np.where(positive, 1.0, -1.0)
            X[rows] = _draw(generator, positive, signal, background)
        start += size
    X[:, site : site + 2] = np.frombuffer(b"AG", dtype=np.uint8)
    return Dataset(
        X=X.reshape(-1).view(f"S{length}"),
        y=y,
        task_type="binary",
        task_id=np.repeat(np.arange(len(organisms)), sizes),
        tasks=[str(o) for o in organisms],
        truth={"pwm": pwm, "site": np.array(site)},
    )


def _check(n: int, length: int, organisms: tuple[str, ...] | list[str], decoys: int, shared: float) -> None:
    if length < 24:
        raise DataError(f"length must be at least 24, not {length}")
    if not organisms or len(set(organisms)) < len(organisms):
        raise DataError("organisms must be a list of different names")
    if decoys < 1:
        raise DataError(f"decoys must be at least 1, not {decoys}")
    if not 0 <= shared <= 1:
        raise DataError(f"shared must lie between 0 and 1, not {shared}")
    if n < 2 * len(organisms):
        raise DataError(f"n = {n} is too small for {len(organisms)} organisms")


def _background(organism: str) -> np.ndarray:
    at = AT_CONTENT.get(organism, 0.59)
    return np.array([at, 1 - at, 1 - at, at]) / 2


def _matrix(
    organism: str, number: int, length: int, site: int, shared: float, strength: float, seed: int
) -> np.ndarray:
    """Return the position weight matrix (length, 4) of an organism."""
    common = _signal(np.random.default_rng([seed, 0]), length, site)
    own = _signal(np.random.default_rng([seed, 0, number + 1]), length, site)
    weights = _background(organism) * np.exp(strength * (shared * common + (1 - shared) * own))
    return weights / weights.sum(axis=1, keepdims=True)


def _signal(generator: np.random.Generator, length: int, site: int) -> np.ndarray:
    signal = np.zeros((length, 4))
    signal[max(0, site - TRACT) : site, [1, 3]] = (0.5, 0.9)
    for p in (*range(site - CONSENSUS, site), *range(site + 2, site + 2 + CONSENSUS)):
        signal[p, generator.integers(4)] += 1.5
    return signal


def _levels(probabilities: np.ndarray) -> np.ndarray:
    """Return, for every position, the base of each of 256 equally likely levels: (length, 256) uint8."""
    upper = np.round(np.cumsum(probabilities, axis=1) * LEVELS)
    code = (np.arange(LEVELS)[None, :, None] >= upper[:, None, :3]).sum(axis=2)
    return BASES[code]


def _draw(
    generator: np.random.Generator, positive: np.ndarray, signal: np.ndarray, background: np.ndarray
) -> np.ndarray:
    length = signal.shape[0]
    level = generator.integers(LEVELS, size=(len(positive), length), dtype=np.uint8)
    both = np.stack((background, signal))
    # One flat gather: both[class, position, level] for all letters at once.
    flat = positive[:, None].astype(np.int64) * (length * LEVELS) + np.arange(length) * LEVELS + level
    return both.reshape(-1)[flat]
