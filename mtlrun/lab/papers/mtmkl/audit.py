"""Tables 1 and 2 of MT-MKL, recomputed from what is printed: ranks, Friedman's test, Holm's test (Demsar 2006).

Every printed number that does not come out of Table 1's accuracies is reported, with the reason where one is found.
Nothing here fits a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from mtlrun.data.dataset import Dataset
from mtlrun.engine.analysis import (
    AnalysisResult,
    analysis,
    published_path,
    read_printed,
)
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
#: Numbers of a method that are recomputed, and the decimals they are shown with.
NUMBERS = {"average rank": 2, "z": 2, "p": 5, "alpha": 4}


@analysis(
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
    dataset: Dataset | None,
    *,
    seed: int,
    size: int = 10,
    published: Sequence[str] = PRINTED,
) -> AnalysisResult:
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
    tables, claimed = read_published(size, *published), DOMINATED[size]
    found = audit(tables, claimed)
    rows = found.methods
    reproduced = found.reproduced
    return AnalysisResult(
        {
            "comparisons": float(len(rows)),
            "reproduced": float(len(reproduced)),
            "not_reproduced": float(len(rows) - len(reproduced)),
            "claimed_rejections": float(claimed),
            "rejections": float(rows["rejected"].sum()),
            "printed_rejections": float(rows["printed rejected"].sum()),
            "findings": float(len(found.discrepancies)),
            "friedman_p": found.friedman.chi2_pvalue,
            "iman_davenport_p": found.friedman.f_pvalue,
        },
        lines=[
            *(f"{size}%: {line}" for line in verdict_lines(found, claimed)),
            *map(str, found.discrepancies),
        ],
        tables={f"Table 2 at {size}%, recomputed and printed": _as_text(rows)},
    )


@dataclass(frozen=True)
class Published:
    """The published tables for one training size.

    Attributes
    ----------
    accuracy, rank : DataFrame
        Data sets by methods.
    average_rank : Series
        By method.
    tests : DataFrame
        Methods other than the paper's by ``statistic``, ``p-value`` and ``adjusted alpha``.
    """

    accuracy: pd.DataFrame
    rank: pd.DataFrame
    average_rank: pd.Series
    tests: pd.DataFrame


@dataclass(frozen=True)
class Discrepancy:
    """A printed number that does not follow from the accuracies, or statements that contradict each other.

    Attributes
    ----------
    kind : str
        Such as ``rank`` or ``p-value``.
    where : str
        Method, with the data set for a rank.
    printed, recomputed : float
    reason : str
        Empty where none was found.
    """

    kind: str
    where: str
    printed: float
    recomputed: float
    reason: str = ""

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.where}: {self.kind} {self.recomputed:.5g}, printed {self.printed:.5g}{reason}"


@dataclass(frozen=True)
class Audit:
    """What follows from the accuracies for one training size.

    Attributes
    ----------
    methods : DataFrame
        A row per method other than the paper's: `NUMBERS` and ``rejected``, each also as ``printed ...``.
    friedman : FriedmanTest
    discrepancies : list of Discrepancy
    """

    methods: pd.DataFrame
    friedman: FriedmanTest
    discrepancies: list[Discrepancy]

    @property
    def reproduced(self) -> list[str]:
        """Methods whose printed statistic and p-value both come out to the printed digits."""
        wrong = {
            d.where
            for d in self.discrepancies
            if d.kind in ("test statistic", "p-value")
        }
        return [method for method in self.methods.index if method not in wrong]


def read_published(
    size: int, table1: str = PRINTED[0], table2: str = PRINTED[1]
) -> Published:
    """Read the published tables, named from configs/ on, for a training size in per cent.

    Raises
    ------
    ConfigError
        If a file is missing, or is not a printed table.
    ValueError
        If there is no table for the size.
    """
    cells = _cells(table1, "data set", size)
    is_mean = cells["data set"] == AVERAGE_RANK
    tests = _cells(table2, "method", size)
    return Published(
        _wide(cells[~is_mean], "data set", "value"),
        _wide(cells[~is_mean], "data set", "rank"),
        cells[is_mean].set_index("column")["value"],
        _wide(tests, "method", "value"),
    )


def _cells(name: str, key: str, size: int) -> pd.DataFrame:
    """Return the numbers of a printed table for a training size, one per row."""
    numbers = read_printed(
        published_path(name), f"configs/{name}", ("training part", key)
    )
    sizes = [round(100 * float(n.where["training part"])) for n in numbers]
    if size not in sizes:
        raise ValueError(
            f"no published table for {size}%; there are {', '.join(map(str, dict.fromkeys(sizes)))}"
        )
    chosen = [n for n, at in zip(numbers, sizes, strict=True) if at == size]
    return pd.DataFrame(
        [
            {
                key: n.where[key],
                "column": n.head,
                "value": float(n.value),
                "rank": float(n.rank or 0),
            }
            for n in chosen
        ]
    )


def _wide(cells: pd.DataFrame, key: str, values: str) -> pd.DataFrame:
    """Return a table in the order in which it is printed."""
    table = cells.pivot(index=key, columns="column", values=values)
    return table.reindex(index=cells[key].unique(), columns=cells["column"].unique())


def audit(printed: Published, claimed: int) -> Audit:
    """Recompute Table 2 from the accuracies of Table 1 for one training size.

    Parameters
    ----------
    printed : Published
    claimed : int
        How many methods the text says are dominated.
    """
    accuracy = printed.accuracy
    ranks = pd.DataFrame(rank_table(accuracy), accuracy.index, accuracy.columns)
    average = ranks.mean()
    tests = control_tests(
        accuracy, accuracy.columns.get_loc(CONTROL), level=SIGNIFICANCE
    )
    rows = (
        pd.DataFrame(map(asdict, tests))
        .sort_values("column")
        .set_index(accuracy.columns.drop(CONTROL))
    )
    rows = rows.set_axis(["column", "z", "p", "adjusted", "alpha", "rejected"], axis=1)
    rows["average rank"] = average
    rows["printed average rank"] = printed.average_rank
    rows[["printed z", "printed p", "printed alpha"]] = printed.tests[
        ["statistic", "p-value", "adjusted alpha"]
    ]
    rows["printed rejected"] = rows["printed p"] < rows["printed alpha"]
    error = np.sqrt(accuracy.shape[1] * (accuracy.shape[1] + 1) / (6.0 * len(accuracy)))
    rows["z of printed ranks"] = (
        rows["printed average rank"] - printed.average_rank[CONTROL]
    ) / error
    found = [*_wrong_ranks(printed.rank, ranks), *_wrong_averages(printed, average)]
    for method, row in rows.iterrows():
        found += _wrong_tests(str(method), row)
    for column, where in (
        ("rejected", "the text against the accuracies"),
        ("printed rejected", "the text against the printed p-values and alphas"),
    ):
        if rows[column].sum() != claimed:
            found.append(
                Discrepancy(
                    "number of methods dominated",
                    where,
                    claimed,
                    float(rows[column].sum()),
                )
            )
    return Audit(rows, friedman(accuracy), found)


def verdict_lines(found: Audit, claimed: int) -> list[str]:
    """Return the sentences that sum up one training size."""
    others = len(found.methods)
    wrong = found.methods.index.difference(found.reproduced, sort=False)
    if len(wrong) == others:
        first = f"none of the {others} printed statistics and p-values comes out of the accuracies."
    elif len(wrong):
        first = f"statistics and p-values come out to the printed digits except {', '.join(wrong)}."
    else:
        first = "all statistics and p-values come out to the printed digits."
    rejected, as_printed = (
        list(found.methods.index[found.methods[c]])
        for c in ("rejected", "printed rejected")
    )
    holds = (
        "as the text says" if len(rejected) == claimed else f"the text says {claimed}"
    )
    lines = [
        first,
        f"Holm's test on the accuracies rejects {len(rejected)} of {others} ({', '.join(rejected)}), {holds}.",
    ]
    if len(as_printed) != claimed:
        lines.append(
            f"the printed p-values and alphas reject {len(as_printed)} ({', '.join(as_printed)}), which contradicts "
            f"the text's {claimed}."
        )
    return lines


def _as_text(rows: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the comparison with the paper's method, recomputed beside printed."""
    heads, columns = ["Method"], [list(rows.index)]
    for name, decimals in NUMBERS.items():
        heads += [name, "printed" if name == "average rank" else f"printed {name}"]
        columns += [
            [f"{value:.{decimals}f}" for value in rows[c]]
            for c in (name, f"printed {name}")
        ]
    columns += [
        np.where(rows[c], "yes", "no").tolist()
        for c in ("rejected", "printed rejected")
    ]
    return {
        "columns": [*heads, "Rejected", "as printed"],
        "rows": [list(row) for row in zip(*columns, strict=True)],
    }


