"""Audit of the tables of the MT-MKL paper: what follows from the published accuracies, and where the tables differ.

Everything is recomputed from Table 1's accuracies: ranks, average ranks, Friedman's test, Holm's test against the
paper's method (Demsar 2006). Every printed number that does not come out is a finding, with the reason where one is
found. Nothing here fits a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from mtlrun.data.dataset import Dataset
from mtlrun.papers.measure import Measurement, measure, published_path
from mtlrun.papers.printed import Printed, read_printed
from mtlrun.stats import FriedmanTest, control_tests, friedman, rank_table

#: Decimals with which the paper prints average ranks and test statistics; p-values and alphas have at least four.
RANK_DECIMALS = STATISTIC_DECIMALS = 2
P_DECIMALS = 4
#: Tables 1 and 2 as printed, below configs/; a row of Table 1 is called so and is not a data set.
PRINTED, AVERAGE_RANK = ("mtmkl/table1.csv", "mtmkl/table2.csv"), "average rank"
#: The method and the level of Holm's test.
CONTROL, SIGNIFICANCE = "Proposed", 0.05
#: "our method dominates three, six and five out of seven methods" (Section 5.2), by the per cent of the training part.
DOMINATED = {10: 3, 20: 6, 50: 5}


@measure(
    {
        "comparisons": "methods compared with the paper's",
        "reproduced": "comparisons whose statistic and p-value come out to the printed digits",
        "not_reproduced": "comparisons whose statistic or p-value does not come out",
        "claimed_rejections": "methods that the text says are significantly worse",
        "rejections": "methods that Holm's test rejects, recomputed",
        "printed_rejections": "methods whose printed p-value is below the printed alpha",
        "findings": "printed numbers that do not follow from the accuracies",
        "friedman_p": "p-value of Friedman's chi2",
        "iman_davenport_p": "p-value of Iman and Davenport's F",
    },
    needs_data=False,
)
def table_audit(
    dataset: Dataset | None, *, seed: int, size: int = 10, published: Sequence[str] = PRINTED
) -> Measurement:
    """Recompute ranks, Friedman's and Holm's tests from the published accuracies for one training size.

    Parameters
    ----------
    dataset : None
    seed : int
        Without effect.
    size : int, default 10
        Per cent.
    published : (str, str)
        Files of Table 1 and Table 2 below configs/.

    Raises
    ------
    ValueError
        If there is no table for the size.
    """
    found = {a.size: a for a in audit(read_published(*published))}
    if size not in found:
        raise ValueError(f"no published table for {size}%; there are {', '.join(map(str, found))}")
    a = found[size]
    return Measurement(
        {
            "comparisons": float(len(a.rows)),
            "reproduced": float(len(a.reproduced)),
            "not_reproduced": float(len(a.rows) - len(a.reproduced)),
            "claimed_rejections": float(a.claimed),
            "rejections": float(len(a.rejected)),
            "printed_rejections": float(len(a.rejected_as_printed)),
            "findings": float(len(a.findings)),
            "friedman_p": a.friedman.chi2_pvalue,
            "iman_davenport_p": a.friedman.f_pvalue,
        },
        lines=[*verdict_lines(a), *(finding_line(f) for f in a.findings)],
        tables=audit_tables(a),
    )


@dataclass(frozen=True)
class Finding:
    """A printed number that does not follow from the accuracies, or statements that contradict each other.

    Attributes
    ----------
    size : int
        Per cent of the data used for training.
    kind : {"rank", "average_rank", "statistic", "p_value", "adjusted_alpha", "p_of_statistic", "rejections"}
    where : str
        Method, with the data set for a rank.
    printed, recomputed : float
    reason : str
        Empty where none was found.
    """

    size: int
    kind: str
    where: str
    printed: float
    recomputed: float
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """One method against the control: printed and recomputed numbers of Table 2."""

    method: str
    average_rank: float
    printed_rank: float
    statistic: float
    printed_statistic: float
    p_value: float
    printed_p: float
    alpha: float
    printed_alpha: float
    rejected: bool
    rejected_as_printed: bool


@dataclass(frozen=True)
class SizeAudit:
    """Everything about one training size.

    Attributes
    ----------
    size : int
    datasets : tuple of str
    control_rank : float
        Average rank of the paper's method, recomputed.
    friedman : FriedmanTest
    rows : tuple of Row
        The other methods.
    claimed : int
        How many methods the text says are dominated.
    findings : tuple of Finding
    """

    size: int
    datasets: tuple[str, ...]
    control_rank: float
    friedman: FriedmanTest
    rows: tuple[Row, ...]
    claimed: int
    findings: tuple[Finding, ...]

    @property
    def rejected(self) -> tuple[str, ...]:
        """Methods that Holm's test rejects, recomputed."""
        return tuple(row.method for row in self.rows if row.rejected)

    @property
    def rejected_as_printed(self) -> tuple[str, ...]:
        """Methods whose printed p-value is below their printed alpha."""
        return tuple(row.method for row in self.rows if row.rejected_as_printed)

    @property
    def reproduced(self) -> tuple[str, ...]:
        """Methods whose printed statistic and p-value both come out to the printed digits."""
        wrong = {f.where for f in self.findings if f.kind in ("statistic", "p_value")}
        return tuple(row.method for row in self.rows if row.method not in wrong)


