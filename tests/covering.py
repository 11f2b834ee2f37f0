"""Combinations of arguments in which each value occurs."""

import itertools
import random
from collections import Counter
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


def spread_combinations(
    combinations: Sequence[tuple[int, ...]], n_times: int = 1
) -> set[tuple[int, ...]]:
    """Return a few of the combinations of values, in which each value occurs.

    Next is the combination with most pairs of values that have not occurred together,
    among those one whose positions have an even sum (three arguments with two values
    then meet in all pairs), and among those the one with the rarest values.

    Parameters
    ----------
    combinations : sequence of tuple of int
        Positions of the values of each argument, in all combinations.
    n_times : int, default=1
        Values of the argument with most values occur so many times on average.
    """
    columns = list(zip(*combinations, strict=True))
    n_combinations = n_times * max(len(set(column)) for column in columns)
    uses: Counter[object] = Counter()
    chosen: set[tuple[int, ...]] = set()

    def rank(combination: tuple[int, ...]) -> tuple[int, bool, int]:
        pairs = itertools.combinations(enumerate(combination), 2)
        return (
            sum(not uses[pair] for pair in pairs),
            sum(combination) % 2 == 0,
            -sum(uses[value] for value in enumerate(combination)),
        )

    while len(chosen) < min(n_combinations, len(combinations)):
        best = max((row for row in combinations if row not in chosen), key=rank)
        chosen.add(best)
        uses.update(enumerate(best))
        uses.update(itertools.combinations(enumerate(best), 2))
    for row in combinations:
        if not all(uses[value] for value in enumerate(row)):
            chosen.add(row)
            uses.update(enumerate(row))
    return chosen
