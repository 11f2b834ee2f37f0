"""A custom data set: a table and its data card in the data directory."""

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd

from mtlrun.data.sets.load import load_dataset

CARD = """\
schema: 1
id: plants
title: Heights of plants in four gardens (simulated)
task_type: regression
design: ragged
reader:
  name: csv
  options: {{target: height, task: garden}}
folder: plants
files:
  - name: plants.csv
    sha256: {sha256}
    bytes: {size}
license: CC0
citation: none
"""


def make(folder: Path) -> Path:
    """Write ``plants/plants.csv`` and its card ``cards/plants.yaml`` into a data
    directory.
    """
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"sun": rng.normal(size=80), "water": rng.normal(size=80)})
    table["garden"] = np.repeat(["east", "north", "south", "west"], 20)
    table["height"] = table["sun"] + 2 * table["water"] + 0.3 * rng.normal(size=80)
    content = table.to_csv(index=False).encode()
    card = CARD.format(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    for path, text in (
        ("plants/plants.csv", content),
        ("cards/plants.yaml", card.encode()),
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text)
    return folder


def main(folder: str = "my-data") -> object:
    """Create the data set and load it by name."""
    data = load_dataset("plants", data_dir=make(Path(folder)))
    print(
        f"{data.title}: {data.n_samples} rows, {data.n_features} features, tasks {', '.join(data.tasks)}"
    )
    return data


if __name__ == "__main__":
    main()