def read_published(table1: str = PRINTED[0], table2: str = PRINTED[1]) -> dict[str, Any]:
    """Read the published tables, named from configs/ on; training sizes are in per cent.

    Raises
    ------
    ConfigError
        If a file is missing, or is not a printed table.
    """
    sizes: dict[int, dict[str, Any]] = {}
    for number in read_printed(published_path(table1), f"configs/{table1}", ("training part", "data set")):
        part = sizes.setdefault(_percent(number), {"average_rank": {}, "accuracy": {}, "rank": {}})
        place = number.where["data set"]
        if place == AVERAGE_RANK:
            part["average_rank"][number.head] = float(number.value)
        else:
            part["accuracy"].setdefault(place, {})[number.head] = float(number.value)
            part["rank"].setdefault(place, {})[number.head] = float(number.rank or 0)
    tests: dict[int, dict[str, dict[str, float]]] = {}
    for number in read_printed(published_path(table2), f"configs/{table2}", ("training part", "method")):
        method = tests.setdefault(_percent(number), {}).setdefault(number.where["method"], {})
        method[number.head] = float(number.value)
    return {"control": CONTROL, "significance": SIGNIFICANCE, "dominated": DOMINATED, "table1": sizes, "table2": tests}


def _percent(number: Printed) -> int:
    return round(100 * float(number.where["training part"]))


def audit(published: Mapping[str, Any]) -> list[SizeAudit]:
    """Recompute Table 2 from the accuracies of Table 1, for every training size."""
    return [_audit_size(published, size) for size in published["table1"]]


def verdict_lines(a: SizeAudit) -> list[str]:
    """Return the sentences that sum up one training size."""
    others = len(a.rows)
    wrong = [row.method for row in a.rows if row.method not in a.reproduced]
    if not a.reproduced:
        column = f"{a.size}%: none of the {others} printed statistics and p-values comes out of the accuracies."
    elif wrong:
        column = f"{a.size}%: statistics and p-values come out to the printed digits except {', '.join(wrong)}."
    else:
        column = f"{a.size}%: all statistics and p-values come out to the printed digits."
    lines = [column]
    holds = "as the text says" if len(a.rejected) == a.claimed else f"the text says {a.claimed}"
    lines.append(
        f"{a.size}%: Holm's test on the accuracies rejects {len(a.rejected)} of {others} ({', '.join(a.rejected)}), "
        f"{holds}."
    )
    if len(a.rejected_as_printed) != a.claimed:
        lines.append(
            f"{a.size}%: the printed p-values and alphas reject {len(a.rejected_as_printed)} "
            f"({', '.join(a.rejected_as_printed)}), which contradicts the text's {a.claimed}."
        )
    return lines


def finding_line(f: Finding) -> str:
    """Return one finding as a sentence."""
    names = {
        "rank": "rank",
        "average_rank": "average rank",
        "statistic": "test statistic",
        "p_value": "p-value",
        "adjusted_alpha": "adjusted alpha",
        "p_of_statistic": "p-value of the printed statistic",
        "rejections": "number of methods dominated",
    }
    reason = f" ({f.reason})" if f.reason else ""
    return f"{f.where}: {names[f.kind]} {f.recomputed:.5g}, printed {f.printed:.5g}{reason}"


def audit_tables(a: SizeAudit) -> dict[str, dict[str, list[Any]]]:
    """Return the comparison with the control of one training size as plain columns and rows, by title."""
    numbers = ["average rank", "printed", "z", "printed z", "p", "printed p", "alpha", "printed alpha"]
    rows = [
        [
            row.method,
            f"{row.average_rank:.2f}",
            f"{row.printed_rank:.2f}",
            f"{row.statistic:.2f}",
            f"{row.printed_statistic:.2f}",
            f"{row.p_value:.5f}",
            f"{row.printed_p:.5f}",
            f"{row.alpha:.4f}",
            f"{row.printed_alpha:.4f}",
            "yes" if row.rejected else "no",
            "yes" if row.rejected_as_printed else "no",
        ]
        for row in a.rows
    ]
    title = f"Table 2 at {a.size}%, recomputed and printed"
    return {title: {"columns": ["Method", *numbers, "Rejected", "as printed"], "rows": rows}}


