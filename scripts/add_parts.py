"""Add the rank of L and the number of outlier tasks to the stored fits of a run.

``python scripts/add_parts.py dcrmtl/wilcoxon/real --seconds 600`` fits the robust models
again whose records lack them, the cheapest first, with the parameters that their search
selected. A record is completed only if the scores agree to the digits that its methods
promise, or if the solver ends after as many iterations at the same objective: AUC counts
scores that differ in their last digits. Nothing else in a record changes, also not its
seconds. An interrupted call continues
where it stopped when it is repeated. ``make pages`` then writes the pages.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import replace
from pathlib import Path

from mtlrun.engine.job import job_from
from mtlrun.engine.record import JobKind, Record
from mtlrun.engine.run import compute_job
from mtlrun.engine.store import Store
from mtlrun.lab.report.frames import ROBUST_PARTS
from mtlrun.lab.report.run import Run, read_run
from mtlrun.lab.results import pack_with_plan
from mtlrun.lab.verify import Trial, agreement_of, estimator_names

ROOT = Path(__file__).resolve().parents[1]
#: Beginning of the names of the estimators that have both parts.
ROBUST = ("RobustMTL", "DivideAndConquerRMTL")


def without_parts(run: Run) -> list[Record]:
    """Return the finished fits of robust models without a rank, the cheapest first."""
    records = []
    for record in run.records.values():
        if record.family != JobKind.FIT or not record.done or "rank" in record.solver:
            continue
        if estimator_names(record.inputs["method"])[0].startswith(ROBUST):
            records.append(record)
    return sorted(records, key=lambda record: record.seconds.fit or 0.0)


def same_descent(record: Record, again: Record) -> bool:
    """Return whether the solver ended after as many iterations at the same objective."""
    first, second = record.solver, again.solver
    same_steps = first["n_iter"] == second["n_iter"]
    return same_steps and math.isclose(
        first["objective"], second["objective"], rel_tol=1e-9
    )


def completed(record: Record) -> Record | None:
    """Return a record with the parts of its model; None if its scores do not agree."""
    job = job_from(record.inputs, record.versions, record.versions)
    selected = record.selection.chosen or {}
    again, _ = compute_job(job.fitted_once(), selected, None)
    trial = Trial(record, {}, digits=agreement_of(record, again))
    if not trial.agrees and not same_descent(record, again):
        return None
    parts = {name: again.solver[name] for name in ROBUST_PARTS if name in again.solver}
    return replace(record, solver={**record.solver, **parts})


def main(arguments: list[str] | None = None) -> int:
    """Complete the records of a run; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="<paper>/<item>/<profile> below results")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args(arguments)
    folder = ROOT / "results" / options.run
    run = read_run(folder)
    store = Store.of_run(folder)
    store.open()
    start = time.monotonic()
    n_different = 0
    try:
        for record in without_parts(run):
            if time.monotonic() - start > options.seconds:
                break
            new = completed(record)
            if new is None:
                n_different += 1
                sys.stdout.write(f"{record.key[:8]}: the scores do not agree\n")
                continue
            store.save(new)
            run.records[record.key] = new
            sys.stdout.write(f"{record.key[:8]}: rank {new.solver['rank']}\n")
            sys.stdout.flush()
    finally:
        pack_with_plan(folder, folder, run, None)
    left = len(without_parts(read_run(folder)))
    sys.stdout.write(f"{options.run}: {left} fits without parts\n")
    return int(n_different > 0)


if __name__ == "__main__":
    sys.exit(main())
