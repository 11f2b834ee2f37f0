"""A data set of the user: a card and its files in a temporary data directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from mtlrun.data.dataset import Dataset
from mtlrun.data.sets.load import load_dataset
from mtlrun.errors import UserError


class OwnSet:
    """Writes a card called `mine` and loads it like a card of the user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "cards").mkdir()
        (folder / "mine").mkdir()

    def write(
        self,
        reader: str,
        files: dict[str, bytes],
        options: dict[str, Any] | None = None,
        task_type: str = "multiclass",
        design: str = "shared",
    ) -> Callable[..., Dataset]:
        """Write the card and its files; return a loader of the data set."""
        for name, content in files.items():
            (self.folder / "mine" / name).write_bytes(content)
        names = [name.removesuffix(".gz").removesuffix(".bz2") for name in files]
        card = {
            "id": "mine",
            "title": "mine",
            "task_type": task_type,
            "design": design,
            "reader": {"name": reader, "options": options or {}},
            "folder": "mine",
            "files": [{"name": name, "sha256": "unknown"} for name in names],
            "licence": "mine",
            "citation": "mine",
        }
        (self.folder / "cards" / "mine.yaml").write_text(yaml.safe_dump(card))
        return lambda **more: load_dataset("mine", data_dir=self.folder, **more)

    def error(
        self,
        reader: str,
        files: dict[str, bytes],
        options: dict[str, Any] | None = None,
        **kind: str,
    ) -> str:
        """Return the message of the error that loading raises, without folders."""
        load = self.write(reader, files, options, **kind)
        with pytest.raises(UserError) as caught:
            load()
        return (
            str(caught.value)
            .replace(f"{self.folder}/mine/", "")
            .replace(f"{self.folder}/cards/", "")
        )


@pytest.fixture
def own_set(tmp_path: Path) -> OwnSet:
    """Return a writer of data sets of the user."""
    return OwnSet(tmp_path)