def _audit_size(published: Mapping[str, Any], size: int) -> SizeAudit:
    table, printed = published["table1"][size], published["table2"][size]
    datasets = tuple(table["accuracy"])
    methods = list(table["average_rank"])
    control = methods.index(published["control"])
    accuracy = np.array([[table["accuracy"][d][m] for m in methods] for d in datasets])
    ranks = rank_table(accuracy)
    average = ranks.mean(axis=0)
    error = np.sqrt(len(methods) * (len(methods) + 1) / (6.0 * len(datasets)))
    tests = control_tests(accuracy, control, level=published["significance"])
    rows = []
    for test in sorted(tests, key=lambda test: test.column):
        method = methods[test.column]
        rows.append(
            Row(
                method=method,
                average_rank=float(average[test.column]),
                printed_rank=float(table["average_rank"][method]),
                statistic=test.z,
                printed_statistic=float(printed[method]["statistic"]),
                p_value=test.pvalue,
                printed_p=float(printed[method]["p-value"]),
                alpha=test.alpha,
                printed_alpha=float(printed[method]["adjusted alpha"]),
                rejected=test.rejected,
                rejected_as_printed=printed[method]["p-value"] < printed[method]["adjusted alpha"],
            )
        )
    claimed = int(published["dominated"][size])
    findings = _rank_findings(size, table, methods, datasets, ranks)
    findings += _average_findings(size, table, methods, average)
    control_printed = float(table["average_rank"][methods[control]])
    for row in rows:
        findings += _row_findings(size, row, (row.printed_rank - control_printed) / error)
    findings += _count_findings(size, rows, claimed)
    return SizeAudit(size, datasets, float(average[control]), friedman(accuracy), tuple(rows), claimed, tuple(findings))


def _rank_findings(
    size: int, table: Mapping[str, Any], methods: list[str], datasets: tuple[str, ...], ranks: np.ndarray
) -> list[Finding]:
    found = []
    for d, dataset in enumerate(datasets):
        for i, method in enumerate(methods):
            printed = float(table["rank"][dataset][method])
            if printed != ranks[d, i]:
                found.append(Finding(size, "rank", f"{method} on {dataset}", printed, float(ranks[d, i])))
    return found


def _average_findings(size: int, table: Mapping[str, Any], methods: list[str], average: np.ndarray) -> list[Finding]:
    found = []
    for i, method in enumerate(methods):
        printed = float(table["average_rank"][method])
        if _agrees(printed, average[i], RANK_DECIMALS):
            continue
        of_printed = np.mean([table["rank"][d][method] for d in table["rank"]])
        truncated = np.floor(average[i] * 10**RANK_DECIMALS) / 10**RANK_DECIMALS
        if abs(printed - truncated) < 1e-9:
            reason = "truncated instead of rounded"
        elif _agrees(printed, of_printed, RANK_DECIMALS):
            reason = "follows from a wrong printed rank"
        else:
            reason = "not the mean of the printed ranks either"
        found.append(Finding(size, "average_rank", method, printed, float(average[i]), reason))
    return found


def _row_findings(size: int, row: Row, statistic_of_printed: float) -> list[Finding]:
    found = []
    if not _agrees(row.printed_statistic, row.statistic, STATISTIC_DECIMALS):
        follows = _agrees(row.printed_statistic, statistic_of_printed, STATISTIC_DECIMALS)
        reason = "follows from the printed average ranks" if follows else ""
        found.append(Finding(size, "statistic", row.method, row.printed_statistic, row.statistic, reason))
    of_statistic = 2.0 * float(stats.norm.sf(abs(row.printed_statistic)))
    half = 0.5 * 10**-STATISTIC_DECIMALS
    low, high = (2.0 * float(stats.norm.sf(abs(row.printed_statistic) + side * half)) for side in (1, -1))
    decimals = _p_decimals(row.printed_p)
    rounding = 0.5 * 10.0**-decimals
    consistent = low - rounding <= row.printed_p <= high + rounding
    if not consistent:
        found.append(Finding(size, "p_of_statistic", row.method, row.printed_p, of_statistic))
    if not _agrees(row.printed_p, row.p_value, decimals):
        reason = "follows from the printed statistic" if consistent else ""
        found.append(Finding(size, "p_value", row.method, row.printed_p, row.p_value, reason))
    # Alphas are printed truncated as well as rounded: one unit of the fourth decimal is allowed.
    if abs(row.printed_alpha - row.alpha) > 10.0**-P_DECIMALS:
        reason = "Holm orders the methods by their p-values"
        found.append(Finding(size, "adjusted_alpha", row.method, row.printed_alpha, row.alpha, reason))
    return found


def _count_findings(size: int, rows: list[Row], claimed: int) -> list[Finding]:
    found = []
    for count, where in (
        (sum(row.rejected for row in rows), "the text against the accuracies"),
        (sum(row.rejected_as_printed for row in rows), "the text against the printed p-values and alphas"),
    ):
        if count != claimed:
            found.append(Finding(size, "rejections", where, float(claimed), float(count)))
    return found


def _agrees(printed: float, value: float, decimals: int) -> bool:
    """Whether a value rounds to the printed digits."""
    return abs(printed - value) <= 0.5 * 10.0**-decimals + 1e-9


def _p_decimals(printed: float) -> int:
    return max(P_DECIMALS, len(f"{printed:.10f}".rstrip("0").partition(".")[2]))
