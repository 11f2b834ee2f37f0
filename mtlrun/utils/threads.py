"""Threads of the libraries below (BLAS, OpenMP): how many they may use while something is computed."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

#: Products of matrices of at most so many columns, one after the other, are slower with threads: starting them takes
#: longer than the product, and on a busy machine they wait for each other.
SMALL = 256


@lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:
    return ThreadpoolController()


def limited_threads(limit: int, api: str | None = None) -> Any:
    """Return a context that limits the threads of the libraries that are loaded.

    Looking for libraries takes longer than a small fit; they are looked for again when a module was imported.

    Parameters
    ----------
    limit : int
    api : {"blas", "openmp"}, optional
        Of these libraries only.
    """
    return _controller(len(sys.modules)).limit(limits=limit, user_api=api)


def one_thread_if_small(columns: int) -> Any:
    """Return a context in which BLAS has one thread where matrices of so many columns are multiplied faster by it.

    Parameters
    ----------
    columns : int
        With more than `SMALL` nothing is limited.
    """
    return limited_threads(1, "blas") if columns <= SMALL else nullcontext()
