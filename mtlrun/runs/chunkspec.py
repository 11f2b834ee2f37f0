"""Training files whose data come in chunks: what they may say, and from a file to one that is checked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PrivateAttr, ValidationError

from mtlrun.errors import ConfigError
from mtlrun.record import private_path
from mtlrun.report.checks import Values
from mtlrun.runs.catalogue import find, shown_path
from mtlrun.runs.layers import Layers
from mtlrun.runs.spec import Folds, experiment_id, few_candidates
from mtlrun.utils.yaml import StrictModel, load_file, render, schema_findings


class ChunkColumns(StrictModel):
    """The files of a training, relative to the folder of its file, and what their columns are."""

    files: str
    target: str | None = None
    task: str | None = None
    targets: list[str] = Field(default_factory=list)
    weight: str | None = None
    drop: list[str] = Field(default_factory=list)


class ChunkMethod(StrictModel):
    """Its parameters count for standardized features and targets."""

    estimator: str
    params: dict[str, Any] = Field(default_factory=dict)
    grid: Annotated[dict[str, Values], AfterValidator(few_candidates)] = Field(default_factory=dict)


class ChunkTraining(StrictModel):
    """A training file with a section `data`: a table in chunks. The first fold is tested, the others choose."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    id: Annotated[str, AfterValidator(experiment_id)]
    kind: Literal["train"]
    title: str = ""
    data: ChunkColumns
    method: ChunkMethod
    folds: Annotated[Folds, Field(ge=3)] = 5
    refit: bool = True
    seed: Annotated[int, Field(ge=0)] = 0

    _folder: Path = PrivateAttr(Path())  # of the file

    @property
    def files(self) -> Path:
        """Where the data lie."""
        return self._folder / self.data.files

    @property
    def config(self) -> dict[str, Any]:
        """The same as plain data, which name no folder of the user but as the file writes it."""
        found = self.model_dump(by_alias=True)
        found["data"]["files"] = private_path(self.data.files)
        return found


def chunk_training(target: str, overrides: Iterable[str] = (), seed: int | None = None) -> ChunkTraining | None:
    """Return a training file whose data come in chunks; None for any other file.

    Raises
    ------
    ConfigError
        With all problems of the file, each at its place.
    """
    path = find(target)
    layers = Layers(load_file(path, shown_path(path)))
    if not layers.training or "data" not in layers.data:
        return None
    for text in [*overrides, *([] if seed is None else [f"seed={seed}"])]:
        layers.apply_override(text)
    if isinstance(layers.data.get("method"), str):
        layers.data["method"] = {"estimator": layers.data["method"]}
    spec = None
    try:
        spec = ChunkTraining.model_validate(layers.data)
    except ValidationError as error:
        for place, at_key, message, hint in schema_findings(error, layers.data, ChunkTraining):
            layers.problem(layers.origin(place), message, hint, at_key=at_key)
    if spec is None or layers.problems:
        raise ConfigError(render(layers.problems, layers.document))
    spec._folder = path.parent
    return spec
