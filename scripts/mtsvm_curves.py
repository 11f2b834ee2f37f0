"""Write ``configs/mtsvm/curves/fig1.yaml``: the curves of a run of ``mtsvm/fig1``.

``python scripts/mtsvm_curves.py results/mtsvm/fig1/quick`` writes the function
differences of the printed algorithm and of both kernel solvers under the main
interpretation, which the item ``mtsvm/phases`` reads.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mtlrun.lab.report.run import Run, read_run, results_of
from mtlrun.papers.mtsvm.audit import OUR_CURVES
from mtlrun.utils.io import configs_dir

#: Solvers whose curves are kept.
SOLVERS = ("DCD as printed", "MTK with intercept", "MTK")
#: Name of the curve in a record; of kernel solvers that of the dual objective.
CURVE = "function difference"


def numbers(values: list[float]) -> str:
    """Return a list of numbers with four digits, as a YAML list."""
    return "[" + ", ".join(f"{value:.4g}" for value in values) + "]"


def curves_text(run: Run) -> str:
    """Return the content of the file."""
    lines = [
        "# Function differences over seconds in our run of mtsvm/fig1 under its main",
        "# interpretation: of DCD the primal, of kernel solvers the dual objective.",
        "# Made by scripts/mtsvm_curves.py.",
        "curves:",
    ]
    for label in run.datasets:
        for solver in SOLVERS:
            (record,) = results_of(run, label, solver)
            curve = record.result["curves"][CURVE]
            lines += [
                f"  - dataset: {label}",
                f"    method: {solver}",
                f"    name: {CURVE}",
                f"    x: {numbers(curve['x'])}",
                f"    y: {numbers(curve['y'])}",
                "    source: our run of mtsvm/fig1",
            ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the file; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="folder of a run of mtsvm/fig1")
    options = parser.parse_args(arguments)
    path = configs_dir() / OUR_CURVES
    path.write_text(curves_text(read_run(options.run)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
