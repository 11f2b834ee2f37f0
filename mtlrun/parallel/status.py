"""Statuses of work items."""

from __future__ import annotations

#: Statuses of a job. Jobs with the first two are done; the others are computed again.
OK = "ok"


NOT_CONVERGED = "not_converged"


FAILED = "failed"


TIMEOUT = "timeout"


DIVERGED = "diverged"


DONE = (OK, NOT_CONVERGED)
