"""Time of the line of `mtlrun compare` on similar tables: reading the atlas file, and
the line.

Run with: python benchmarks/tables_like.py [DATASET ...] [--repeats 5]; each measurement
is a new process that has imported the modules of `compare`, but not the atlas.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

CODE = """
import sys, time
import mtlrun.comparison.leaderboard, mtlrun.comparison.verdict, mtlrun.comparison.protocol
import mtlrun.comparison.candidates, mtlrun.chunks.compare, mtlrun.comparison.result
import mtlrun.comparison.differences, mtlrun.comparison.schedule, mtlrun.lab.report.build, mtlrun.engine.fit
from mtlrun.data.sets.load import load_dataset
assert "mtlrun.papers.atlas" not in sys.modules
dataset = load_dataset(sys.argv[1])
started = time.perf_counter(), time.process_time()
from mtlrun.comparison.differences import tables_like
assert tables_like(dataset, 0.8)
print(time.perf_counter() - started[0], time.process_time() - started[1])
"""


def main() -> None:
    """Print the medians of wall and processor time, with minimum and maximum."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "datasets", nargs="*", default=["sleepstudy", "school", "emotions", "scene"]
    )
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    for name in given.datasets:
        runs = [
            subprocess.run(
                [sys.executable, "-c", CODE, name],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout.split()
            for _ in range(given.repeats)
        ]
        for what, values in zip(
            ("wall", "processor"), zip(*runs, strict=True), strict=True
        ):
            seconds = sorted(map(float, values))
            middle = statistics.median(seconds)
            print(
                f"{name:12}{what:10}{middle:8.3f} s ({seconds[0]:.3f} to {seconds[-1]:.3f})"
            )


if __name__ == "__main__":
    main()
