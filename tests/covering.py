"""Combinations of arguments in which each value occurs."""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence


def covering_combinations(
    values: Mapping[str, Sequence[object]],
    n_times: int = 1,
    is_complete: Callable[[object], bool] = lambda value: False,
) -> list[tuple[object, ...]]:
    """Return combinations of arguments in which each value occurs.

    Parameters
    ----------
    values : mapping of str to sequence
        Values of each argument.
    n_times : int, default=1
        Each value occurs at least so many times.
    is_complete : callable
        Whether a value is combined with all values of the other arguments.

    Returns
    -------
    list of tuple
        As many as `n_times` the longest sequence has values, and those of complete
        values. They are the same in each run.
    """
    n_combinations = n_times * max(map(len, values.values()))
    columns = []
    for argument, options in values.items():
        # Shuffled blocks, so that any two arguments meet in many ways.
        shuffled = random.Random(argument)
        column: list[object] = []
        while len(column) < n_combinations:
            column += shuffled.sample(options, len(options))
        columns.append(column[:n_combinations])
    combinations = [
        combination
        for combination in zip(*columns, strict=True)
        if not any(map(is_complete, combination))
    ]
    for combination in itertools.product(*values.values()):
        if any(map(is_complete, combination)):
            combinations.append(combination)
    return combinations
