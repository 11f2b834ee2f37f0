"""Ranges of numbers that are accepted: one policy for reading data, fitting models and reading results.

Solvers square what they get: beyond about 1e154 a square is infinite, below about 1e-154 it vanishes. What comes out is
an error deep inside or, worse, a model that has not seen the column.
"""

#: Largest absolute value of any number that is read, from data or from results.
LARGEST = 1e150
#: A column that is read must be zero or contain a number of at least this absolute value.
SMALLEST = 1e-150
#: Largest absolute value of X before fitting: next to the square of 1e15 an intercept has no digits left.
LARGEST_X = 1e15
#: Largest absolute value of y before fitting: its square must be a float even after summing.
LARGEST_Y = 1e60
#: The largest entry of X or y must be zero or at least this large before fitting.
SMALLEST_FITTED = 1e-75
