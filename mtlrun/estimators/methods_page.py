"""The catalogue of methods as a Markdown page, made from the registry. Standard library only.

``python -m mtlrun.estimators.methods_page docs/methods.md`` writes it; without a file it goes to the terminal.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mtlrun.estimators.methodinfo import MethodInfo
from mtlrun.estimators.registry import METHODS

_HEAD = """# Methods

Made from the registry (`mtlrun/estimators/methods*.py`); do not edit. To bring it up to date:
`python -m mtlrun.estimators.methods_page docs/methods.md`.

W holds the coefficients, one column per task and one row per feature; n rows (N of all tasks), d features, T tasks.
`loss` is the sum over all entries of 1/2 (y - z)^2, log(1 + exp(-yz)) (logistic), 1/2 max(0, 1 - yz)^2 (squared_hinge)
or max(0, 1 - yz) (hinge), without 1/n or 1/T. Intercepts are not penalised. `||.||_*` is the trace norm.
A method with a twin `<name>Classifier` is one model with two faces: the classifier takes any two labels and has a
parameter `loss`. Designs: *shared* (one X for all tasks), *ragged* (every task has rows of its own), *masked* (a shared
X with missing targets).
"All zero from" names the method that returns the strength from which on all coefficients are zero. There is none where
the penalty is quadratic near zero (ridge, graphs, `ClusteredMTL`, `ConvexASO`, covariances, squared norms), because no
strength makes coefficients exactly zero then, and none where the strength multiplies the loss (`RobustMTL`, SVMs).

In a terminal: `mtlrun list methods`, `mtlrun list methods NAME`, `mtlrun list methods --format json` (or `bibtex`).
"""

_INTERNAL = """## Baselines and wrappers of `mtlrun compare`

In no experiment of a paper, hence not in the registry; written as `package.module:Class` they can stand in any file.

| Class | What it does |
| --- | --- |
| `mtlrun.estimators.tabular:TaskMean` | the mean target of the task: what a model must beat |
| `mtlrun.estimators.tabular:TaskFeature` | a scikit-learn estimator on the rows of all tasks, the task as a feature |
| `mtlrun.estimators.tabular:ScaledTargets` | a regressor on targets of mean 0, variance 1 (by task if X is shared) |
| `mtlrun.estimators.calibrated:CalibratedTasks` | probabilities by Platt's sigmoid on cross-validated scores |
"""

# Other packages and what their strengths are here: (package and function, its parameters, ours).
_CONVERSIONS = (
    ("scikit-learn `Lasso(a)`", "`IndependentLasso`, `SparseMTL`", "alpha = n a"),
    ("scikit-learn `MultiTaskLasso(a)`", "`JointFeatureMTL`", "alpha = n a"),
    ("scikit-learn `Ridge(a)`", "`IndependentRidge`", "alpha = a"),
    ("scikit-learn `LogisticRegression(C)`", "`IndependentLogistic`", "alpha = 1 / C"),
    (
        "MALSAR `Least_Lasso`, `Least_L21`, `Least_Trace`",
        "`SparseMTL`, `JointFeatureMTL`, `TraceNormMTL`",
        "alpha = rho1",
    ),
    ("MALSAR `Least_RMTL` (no 1/2)", "`RobustMTL`", "lam = rho2 / rho1, beta = 1 / rho1"),
    ("MALSAR `Least_rMTFL` (no 1/2)", "`RobustFeatureMTL`", "alpha = rho1 / 2, lam = rho2 / rho1"),
    ("MALSAR `Least_Dirty` (no 1/2)", "`DirtyMTL`", "alpha = rho1 / 2, lam = rho2 / rho1"),
    ("MALSAR `Least_SRMTL`", "`GraphMTL`", "alpha = 2 rho1, sparsity = rho2, ridge = 2 rho_L2"),
    ("MALSAR `Least_TGL`", "`TemporalGroupLasso`", "ridge = 2 rho1, smoothness = 2 rho2, alpha = rho3"),
    ("MALSAR `Least_CFGLasso`", "`FusedMTL`", "sparsity = rho1, fusion = rho2, alpha = rho3"),
    ("MALSAR `Least_CMTL`, `Least_CASO`", "`ClusteredMTL`, `ConvexASO`", "alpha = rho1, eta = rho2 / rho1"),
)


def methods_page() -> str:
    """Return the page: an overview, one section per method, strengths of other packages, references."""
    shown = [info for name, info in METHODS.items() if not _is_twin(name)]
    parts = [_HEAD, "## Overview\n", _table(("Method", "What it does", "Source"), [_row(info) for info in shown])]
    parts += [_section(info) for info in shown]
    parts += [_INTERNAL, "## Strengths of other packages\n", _conversions(), _references()]
    return "\n".join(parts)


def main(arguments: list[str]) -> None:
    """Write the page to the file named by the first argument, or to stdout."""
    if arguments:
        Path(arguments[0]).write_text(methods_page(), encoding="utf-8")
    else:
        sys.stdout.write(methods_page())


def _is_twin(name: str) -> bool:
    return name.endswith("Classifier") and name.removesuffix("Classifier") in METHODS


def _row(info: MethodInfo) -> tuple[str, ...]:
    return f"[{info.name}](#{info.name.lower()})", info.summary, info.source


def facts(info: MethodInfo) -> list[tuple[str, str]]:
    """Return what is known about a method (and its twin for classification) as names and plain texts."""
    twin = METHODS.get(f"{info.name}Classifier")
    grid = "; ".join(f"{key}: {_values(values)}" for key, values in info.default_grid.items())
    found = [
        ("Minimises", info.objective),
        ("Kind", info.kind + (f", and {twin.name}" if twin else "")),
        ("Losses", ", ".join(dict.fromkeys((*info.losses, *(twin.losses if twin else ()))))),
        ("Designs", ", ".join(info.designs)),
        ("Cost", info.complexity),
        ("All zero from", f"{info.zero_from}(X, y)" if info.zero_from else ""),
        ("Default grid", grid or "none"),
        ("Class", info.class_path.replace(":", ".")),
        ("Needs", f"pip install 'mtlrun[{info.extra}]'" if info.extra else ""),
        ("Source", f"{info.source} ({info.bibtex_key})"),
    ]
    return [(key, text) for key, text in found if text]


def _section(info: MethodInfo) -> str:
    code = ("Minimises", "All zero from", "Class", "Needs")
    lines = [f"- {key}: {f'`{text}`' if key in code else text}" for key, text in facts(info)]
    return "\n".join([f"## {info.name}\n", f"{info.summary}.\n", *lines]) + "\n"


def _values(values: tuple[object, ...]) -> str:
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def _conversions() -> str:
    text = (
        "MALSAR averages its logistic losses over the rows of a task: with n rows in every task, multiply its "
        "strengths by n. Its `Least_SparseTrace` bounds the trace norm instead of penalising it: no counterpart.\n"
    )
    return _table(("There", "Here", "Strengths"), list(_CONVERSIONS)) + "\n" + text


def _references() -> str:
    entries = {info.bibtex_key: info.bibtex for info in METHODS.values()}
    return "\n".join(["## References\n", "```bibtex", *(entries[key] for key in sorted(entries)), "```", ""])


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    # A bar would end the cell.
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
