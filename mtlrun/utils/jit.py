"""How functions are compiled: when one is called first, and kept on disk where there is
a place for it.

numba itself is imported then: models that need no compiled code do not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Compiled(Generic[P, R]):
    """A function that is compiled when it is called first.

    Compiled functions that call each other must be compiled ones to numba: the first
    call puts them in the place of all `Compiled` in the modules that it reaches.
    """

    def __init__(self, function: Callable[P, R], options: dict[str, Any]) -> None:
        self.function = function
        self.options = options
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__wrapped__ = function
        self._compiled: Callable[P, R] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.make()(*args, **kwargs)

    def make(self) -> Callable[P, R]:
        """Return the function as numba knows it."""
        if self._compiled is None:
            from numba import njit

            from mtlrun.utils.jitcache import folder_of_machine_code

            with folder_of_machine_code(self.__module__) as has_folder:
                compiler: Any = njit(
                    error_model="numpy", cache=has_folder, **self.options
                )
                self._compiled = compiler(self.function)
            names = self.function.__globals__
            for name, value in list(names.items()):
                if isinstance(value, Compiled):
                    names[name] = value.make()
        return self._compiled


def compiled(function: Callable[P, R]) -> Compiled[P, R]:
    """Compile a function, without checks for divisions by zero."""
    return Compiled(function, {})


def inner(function: Callable[P, R]) -> Compiled[P, R]:
    """Compile a function that only compiled ones call, without what Python needs to
    call it: in half of the time.
    """
    return Compiled(function, {"no_cpython_wrapper": True, "no_cfunc_wrapper": True})


def summing(function: Callable[P, R]) -> Compiled[P, R]:
    """Compile a function whose sums may be reordered (vectorized); NaN and
    infinities keep their meaning.
    """
    return Compiled(function, {"fastmath": {"reassoc", "contract", "nsz"}})


def comparing(function: Callable[P, R]) -> Compiled[P, R]:
    """Compile a function that meets no NaN: largest values are vectorized, too."""
    return Compiled(function, {"fastmath": {"reassoc", "contract", "nsz", "nnan"}})
