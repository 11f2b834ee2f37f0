"""Graph-regularized SVM: our solver against the paper's form, LIBSVM with the
multi-task kernel, and LIBLINEAR.

Similarity of the tasks: all ones plus the identity. One process, one core; CPU seconds,
best of the repeats, without compilation. C = 10 and splice windows with weighted-degree
features (degree 8), not normalized, as in the published runs; pixels / 255.

* forms: step (exact, printed) x form (block, example by example), and `fast` (bolder
  shrinking, exact steps for free support vectors), to a certified relative gap of 1e-4.
  Random orders, shrinking otherwise, certificates are the same.
* mtk: SVMs with the multi-task kernel, to a relative duality gap of 1e-4: our own
  without intercept, which solves the problem of coordinate ascent; LIBSVM with an
  intercept (a problem of its own); and LIBSVM without one, for which it is given every
  row twice, (x, y) and (-x, -y) with C/2 each. LIBSVM gets the loosest sufficient
  tolerance of a list (which it cannot know); its seconds include the kernel matrix or
  the features. All are CPU seconds. ">": not reached before the limit.
* landmine: seconds until the primal is within 1e-6 of the optimum, which is known.
* liblinear: one task, C = 1, normalized strings; ours stops when its objective is not
  above LinearSVC's.
* strings: simulated strings of 42 letters, 4 tasks, C = 1, to a relative gap of 1e-2, a
  line per certificate; peak memory of the process. The large run: ``--only strings
  --strings 6400000 141 --C 10 --limit 3600``.

The data must be in MTLRUN_DATA. ``--quick`` uses fewer rows and fewer competitors.
"""

import argparse
import resource
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse, vstack
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from mtlrun.data.dataset import Dataset
from mtlrun.data.sets.load import load_dataset
from mtlrun.features import WeightedDegree
from mtlrun.papers.mtsvm.runs import TOLERANCES, solve_kernel, task_data, warm_up
from mtlrun.penalties.graph import TaskCoupling, check_similarity, couple_tasks
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.svm.kernel import (
    augmented_features,
    certify_kernel,
    kernel_matrix,
    matrix_pays,
    run_libsvm,
    stored,
)
from mtlrun.solvers.svm.linear import solve_block_dcd, solve_svm_newton

TOL = 1e-4
LANDMINE_OPTIMUM = 96345.857984233
PANELS = ("landmine", "mnist", "gauss2d", "splice")


