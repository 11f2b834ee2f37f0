"""Every check and every claim can hold and can fail: suitable numbers pass, corrupted
ones fail.

First all checks of all experiments on made-up rows, then all claims of the committed
runs on their records.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from all_cases import check_each
from run_folders import stored_experiment
from sklearn.base import clone

from mtlrun.catalog.interfaces import METRIC_INFO
from mtlrun.data.sets.load import load_dataset
from mtlrun.engine.record import Record
from mtlrun.estimators import DivideAndConquerRMTL, RobustMTL
from mtlrun.lab.batch import artefacts
from mtlrun.lab.experiment.claims import (
    SHARES,
    UNTESTED,
    Check,
    Claim,
    Verdict,
)
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.claims import JudgedRun, evaluate, judge
from mtlrun.lab.report.method_results import MEAN_OF_TASKS, MethodResult, method_results
from mtlrun.lab.report.run import Run, jobs_of, read_run
from mtlrun.lab.report.statistics import rank_groups

RESULTS = Path(__file__).resolve().parents[3] / "results"
TRIALS = range(8)
PAPERS = sorted({entry.id.partition("/")[0] for entry in artefacts()})


def shipped(path: Path) -> Iterator[Any]:
    """Yield the checks of all claims of an experiment, except those of p-values and
    ranks. Checks on stopped runs, which depend on parameters, are those of each
    interpretation.
    """
    main = load_experiment(path, profile="full")
    found: list[dict[str, Any]] = []
    for spec in (main, *main.others):
        for claim in spec.config.get("claims", ()):
            if claim.get("not_testable") or claim.get("arithmetic"):
                continue
            for check in claim.get("checks") or ():
                is_rank = check.get("quantity") == "average_rank"
                is_known = check in found and "stopped" not in check
                if is_known or is_rank or check["kind"] in ("paired", "rejections"):
                    continue
                found.append(check)
                name = f"[{spec.interpretation}] {claim['id']}: {check}"
                yield spec.config, name, check


def rows_of(
    check: dict[str, Any], values: dict[str, float], dataset: str
) -> list[MethodResult]:
    """Return a row per method with the same number in all splits and tasks."""
    rows = []
    for method, value in values.items():
        quantity = check.get("quantity", "")
        cell = {
            "status": "ok",
            quantity: value,
            **dict.fromkeys(check.get("interval") or (), value),
            "tasks": {quantity: [value] * 9},
            "counts": {},
        }
        joined = MEAN_OF_TASKS.join(map(str, as_list(check.get("task"))))
        names = joined.split(MEAN_OF_TASKS)
        jobs = [{"trial": t, **cell} for t in TRIALS]
        rows.append(MethodResult(dataset, method, jobs, names, medians=()))
    return rows


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def stop(
    rows: list[MethodResult], check: dict[str, Any], config: dict[str, Any]
) -> MethodResult:
    """Mark rows as stopped runs; return the row that they are compared with."""
    stopped = check["stopped"]
    params = {method["label"]: method["params"] for method in config["methods"]}
    for position, row in enumerate(rows):
        limit = 0.5 if "below" in stopped else params[row.method][stopped["at_least"]]
        jobs = [{**job, stopped["quantity"]: float(limit)} for job in row.jobs]
        rows[position] = MethodResult(row.dataset, row.method, jobs)
    jobs = [{"trial": t, "status": "ok", stopped["quantity"]: 1.0} for t in TRIALS]
    return MethodResult(rows[0].dataset, stopped.get("below", ""), jobs)


def numbers(check: dict[str, Any], good: bool) -> dict[str, float]:
    """Return a value per method with which the check holds, or fails."""
    kind, low, high, size = (
        check.get(name) for name in ("kind", "at_least", "at_most", "about")
    )
    if check.get("orders") is not None:
        size = 10.0 ** check["orders"]
    if size is not None:
        others = dict.fromkeys(as_list(check.get("over")), 3.0)
        factor = size * (1.0 if good else 4.0)
        return {
            **others,
            **dict.fromkeys(
                as_list(check["of"]), factor * (3.0 if kind == "ratio" else 1.0)
            ),
        }
    if kind == "order":
        ranked = as_list(check["methods"])
        up = (check.get("direction") or "increasing") == "increasing"
        return {
            m: 1.0 + (i if up == good else len(ranked) - i)
            for i, m in enumerate(ranked)
        }
    step = max(1.0, abs(low or 0), abs(high or 0), 3 * float(check.get("effect") or 0))
    inside = (
        (low + high) / 2
        if None not in (low, high)
        else low + step
        if low is not None
        else high - step
    )
    outside = low - step if low is not None else high + step
    if kind == "ratio":
        inside = low * 3 if low is not None else high / 3
        outside = low / 3 if low is not None else high * 3
    wanted = inside if good else outside
    base = 3.0 if kind == "ratio" else 0.0
    others = dict.fromkeys(as_list(check.get("over")), base)
    return {
        **others,
        **dict.fromkeys(
            as_list(check["of"]), wanted * base if kind == "ratio" else wanted
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_corrupted_records_flip_every_check(paper):
    check_each(
        check_flips,
        {
            entry.id: {"path": entry.path}
            for entry in artefacts()
            if entry.id.startswith(f"{paper}/")
        },
    )


def check_flips(path: Path) -> None:
    for config, name, check in shipped(path):
        dataset = (as_list(check.get("dataset")) or ["alpha"])[0]
        for late in (False, True)[: 2 if "stopped" in check else 1]:
            held = {}
            experiment = stored_experiment(
                config=config,
                datasets={dataset: {"id": dataset}},
                paper_datasets=[dataset],
            )
            for good in (True, False):
                rows = rows_of(check, numbers(check, good), dataset)
                rows += [stop(rows, check, config)] if late else []
                results = evaluate(
                    Check(**{**check, "dataset": dataset}),
                    JudgedRun(Run(Path(), experiment, []), rows),
                )
                held[good] = {result.holds for result in results}
            if late and check.get("bound") is None:
                assert held == {True: {None}, False: {None}}, name
            elif late or (
                check.get("bound") is not None and "stopped" not in check
            ):  # A bound decides only one side.
                assert held[True] != held[False], name
            else:
                assert held == {True: {True}, False: {False}}, name


def feasible_range(check: dict[str, Any]) -> tuple[float, float]:
    """Return the possible range of the number of a check."""
    quantity, kind = str(check.get("quantity")), check["kind"]
    facts = METRIC_INFO.get(quantity)
    share = quantity in SHARES or (facts is not None and facts.greater_is_better)
    if kind == "paired":
        return 0.0, 1.0
    if kind == "difference" and share:
        return -1.0, 1.0
    if kind == "value" and share:
        return 0.0, 1.0
    if kind == "ratio":
        return 0.0, math.inf
    return -math.inf, math.inf


@pytest.mark.slow
def test_no_check_has_a_bound_that_all_numbers_satisfy():
    checks = [check for entry in artefacts() for check in shipped(entry.path)]
    for _, name, check in checks:
        if check["kind"] in ("order", "rejections"):
            continue
        low, high = feasible_range(check)
        lower = check.get("at_least")
        upper = check.get("at_most")
        assert lower is None or low < lower <= high, name
        assert upper is None or low <= upper < high, name


#: Words of a statement that a single comparison refutes.
OF_ALL = re.compile(r"\b(consistently|never|has the best|on all (four )?data sets)\b")


@pytest.mark.slow
def test_a_statement_on_the_best_needs_all_of_its_comparisons():
    lenient = []
    for entry in artefacts():
        for claim in load_experiment(entry.path, profile="full").spec.claims:
            if OF_ALL.search(claim.text) and claim.checks and not claim.all:
                lenient.append(claim.id)
    assert lenient == []


def broken_models(run: str, dataset: str, divided: str) -> dict[str, bool]:
    """Return the interpretations whose models are broken, and whether they count.

    They are those under which the undivided model is near chance or far below another
    interpretation, or under which dividing cannot cost anything.
    """
    report = build_report(RESULTS / run)
    broken = {}
    main = table_of(report.rows)["APG-RMTL", dataset]
    for other in report.others:
        by_claim = {claim.id: claim for claim in other.claims}
        at = dataset
        if "dcrmtl-4-simulated" in by_claim:
            at = by_claim["dcrmtl-4-simulated"].results[0].dataset
        auc = table_of(other.rows)
        level = auc.get(("APG-RMTL", at))
        if level is None:
            continue
        loss = level - auc[divided, at]
        if level < main - 0.05 or abs(loss) < 1e-3:
            broken[other.name] = other.about.plausible
    return broken


def table_of(rows: list[MethodResult]) -> dict[tuple[str, str], float | None]:
    """Return the AUC of each method and data set."""
    return {(row.method, row.dataset): row.value("auc") for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "dataset", "names"),
    [
        ("dcrmtl/table2/real", "enron", {"labels -1/+1"}),
        ("dcrmtl/speed/quick", "eurlex-like (beta 0.3)", {"lam 0.2", "lam 0.5"}),
    ],
)
def test_an_interpretation_under_which_models_are_broken_does_not_count(
    run, dataset, names
):
    broken = broken_models(run, dataset, "LADM-DC-RMTL-10%")
    assert names <= set(broken)
    assert not any(broken.values())


def verdict_on_theorem_1(before: float, after: float, rank: int) -> Verdict:
    """Return the verdict on Theorem 1 of DC-RMTL from the errors of the low-rank part."""
    experiment = load_experiment("dcrmtl/theorem1")
    (claim,) = (
        Claim.model_validate(c)
        for c in experiment.config["claims"]
        if c["id"] == "dcrmtl-13"
    )
    labels = claim.checks[0].dataset
    rows = []
    for label in labels:
        for method, error in (("projected", after), ("not projected", before)):
            cell = {"status": "ok", "low_rank_error": error, "rank": rank}
            jobs = [{"trial": t, "counts": {}, **cell} for t in TRIALS]
            rows.append(MethodResult(label, method, jobs, [], medians=()))
    stored = stored_experiment(
        config=experiment.config,
        datasets={label: {"id": "simulated-rmtl"} for label in labels},
        paper_datasets=["simulated-rmtl"],
    )
    return Verdict(judge(claim, JudgedRun(Run(Path(), stored, []), rows)).verdict)


def test_zero_coefficients_refute_theorem_1_of_dc_rmtl():
    """Divided and undivided models without a low-rank part have equal errors."""
    assert verdict_on_theorem_1(1.0, 1.0, rank=0) == Verdict.NOT_CONFIRMED
    assert verdict_on_theorem_1(0.3, 0.3, rank=0) == Verdict.NOT_CONFIRMED
    assert verdict_on_theorem_1(0.3, 0.3, rank=5) == Verdict.CONFIRMED


def test_a_projection_on_a_random_space_of_the_same_rank_refutes_theorem_1():
    data = load_dataset("simulated-rmtl", variant="features", d=25)
    base = RobustMTL(
        lam=0.7, beta=0.01, solver="admm", stop="gap", tol=1e-3, fit_intercept=False
    )
    model = DivideAndConquerRMTL(n_blocks=10, base=base)
    model.fit(data.X[:200], data.y[:200])
    blocks = clone(model).set_params(projection="none").fit(data.X[:200], data.y[:200])
    truth = data.truth["L"]
    rank = int(model.projection_rank_)
    noise = np.random.default_rng(0).normal(size=(25, rank))
    basis, _ = np.linalg.qr(noise)

    def error(low_rank: np.ndarray) -> float:
        return float(np.linalg.norm(low_rank - truth) / np.linalg.norm(truth))

    before = error(blocks.low_rank_.T)
    after = error(model.low_rank_.T)
    at_random = error(basis @ basis.T @ blocks.low_rank_.T)
    assert verdict_on_theorem_1(before, after, rank) == Verdict.CONFIRMED
    assert verdict_on_theorem_1(before, at_random, rank) == Verdict.NOT_CONFIRMED


# --- claims of the committed runs, on their records

#: Metrics of paired checks where lower is better
LOWER = ("nmse", "nmse_all")


def rows_touched(run: Run, check: dict[str, Any]) -> list[str]:
    """Return the labels of the data sets of a check, with groups expanded."""
    named = as_list(check.get("dataset")) or list(run.datasets)
    ids = {label: run.datasets[label].id for label in run.datasets}
    return [
        label
        for label in ids
        if any(name in (label, ids[label]) or f"({name})" in label for name in named)
    ]


def wanted(check: dict[str, Any], methods: list[str], good: bool) -> dict[str, float]:
    """Return a value per method with which the check holds, or fails; ranks follow from
    scores of 0 to 1.
    """
    if check["kind"] == "rejections" and check.get("over"):
        worse = good == ("at_least" in check)
        return {
            check["control"]: 1.0,
            **dict.fromkeys(as_list(check["over"]), 0.5 if worse else 1.0),
        }
    if check["kind"] == "rejections":
        return {**dict.fromkeys(methods, 0.5), check["control"]: float(good)}
    of, over = as_list(check.get("of")), as_list(check.get("over"))
    if check.get("quantity") == "average_rank":
        best = good == ("at_most" in check)  # The best method has the smallest rank.
        rival = 0.5 if best else 1.0
        return {**dict.fromkeys(over, rival), **dict.fromkeys(of, float(best))}
    if check["kind"] == "paired":
        apart = good == ("at_most" in check)
        return {**dict.fromkeys(over, 0.5), **dict.fromkeys(of, 0.9 if apart else 0.5)}
    return numbers(check, good)


def with_value(
    record: Record, quantity: str, value: float, trial: int, lower: bool
) -> Record:
    """Return a finished record with another number, which varies by split and task."""
    value = value + 1e-6 * trial * value if not lower else 1 - value + 1e-6 * trial
    names = (
        [quantity]
        if quantity in record.metrics or quantity not in ("average_rank", "")
        else list(record.metrics)
    )
    tasks = {
        n: [value + 1e-6 * (i % 3) for i, _ in enumerate(v)]
        for n, v in record.per_task.items()
        if n in names
    }
    seconds = replace(record.seconds, fit=value, blocks_sum=value, blocks_max=value)
    return replace(
        record,
        status="ok",
        metrics={**record.metrics, **dict.fromkeys(names, value)},
        per_task={**record.per_task, **tasks},
        seconds=seconds if quantity.startswith("seconds") else record.seconds,
        solver={**record.solver, quantity: value}
        if quantity in record.solver
        else record.solver,
    )


def spoiled(run: Run, claim: dict[str, Any], good: bool) -> Run:
    """Return a run whose records satisfy all checks of a claim, or none of them."""
    records = dict(run.records)
    for check in claim["checks"]:
        quantity = check.get("quantity", "")
        declared = run.experiment.quantities.get(quantity)
        greater = quantity not in LOWER
        if declared is not None:
            greater = declared.greater_is_better
        lower = check["kind"] == "paired" and greater is False
        for method, value in wanted(check, run.methods, good).items():
            for label in rows_touched(run, check):
                for cell in jobs_of(run, label, method):
                    if (record := records.get(cell.key)) is not None:
                        # An interval without a width moves with its number.
                        for name in (quantity, *as_list(check.get("interval"))):
                            record = with_value(record, name, value, cell.trial, lower)
                        records[cell.key] = record
    return replace(run, records=records, others=[])


def evidence(run: Run, claim: dict[str, Any]) -> JudgedRun:
    """Return the inputs of a claim; ranks, which take long, only if it needs them."""
    rows = method_results(run)
    ranks = any(
        c["kind"] == "rejections" or c.get("quantity") == "average_rank"
        for c in claim["checks"]
    )
    return JudgedRun(run, rows, rank_groups(run, rows) if ranks else [])


def test_corrupted_records_flip_every_claim(runs_together):
    check_each(check_claims_of, runs_together)


def check_claims_of(committed_run: Path) -> None:
    run = read_run(committed_run)
    verdicts = {claim.id: claim.verdict for claim in JudgedRun.of(run).claims}
    for stored in run.spec.claims:
        claim = stored.model_dump(exclude_unset=True, by_alias=True)
        on_predictions = any(
            check.get("unit") == "prediction" for check in claim.get("checks", ())
        )
        untested = (*UNTESTED, Verdict.ARITHMETIC)
        if verdicts[claim["id"]] in untested or on_predictions:
            continue
        good, bad = (
            judge(
                Claim.model_validate(claim), evidence(spoiled(run, claim, holds), claim)
            )
            for holds in (True, False)
        )
        assert bad.verdict == Verdict.NOT_CONFIRMED, claim["id"]
        if all(result.holds is not None for result in good.results):
            assert good.verdict == Verdict.CONFIRMED, claim["id"]
        else:  # Some jobs are missing, or a bound decides only one side.
            assert good.verdict in (
                Verdict.PARTLY,
                Verdict.MOSTLY,
                Verdict.UNDECIDED,
            ), claim["id"]


def spoil(folder: Path, method: str, quantity: str, change: Any) -> JudgedRun:
    """Return a run in which a number of some methods is changed."""
    run = read_run(folder)
    records = dict(run.records)
    for cell in run.planned:
        if cell.key in records and fnmatch(cell.method, method):
            record = records[cell.key]
            if quantity in record.metrics:
                value = change(record.metrics[quantity])
                metrics = {**record.metrics, quantity: value}
                records[cell.key] = replace(record, metrics=metrics)
    return JudgedRun.of(replace(run, records=records, others=[]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "claim", "method", "quantity", "change", "verdict"),
    [
        (
            "dcrmtl/table2/real",
            "dcrmtl-5-ladm",
            "LADM-RMTL",
            "auc",
            lambda auc: auc - 0.02,
            "not confirmed",
        ),
        (
            "mtsvm/fig2/quick",
            "mtsvm-4-gauss2d",
            "MTK with intercept",
            "times_paper",
            lambda times: 0.5,
            "not confirmed",
        ),
        (
            "fetr/fig2b/quick",
            "fetr-4b",
            "Coordinate minimization",
            "iterations_to_1e-6",
            lambda iterations: 3 * iterations,
            "not confirmed",
        ),
        (
            "mtmkl/sharing/quick",
            "mtmkl-21",
            "50%",
            "gain_over_stl",
            lambda gain: gain + 0.005,
            "not confirmed",
        ),
        (
            "mtmkl/algorithm1/quick",
            "mtmkl-27",
            "corrected*",
            "gap",
            lambda gap: 0.01,
            "not confirmed",
        ),
    ],
)
def test_a_changed_number_changes_the_verdict(
    folder, claim, method, quantity, change, verdict
):
    judged = spoil(RESULTS / folder, method, quantity, change)
    verdicts = {judged_claim.id: judged_claim.verdict for judged_claim in judged.claims}
    assert verdicts[claim] == verdict
