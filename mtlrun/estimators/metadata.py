"""Metadata of a method: on its class, and in the registry. Standard library only."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Default grid of a regularization strength, and of parameters of which fewer values
#: suffice.
STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
#: Strengths per training row, for `Scale.times`
SHRINKAGES = (0.001, 0.005, 0.02, 0.1, 0.4)
POWERS = (0.01, 0.1, 1.0, 10.0, 100.0)
FEW = (0.1, 1.0, 10.0, 100.0)
SPECTRAL_COST = (
    "per iteration one min(d, n) x T singular value thresholding; once an "
    "eigendecomposition of X"
)
BOX_COST = "per iteration one eigendecomposition of min(d, T); once one of X"
SHRINK_COST = "O(N d) to O(d^2 T) per iteration"


@dataclass(frozen=True)
class Scale:
    """The size of a data set, on which sensible regularization strengths depend.

    Attributes
    ----------
    rows : float
        Training rows per task.
    tasks : int
    """

    rows: float
    tasks: int

    def times(self, values: Sequence[float], power: float = 0.0) -> list[float]:
        """Return values times rows times tasks**power, to two digits."""
        return [
            float(f"{value * self.rows * self.tasks**power:.2g}") for value in values
        ]

    def inverse(
        self, values: Sequence[float], power: float = 0.0, factor: float = 1.0
    ) -> list[float]:
        """Return 1 / (factor alpha) for the strengths ``times(values, power)``:
        weights of the loss.
        """
        return [
            float(f"{1 / (factor * alpha):.2g}") for alpha in self.times(values, power)
        ]

    def ratios(self) -> list[float]:
        """Return two prices of the tasks' own part relative to the shared one,
        between 1/sqrt(tasks) and 1.
        """
        return [round((self.tasks**0.5) ** -power, 2) for power in (0.3, 0.7)]


@dataclass(frozen=True, kw_only=True)
class SharedMetadata:
    """Metadata that a class declares and the registry keeps.

    Attributes
    ----------
    losses : sequence of str
        Those the method offers; more than one means a parameter `loss`, from which they
        are then taken.
    multitask : bool
        False for the baselines that learn tasks alone or all tasks as one.
    complexity : str
        Main cost, for n rows (N: of all tasks), d features, T tasks.
    default_grid : dict of str to sequence
        Values to search when a user names none.
    default_params : dict
        Parameters that `build` fills in when they are not given.
    fast : dict
        Parameters under which the same objective is solved fastest, for the selection
        of the others.
    extra : str
        Optional dependency that the method needs (``pip install '.[extra]'``), empty
        for none.
    elsewhere : dict of str to str
        Functions of other packages for the same model, and what their strengths are
        here.
    cite : sequence of str
        Keys into ``methods.bib``.
    changes : sequence of str
        Why the numbers of the method changed, a line for each time: its version is one
        more than their number. Stored results of earlier versions are out of date.
    digits : int, default 6
        Decimal digits to which a fit that is repeated elsewhere must agree (`mtlrun
        verify`).
    alias_of : str
        Method that minimizes the same objective under the name that is preferred, empty
        for none. An alias keeps its parameters and stored results; it is not compared
        by default.
    """

    losses: Sequence[str] = ("squared",)
    multitask: bool = True
    complexity: str = ""
    default_grid: dict[str, Sequence[Any]] = field(default_factory=dict)
    default_params: dict[str, Any] = field(default_factory=dict)
    fast: dict[str, Any] = field(default_factory=dict)
    extra: str = ""
    elsewhere: dict[str, str] = field(default_factory=dict)
    cite: Sequence[str] = ()
    changes: Sequence[str] = ()
    digits: int = 6
    alias_of: str = ""


@dataclass(frozen=True, kw_only=True)
class MethodMetadata(SharedMetadata):
    """Metadata that a class declares (attribute `metadata`) in addition to docstring
    and parameters.

    Attributes
    ----------
    search : callable, optional
        ``search(scale)`` returns the grid of `mtlrun compare` for a data set of that
        `Scale`; default: `default_grid`.
    """

    # A class declares these; for other packages they are unknown without an import.
    cite: Sequence[str] = field()
    complexity: str = field()
    default_grid: dict[str, Sequence[Any]] = field()
    search: Callable[[Scale], dict[str, list[Any]]] | None = None


@dataclass(frozen=True)
class MethodInfo(SharedMetadata):
    """Metadata of a method in the registry, available without importing its code.

    Attributes
    ----------
    name : str
        Name in the registry, equal to the name of the class.
    class_path : str
        ``package.module:Class``.
    summary : str
        First line of its docstring.
    objective : str
        The objective that is minimized, in plain text.
    kind : {"regressor", "classifier"}
        Regressors accept labels -1/+1 as numbers; their predictions are then scores.
    designs : list of str
        Of shared, ragged, masked (a shared design with missing targets).
    parameters : dict
        Name of each constructor parameter -> ``{"default", "keyword_only", "rule"}``,
        the rule as `mtlrun.estimators.params.Rule.plain`, None where only the class can
        check it.
    zero_from : str
        Method of the class that returns the strength from which on all coefficients are
        zero, empty for none.
    source : str
        Short citation.
    """

    name: str
    class_path: str
    summary: str
    objective: str = ""
    kind: str = "regressor"
    designs: list[str] = field(default_factory=list)
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    zero_from: str = ""
    source: str = ""

    @property
    def foreign(self) -> bool:
        """Whether another package brings the method, so that only its name, class
        and package are known here.
        """
        return not self.class_path.startswith("mtlrun.")

    @property
    def bibtex(self) -> str:
        """BibTeX entries of the sources."""
        return "\n".join(references()[key] for key in self.cite)

    def described(self, classifier: MethodInfo | None = None) -> list[tuple[str, str]]:
        """Return what is known about the method, and the classifier that goes with
        it, as names and plain texts.
        """
        grid = "; ".join(
            f"{key}: {', '.join(map(_plain, values))}"
            for key, values in self.default_grid.items()
        )
        kind = self.kind
        losses = list(self.losses)
        if classifier:
            kind += f", and {classifier.name}"
            losses += classifier.losses
        zero_from = ""
        if self.zero_from:
            zero_from = f"{self.zero_from}(X, y)"
        needs = ""
        if self.extra:
            needs = f"pip install '.[{self.extra}]'"
        source = self.source
        if self.cite:
            source += f" ({', '.join(self.cite)})"
        entries = [
            ("Same model as", self.alias_of),
            ("Minimizes", self.objective),
            ("Kind", kind),
            # A loss of both is listed once.
            ("Losses", ", ".join(dict.fromkeys(losses))),
            ("Designs", ", ".join(self.designs)),
            ("Cost", self.complexity),
            ("All zero from", zero_from),
            ("Default grid", grid or "none"),
            ("Class", self.class_path.replace(":", ".")),
            ("Needs", needs),
            ("Source", source),
        ]
        return [(key, text) for key, text in entries if text]


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


@functools.cache
def references() -> dict[str, str]:
    """Return the BibTeX entries of ``methods.bib`` by key."""
    text = Path(__file__).with_name("methods.bib").read_text(encoding="utf-8")
    entries = [f"@{entry.strip()}" for entry in text.split("\n@")]
    entries[0] = entries[0].removeprefix("@")
    return {entry[entry.index("{") + 1 : entry.index(",")]: entry for entry in entries}