def seconds(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Return the least CPU seconds of the repeats and the last answer."""
    best, answer = np.inf, None
    for _ in range(repeats):
        begun = time.process_time()
        answer = work()
        best = min(best, time.process_time() - begun)
    return best, answer


def load(panel: str, rows: int | None) -> Dataset:
    """Return a data set, cut to some random rows."""
    variant = "mtsvm-9000" if panel == "mnist" else None
    id = "splice-windows" if panel == "splice" else panel
    dataset = load_dataset(id, variant=variant, sample=rows)
    if panel == "mnist":
        dataset.X = dataset.X / 255
    return dataset


def complete(data: TaskData) -> TaskCoupling:
    """Return the coupling of the published runs."""
    return couple_tasks(check_similarity("all", data.tasks))


def line(*cells: object) -> None:
    """Print a row of the table."""
    print(
        "".join(f"{cell:>18}" if k else f"{cell:34}" for k, cell in enumerate(cells)),
        flush=True,
    )


def time_forms(
    sizes: dict[str, int | None], repeats: int, panels: Sequence[str]
) -> None:
    """Print the ablation."""
    line("forms: gap 1e-4", "s", "iterations", "paper / this")
    variants = [
        ("example", "printed", False),
        ("example", "exact", False),
        ("block", "printed", False),
    ]
    variants += [("block", "exact", False), ("block", "exact", True)]
    for panel in panels:
        dataset = load(panel, sizes[panel])
        data = task_data(dataset)
        coupling, slowest = complete(data), None
        for form, step, fast in variants:
            options = {"form": form, "step": step, "fast": fast, "max_iter": 10**6}
            fit = partial(solve_block_dcd, data, coupling, C=10.0, tol=TOL, **options)
            took, result = seconds(fit, 1 if slowest is None else repeats)
            slowest = took if slowest is None else slowest
            name = f"{panel} {form}/{step}{' fast' if fast else ''}"
            line(name, f"{took:.3f}", result.n_iter, f"{slowest / took:.1f}")


def time_mtk(
    sizes: dict[str, int | None], repeats: int, limit: float, panels: Sequence[str]
) -> None:
    """Print the comparison of kernel solvers; LIBSVM is stopped after about `limit`
    seconds for all tolerances.
    """
    names = ("kernel, ours", "LIBSVM, intercept", "LIBSVM, mirrored")
    line("mtk: relative gap 1e-4, s", "coordinate ascent", *names)
    for panel in panels:
        dataset = load(panel, sizes[panel])
        data = task_data(dataset)
        coupling = complete(data)
        ours, _ = seconds(
            partial(solve_block_dcd, data, coupling, C=10.0, tol=TOL), repeats
        )
        kernel, _ = seconds(partial(solve_kernel, data, coupling, 10.0, TOL), repeats)
        theirs = [
            libsvm_seconds(data, coupling, 10.0, mirrored, limit)
            for mirrored in (False, True)
        ]
        line(f"{panel} n={len(dataset.y)}", f"{ours:.3f}", f"{kernel:.2f}", *theirs)


def libsvm_seconds(
    data: TaskData, coupling: TaskCoupling, C: float, mirrored: bool, limit: float
) -> str:
    """Return the CPU seconds of the first of some runs that is precise enough."""
    designs = [data.task(t)[0] for t in range(data.n_tasks)]
    whole = matrix_pays(np.inf if hasattr(data.X, "rows") else data.n_features)
    made, Z = seconds(
        lambda: double(
            (kernel_matrix if whole else augmented_features)(designs, coupling),
            mirrored,
        )
    )
    written = [stored(X) for X in designs]
    y, cost = data.targets, np.full(len(data.targets), C)
    if mirrored:
        y, cost = np.append(y, -y), np.append(cost, cost) / 2
    spent = 0.0
    for tol in (*TOLERANCES, 1e-8, 1e-10):
        took, (alpha, b, *_) = seconds(
            partial(run_libsvm, Z, y, cost, tol=tol, cache_size=2000)
        )
        if mirrored:
            alpha, b = alpha.reshape(2, -1).sum(axis=0), 0.0
        point = certify_kernel(
            written, coupling, data.targets, np.full(len(data.targets), C), alpha, b
        )
        spent += took
        if point.gap <= TOL * max(1.0, point.primal):
            return f"{made + took:.2f}"
        if spent + 2 * took > limit:
            break
    return f"> {made + took:.2f}"


def double(Z: Any, mirrored: bool) -> Any:
    """Return the kernel matrix or the rows of every row x and then every row -x."""
    if not mirrored:
        return Z
    if not issparse(Z):
        return np.block([[Z, -Z], [-Z, Z]])
    both = csr_array(vstack([Z, -Z], format="csr"))
    both.indices, both.indptr = (
        both.indices.astype(np.int32),
        both.indptr.astype(np.int32),
    )
    return both


def time_landmine(repeats: int) -> None:
    """Print the seconds to a primal within 1e-6 of the optimum."""
    line("landmine, C=10: excess 1e-6", "s", "excess", "gap")
    data = load("landmine", None).taskdata()
    coupling = complete(data)
    for name, solver in (
        ("block dcd", solve_block_dcd),
        ("interior point", solve_svm_newton),
    ):
        took, result = seconds(
            partial(solver, data, coupling, C=10.0, tol=1e-6), repeats
        )
        line(
            name,
            f"{took:.3f}",
            f"{result.objective[-1] / LANDMINE_OPTIMUM - 1:.1e}",
            f"{result.gap:.1e}",
        )


def time_liblinear(rows: int | None, repeats: int) -> None:
    """Print the comparison with LIBLINEAR on one task."""
    line(
        "liblinear: equal objective", "tol", "liblinear s", "ours s", "liblinear / ours"
    )
    mnist = load_dataset("mnist", variant="mtsvm")
    sevens = mnist.task_id == 1
    splice = load("splice", rows)
    cases = {
        "mnist 7 vs 9, pixels/255": (
            np.ascontiguousarray(mnist.X[sevens] / 255),
            mnist.y[sevens],
        ),
        f"splice n={len(splice.y)} CSR": (
            WeightedDegree(8, normalize=True).fit_transform(splice.X),
            splice.y,
        ),
    }
    alone = couple_tasks(np.ones((1, 1)))
    for name, (X, y) in cases.items():
        data = TaskData.from_matrix(X, y[:, None])
        for tol in (1e-1, 1e-2, 1e-3):
            model = LinearSVC(
                loss="hinge",
                fit_intercept=False,
                tol=tol,
                max_iter=10**6,
                random_state=0,
            )
            theirs, _ = seconds(partial(model.fit, X, y), repeats)
            w = model.coef_[0]
            reached = 0.5 * w @ w + np.maximum(0, 1 - y * (X @ w)).sum()

            def fit(data: TaskData = data, reached: float = reached) -> object:
                return solve_block_dcd(
                    data, alone, tol=0, callback=lambda _, primal, __: primal <= reached
                )

            ours, _ = seconds(fit, repeats)
            line(
                name, f"{tol:g}", f"{theirs:.2f}", f"{ours:.2f}", f"{theirs / ours:.2f}"
            )


def time_strings(n: int, length: int, C: float, limit: float) -> None:
    """Print seconds, gap and memory of a run on many simulated strings, certificate
    by certificate.
    """
    begun = time.process_time()
    dataset = load_dataset("simulated-splice", n=n, length=length)
    data = task_data(dataset)
    del dataset
    line(
        f"strings: {n} x {length}, C={C:g}",
        "wall s",
        "cpu s",
        "iterations",
        "gap",
        "peak GB",
    )
    line(
        "simulated and packed",
        "",
        f"{time.process_time() - begun:.1f}",
        "",
        "",
        f"{peak_gb():.2f}",
    )
    wall, begun = time.perf_counter(), time.process_time()

    def note(iteration: int, primal: float, dual: float) -> bool:
        seconds, cpu = time.perf_counter() - wall, time.process_time() - begun
        gap = f"{(primal - dual) / primal:.2e}"
        line("", f"{seconds:.1f}", f"{cpu:.1f}", iteration, gap, f"{peak_gb():.2f}")
        return cpu > limit

    result = solve_block_dcd(data, complete(data), C=C, tol=1e-2, callback=note)
    seconds, cpu = time.perf_counter() - wall, time.process_time() - begun
    line(
        "end",
        f"{seconds:.1f}",
        f"{cpu:.1f}",
        result.n_iter,
        f"{result.gap:.2e}",
        f"{peak_gb():.2f}",
    )


def peak_gb() -> float:
    """Return the peak of this process's memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="parts of the rows, one repeat, 100,000 strings",
    )
    parser.add_argument(
        "--only",
        nargs="*",
        choices=("forms", "mtk", "landmine", "liblinear", "strings"),
    )
    parser.add_argument(
        "--strings",
        type=int,
        nargs=2,
        metavar=("N", "LENGTH"),
        help="size of the last part",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        help="timed runs of our solvers, of which the best counts (5)",
    )
    parser.add_argument(
        "--mtk-limit",
        type=float,
        default=600.0,
        help="seconds after which LIBSVM is stopped",
    )
    parser.add_argument(
        "--panels", nargs="*", choices=PANELS, default=PANELS, help="for forms and mtk"
    )
    parser.add_argument("--C", type=float, default=1.0, help="C of the last part")
    parser.add_argument(
        "--limit",
        type=float,
        default=np.inf,
        help="CPU seconds after which the last part stops",
    )
    args = parser.parse_args()
    wanted = args.only or ("forms", "mtk", "landmine", "liblinear", "strings")
    repeats = args.repeats or (1 if args.quick else 5)
    quick = {"landmine": None, "mnist": 3000, "gauss2d": 20000, "splice": 10000}
    whole: dict[str, int | None] = dict.fromkeys(PANELS)
    n, length = args.strings or ((10**5 if args.quick else 10**6), 42)
    with threadpool_limits(1):
        warm_up(load_dataset("gauss2d", n=100))
        if (
            "strings" in wanted
        ):  # first: the peak of memory is that of the whole process
            time_strings(n, length, args.C, args.limit)
        if "landmine" in wanted:
            time_landmine(repeats)
        if "liblinear" in wanted:
            time_liblinear(20000 if args.quick else None, repeats)
        if "forms" in wanted:
            time_forms(quick if args.quick else whole, repeats, args.panels)
        if "mtk" in wanted:
            mtk_whole = {**whole, "splice": 10000}
            sizes = (
                {**quick, "gauss2d": 10000, "splice": 5000} if args.quick else mtk_whole
            )
            time_mtk(sizes, repeats, args.mtk_limit, args.panels)


if __name__ == "__main__":
    main()
