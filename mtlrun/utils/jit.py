"""How functions are compiled: once per machine, without checks for divisions by zero."""

from numba import njit

#: Decorator of compiled functions.
compiled = njit(cache=True, error_model="numpy")
#: The same for sums whose terms may be reordered (vectorised); NaN and infinities keep their meaning.
summing = njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
