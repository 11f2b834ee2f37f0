"""An experiment that is ready to be planned, whatever it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtlrun.runs.schema import ExperimentSpec
from mtlrun.utils.yaml import KeyPath

#: The profile that is the file as it stands; it need not be declared.
FULL = "full"


@dataclass(frozen=True)
class Experiment:
    """An experiment with one profile and all overrides applied.

    Attributes
    ----------
    spec : ExperimentSpec
        Validated.
    config : dict
        The same as plain data, as `run.json` holds it: names of grids replaced by their values, no profiles.
    profile : str
    profiles : tuple of str
        All profiles of the file.
    overrides : tuple of str
        ``key=value`` as given, the seed included.
    origins : dict
        Path -> text that says where the value came from; what is missing is a default.
    source : str
        The file, as messages call it.
    paper_datasets : tuple of str
        Ids of the data sets that the file names before a profile changes them.
    """

    spec: ExperimentSpec
    config: dict[str, Any]
    profile: str
    profiles: tuple[str, ...]
    overrides: tuple[str, ...]
    origins: Mapping[KeyPath, str]
    source: str
    paper_datasets: tuple[str, ...]

    @property
    def id(self) -> str:
        """``<paper>/<artefact>``."""
        return self.spec.id

    def folder(self, output: Path | str) -> Path:
        """Return the run folder below an output folder."""
        return Path(output) / self.spec.id / self.profile

    def origin(self, path: KeyPath) -> str:
        """Return where a value came from; a text that became a mapping (a data set's id) speaks for what is in it."""
        if path in self.origins:
            return self.origins[path]
        parent = path[:-1]
        given_whole = parent in self.origins and not any(
            len(p) > len(parent) and p[:-1] == parent for p in self.origins
        )
        return self.origins[parent] if parent and given_whole else "default"