def _wrong_ranks(printed: pd.DataFrame, ranks: pd.DataFrame) -> Iterator[Discrepancy]:
    for dataset, method in zip(*np.nonzero((printed != ranks).to_numpy()), strict=True):
        where = f"{ranks.columns[method]} on {ranks.index[dataset]}"
        yield Discrepancy(
            "rank", where, printed.iloc[dataset, method], ranks.iloc[dataset, method]
        )


def _wrong_averages(published: Published, average: pd.Series) -> Iterator[Discrepancy]:
    for method, value in average.items():
        printed = published.average_rank[method]
        if _agrees(printed, value, RANK_DECIMALS):
            continue
        truncated = np.floor(value * 10**RANK_DECIMALS) / 10**RANK_DECIMALS
        if abs(printed - truncated) < 1e-9:
            reason = "truncated instead of rounded"
        elif _agrees(printed, published.rank[method].mean(), RANK_DECIMALS):
            reason = "follows from a wrong printed rank"
        else:
            reason = "not the mean of the printed ranks either"
        yield Discrepancy("average rank", str(method), printed, value, reason)


def _wrong_tests(method: str, row: pd.Series) -> Iterator[Discrepancy]:
    z, p, alpha = row["printed z"], row["printed p"], row["printed alpha"]
    if not _agrees(z, row["z"], STATISTIC_DECIMALS):
        follows = _agrees(z, row["z of printed ranks"], STATISTIC_DECIMALS)
        reason = "follows from the printed average ranks" if follows else ""
        yield Discrepancy("test statistic", method, z, row["z"], reason)
    half = 0.5 * 10**-STATISTIC_DECIMALS
    low, of_statistic, high = (
        2.0 * stats.norm.sf(abs(z) + side * half) for side in (1, 0, -1)
    )
    decimals = _p_decimals(p)
    rounding = 0.5 * 10.0**-decimals
    consistent = low - rounding <= p <= high + rounding
    if not consistent:
        yield Discrepancy("p-value of the printed statistic", method, p, of_statistic)
    if not _agrees(p, row["p"], decimals):
        yield Discrepancy(
            "p-value",
            method,
            p,
            row["p"],
            "follows from the printed statistic" if consistent else "",
        )
    # Alphas are printed truncated as well as rounded: one unit of the fourth decimal is allowed.
    if abs(alpha - row["alpha"]) > 10.0**-P_DECIMALS:
        reason = "Holm orders the methods by their p-values"
        yield Discrepancy("adjusted alpha", method, alpha, row["alpha"], reason)


def _agrees(printed: float, value: float, decimals: int) -> bool:
    """Whether a value rounds to the printed digits."""
    return abs(printed - value) <= 0.5 * 10.0**-decimals + 1e-9


def _p_decimals(printed: float) -> int:
    return max(P_DECIMALS, len(f"{printed:.10f}".rstrip("0").partition(".")[2]))
