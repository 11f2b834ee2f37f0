"""Which methods `compare` tries by default, with which parameters, grids and tolerances.

They depend on the kind and the size of the table. Nothing is fitted:
``python tests/comparison/test_default_methods.py --write`` stores those of the present
code.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mtlrun.comparison.candidates import core, default_candidates
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles

STORED = Path(__file__).with_name("default_methods.json")
#: Name -> tasks, rows of a task, columns, whether targets are labels, share of training
#: rows. One task: two targets on the same rows.
TABLES = {
    "tasks of numbers": (5, 40, 3, False, 0.8),
    "small tasks of numbers": (6, 62, 3, False, 0.5),
    "large tasks of numbers": (2, 1300, 1, False, 0.8),
    "wide tasks of numbers": (2, 50, 60, False, 0.8),
    "tasks of labels": (5, 40, 3, True, 0.8),
    "targets": (1, 60, 4, False, 0.8),
    "labels": (1, 60, 4, True, 0.8),
}


def dataset(n_tasks, n_rows, n_columns, has_labels):
    rng = np.random.default_rng(0)
    n = n_tasks * n_rows
    frame = pd.DataFrame(rng.normal(size=(n, n_columns))).add_prefix("x")
    targets = ["y", "z"] if n_tasks == 1 else ["y"]
    for target in targets:
        frame[target] = rng.normal(size=n)
        if has_labels:
            frame[target] = np.where(frame[target] > 0, "yes", "no")
    task = None
    if n_tasks > 1:
        task = "task"
        frame[task] = np.repeat([f"t{k}" for k in range(n_tasks)], n_rows)
    return make_dataset(table_of_frame(frame), Roles(targets=tuple(targets), task=task))


def methods(name):
    """Return the methods of a table by their labels, and those computed first."""
    *shape, train = TABLES[name]
    candidates = default_candidates(dataset(*shape), train)
    by_label = {candidate.label: asdict(candidate) for candidate in candidates}
    first = [candidate.label for candidate in core(candidates)]
    return json.loads(json.dumps({"methods": by_label, "first": first}, default=float))


@pytest.mark.parametrize("name", TABLES)
def test_the_default_methods_have_the_stored_parameters_and_grids(name):
    stored = json.loads(STORED.read_text())[name]
    present = methods(name)
    assert list(present["methods"]) == list(stored["methods"])
    assert present["first"] == stored["first"]
    for label, candidate in present["methods"].items():
        assert candidate == stored["methods"][label], label


if __name__ == "__main__" and "--write" in sys.argv:
    text = json.dumps({name: methods(name) for name in TABLES}, separators=(",", ":"))
    # A line for each method.
    STORED.write_text(text.replace('},"', '},\n"') + "\n")
