"""How commands compute a plan: with the progress display that fits, and a full disk told as such."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlrun.utils.io import writing

if TYPE_CHECKING:
    from mtlrun.runs.plan import Plan
    from mtlrun.runs.summary import RunSummary

#: What to do when the run folder cannot be written.
NO_ROOM = "Make room, or choose another folder with --output; finished cells are kept."


def compute(
    made: Plan, jobs: int | None, backend: str | None, scheduler: str | None, force: bool, fail_fast: bool, quiet: bool
) -> RunSummary:
    """Run a plan with the progress display that fits.

    Raises
    ------
    UserError
        If the run folder cannot be written.
    """
    from mtlrun.runs.progress import make_progress
    from mtlrun.runs.run import run

    with writing(made.folder, NO_ROOM):
        return run(
            made,
            jobs=jobs,
            backend=backend,
            scheduler=scheduler,
            force=force,
            fail_fast=fail_fast,
            progress=make_progress(quiet=quiet),
        )
