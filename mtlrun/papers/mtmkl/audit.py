"""Tables 1 and 2 of the MT-MKL paper, recomputed from the printed accuracies.

Ranks, Friedman's test and Holm's test follow Demsar (2006). Each printed number that
does not follow from the accuracies of Table 1 is reported, with the reason if there is
one. No model is fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from mtlrun.catalog.analysis import (
    AnalysisResult,
    analysis,
    read_printed,
)
from mtlrun.data.dataset import Dataset
from mtlrun.stats import FriedmanTest, control_tests, friedman, rank_table
from mtlrun.utils.io import published_path

#: Decimals of printed average ranks.
RANK_DECIMALS = 2
#: Decimals of printed test statistics.
STATISTIC_DECIMALS = 2
#: Smallest number of decimals of printed p-values and alphas.
P_DECIMALS = 4
#: Tables 1 and 2 as printed, relative to the folder of the experiments.
PRINTED = ("mtmkl/table1.csv", "mtmkl/table2.csv")
#: Row of Table 1 that is not a data set.
AVERAGE_RANK = "average rank"
#: Control of Holm's test: the method of the paper.
CONTROL = "Proposed"
#: Level of Holm's test.
SIGNIFICANCE = 0.05
#: "our method dominates three, six and five out of seven methods" (Section 5.2): size
#: of the training part in percent -> number of methods.
DOMINATED = {10: 3, 20: 6, 50: 5}
#: Recomputed numbers of a method -> decimals with which they are shown.
NUMBERS = {"average rank": 2, "z": 2, "p": 5, "alpha": 4}


@analysis(
    {
        "comparisons": "methods compared with the paper's",
        "reproduced": "comparisons whose statistic and p-value come out to the printed "
        "digits",
        "not_reproduced": "comparisons whose statistic or p-value does not come out",
        "claimed_rejections": "methods that the text says are significantly worse",
        "rejections": "methods that Holm's test rejects, recomputed",
        "printed_rejections": "methods whose printed p-value is below the printed "
        "alpha",
        "findings": "printed numbers that do not follow from the accuracies",
        "friedman_p": "p-value of Friedman's chi2",
        "iman_davenport_p": "p-value of Iman and Davenport's F",
    },
    name="mtmkl-audit",
    labels={
        "reproduced": "comparisons that come out as printed",
        "not_reproduced": "comparisons that do not come out",
        "claimed_rejections": "methods rejected, by the text",
        "printed_rejections": "methods rejected, by the printed p-values",
        "rejections": "methods rejected, recomputed",
        "findings": "printed numbers that do not follow",
        "friedman_p": "p of Friedman's test",
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
    """Recompute the tests of the paper from the printed accuracies.

    Parameters
    ----------
    dataset : None
    seed : int
        Without effect.
    size : int, default 10
        Size of the training part in percent.
    published : (str, str)
        Files of Tables 1 and 2, relative to the folder of the experiments.

    Returns
    -------
    AnalysisResult
        Has a table of recomputed and printed numbers, and a line for each discrepancy.

    Raises
    ------
    ValueError
        If there is no table for the size.
    """
    table1, table2 = published
    printed = read_published(size, table1, table2)
    claimed = DOMINATED[size]
    result = audit(printed, claimed)
    n_methods = len(result.methods)
    n_reproduced = len(result.reproduced)
    lines = [f"{size}%: {line}" for line in verdict_lines(result, claimed)]
    lines += [str(discrepancy) for discrepancy in result.discrepancies]
    return AnalysisResult(
        {
            "comparisons": float(n_methods),
            "reproduced": float(n_reproduced),
            "not_reproduced": float(n_methods - n_reproduced),
            "claimed_rejections": float(claimed),
            "rejections": float(result.methods["rejected"].sum()),
            "printed_rejections": float(result.methods["printed rejected"].sum()),
            "findings": float(len(result.discrepancies)),
            "friedman_p": result.friedman.chi2_pvalue,
            "iman_davenport_p": result.friedman.f_pvalue,
        },
        lines=lines,
        tables={f"Table 2 at {size}%, recomputed and printed": _as_text(result)},
    )


# ---------------------------------------------------------------- printed tables


@dataclass(frozen=True)
class Published:
    """The published tables for one size of the training part.

    Attributes
    ----------
    accuracy, rank : DataFrame
        Data sets by methods.
    average_rank : Series
        By method.
    tests : DataFrame
        Methods other than the paper's by ``statistic``, ``p-value`` and ``adjusted
        alpha``.
    """

    accuracy: pd.DataFrame
    rank: pd.DataFrame
    average_rank: pd.Series
    tests: pd.DataFrame


def read_published(
    size: int, table1: str = PRINTED[0], table2: str = PRINTED[1]
) -> Published:
    """Read the published tables for one size of the training part.

    Parameters
    ----------
    size : int
        In percent.
    table1, table2 : str
        Files, relative to the folder of the experiments.

    Raises
    ------
    ConfigError
        If a file is missing, or is not a printed table.
    ValueError
        If there is no table for the size.
    """
    cells = _read_cells(table1, "data set", size)
    is_average = cells["data set"] == AVERAGE_RANK
    tests = _read_cells(table2, "method", size)
    return Published(
        accuracy=_to_table(cells[~is_average], "data set", "value"),
        rank=_to_table(cells[~is_average], "data set", "rank"),
        average_rank=cells[is_average].set_index("column")["value"],
        tests=_to_table(tests, "method", "value"),
    )


def _read_cells(name: str, key: str, size: int) -> pd.DataFrame:
    """Return the numbers of a printed table for one size, one per row.

    Parameters
    ----------
    name : str
        File, relative to the folder of the experiments.
    key : str
        Column that identifies a row of the printed table.
    size : int
        Size of the training part in percent.
    """
    keys = ("training part", key)
    numbers = read_printed(published_path(name), f"configs/{name}", keys)
    sizes = []
    cells = []
    for number in numbers:
        number_size = round(100 * float(number.where["training part"]))
        sizes.append(number_size)
        if number_size == size:
            cells.append(
                {
                    key: number.where[key],
                    "column": number.head,
                    "value": float(number.value),
                    "rank": float(number.rank or 0),
                }
            )
    if not cells:
        listed = ", ".join(str(other) for other in dict.fromkeys(sizes))
        raise ValueError(f"no published table for {size}%; there are {listed}")
    return pd.DataFrame(cells)


def _to_table(cells: pd.DataFrame, key: str, values: str) -> pd.DataFrame:
    """Return a table with the rows and columns in their printed order."""
    table = cells.pivot(index=key, columns="column", values=values)
    return table.reindex(index=cells[key].unique(), columns=cells["column"].unique())


# ---------------------------------------------------------------- audit


@dataclass(frozen=True)
class Discrepancy:
    """A printed number that does not follow from the accuracies, or a contradiction.

    Attributes
    ----------
    kind : str
        Such as ``rank`` or ``p-value``.
    where : str
        Method, with the data set for a rank.
    printed, recomputed : float
    reason : str
        Empty if none is known.
    """

    kind: str
    where: str
    printed: float
    recomputed: float
    reason: str = ""

    def __str__(self) -> str:
        text = (
            f"{self.where}: {self.kind} {self.recomputed:.5g}, "
            f"printed {self.printed:.5g}"
        )
        if self.reason:
            text += f" ({self.reason})"
        return text


@dataclass(frozen=True)
class Audit:
    """Result of the audit of one size of the training part.

    Attributes
    ----------
    methods : DataFrame
        A row per method other than the paper's: `NUMBERS` and ``rejected``, each also
        as ``printed ...``.
    friedman : FriedmanTest
    discrepancies : list of Discrepancy
    """

    methods: pd.DataFrame
    friedman: FriedmanTest
    discrepancies: list[Discrepancy]

    @property
    def reproduced(self) -> list[str]:
        """Methods whose printed statistic and p-value agree to the printed digits."""
        wrong = set()
        for discrepancy in self.discrepancies:
            if discrepancy.kind in ("test statistic", "p-value"):
                wrong.add(discrepancy.where)
        return [method for method in self.methods.index if method not in wrong]

    def rejected(self, column: str) -> list[str]:
        """Return the methods that are rejected.

        Parameters
        ----------
        column : {"rejected", "printed rejected"}
        """
        return list(self.methods.index[self.methods[column]])


def audit(printed: Published, claimed: int) -> Audit:
    """Recompute Table 2 from the accuracies of Table 1.

    Parameters
    ----------
    printed : Published
    claimed : int
        Number of methods that are dominated according to the text.
    """
    accuracy = printed.accuracy
    ranks = pd.DataFrame(rank_table(accuracy), accuracy.index, accuracy.columns)
    average = ranks.mean()
    methods = _test_methods(printed, average)
    discrepancies = []
    rows, columns = np.nonzero((printed.rank != ranks).to_numpy())
    for i, j in zip(rows, columns, strict=True):
        where = f"{ranks.columns[j]} on {ranks.index[i]}"
        ours = ranks.iloc[i, j]
        discrepancies.append(Discrepancy("rank", where, printed.rank.iloc[i, j], ours))
    discrepancies += _wrong_averages(printed, average)
    for method, row in methods.iterrows():
        discrepancies += _wrong_tests(str(method), row)
    sources = {
        "rejected": "the text against the accuracies",
        "printed rejected": "the text against the printed p-values and alphas",
    }
    for column, where in sources.items():
        n_rejected = methods[column].sum()
        if n_rejected != claimed:
            kind = "number of methods dominated"
            discrepancies.append(Discrepancy(kind, where, claimed, float(n_rejected)))
    return Audit(methods, friedman(accuracy), discrepancies)


def _test_methods(printed: Published, average: pd.Series) -> pd.DataFrame:
    """Return the tests of all methods against the paper's, recomputed and printed.

    Parameters
    ----------
    printed : Published
    average : Series
        Recomputed average rank of each method.
    """
    accuracy = printed.accuracy
    n_datasets, n_methods = accuracy.shape
    control = accuracy.columns.get_loc(CONTROL)
    tests = control_tests(accuracy, control, level=SIGNIFICANCE)
    rows = pd.DataFrame(
        [
            {
                "column": test.column,
                "z": test.z,
                "p": test.pvalue,
                "adjusted": test.adjusted,
                "alpha": test.alpha,
                "rejected": test.rejected,
            }
            for test in tests
        ]
    )
    methods = rows.sort_values("column").set_index(accuracy.columns.drop(CONTROL))
    methods["average rank"] = average
    methods["printed average rank"] = printed.average_rank
    methods["printed z"] = printed.tests["statistic"]
    methods["printed p"] = printed.tests["p-value"]
    methods["printed alpha"] = printed.tests["adjusted alpha"]
    methods["printed rejected"] = methods["printed p"] < methods["printed alpha"]
    standard_error = np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_datasets))
    distance = methods["printed average rank"] - printed.average_rank[CONTROL]
    methods["z of printed ranks"] = distance / standard_error
    return methods


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
    """Yield the discrepancies of the statistic, the p-value and the alpha of a method.

    Parameters
    ----------
    method : str
    row : Series
        Row of `Audit.methods`.
    """
    z = row["printed z"]
    p = row["printed p"]
    alpha = row["printed alpha"]
    if not _agrees(z, row["z"], STATISTIC_DECIMALS):
        reason = ""
        if _agrees(z, row["z of printed ranks"], STATISTIC_DECIMALS):
            reason = "follows from the printed average ranks"
        yield Discrepancy("test statistic", method, z, row["z"], reason)
    # The printed statistic is rounded, so an interval of p-values belongs to it.
    z_rounding = 0.5 * 10**-STATISTIC_DECIMALS
    low = 2.0 * stats.norm.sf(abs(z) + z_rounding)
    p_of_statistic = 2.0 * stats.norm.sf(abs(z))
    high = 2.0 * stats.norm.sf(abs(z) - z_rounding)
    # Trailing zeros are not printed.
    digits = f"{p:.10f}".rstrip("0").partition(".")[2]
    decimals = max(P_DECIMALS, len(digits))
    p_rounding = 0.5 * 10.0**-decimals
    is_consistent = low - p_rounding <= p <= high + p_rounding
    if not is_consistent:
        yield Discrepancy("p-value of the printed statistic", method, p, p_of_statistic)
    if not _agrees(p, row["p"], decimals):
        reason = "follows from the printed statistic" if is_consistent else ""
        yield Discrepancy("p-value", method, p, row["p"], reason)
    # Some alphas are printed truncated, others rounded: one unit of the fourth decimal
    # is allowed.
    if abs(alpha - row["alpha"]) > 10.0**-P_DECIMALS:
        reason = "Holm orders the methods by their p-values"
        yield Discrepancy("adjusted alpha", method, alpha, row["alpha"], reason)


def _agrees(printed: float, value: float, decimals: int) -> bool:
    """Whether a value rounds to the printed digits."""
    return abs(printed - value) <= 0.5 * 10.0**-decimals + 1e-9


# ---------------------------------------------------------------- texts


def verdict_lines(result: Audit, claimed: int) -> list[str]:
    """Return the sentences that sum up one size of the training part.

    Parameters
    ----------
    result : Audit
    claimed : int
        Number of methods that are dominated according to the text.
    """
    n_methods = len(result.methods)
    wrong = result.methods.index.difference(result.reproduced, sort=False)
    if len(wrong) == n_methods:
        outcome = (
            f"none of the {n_methods} printed statistics and p-values comes out of the "
            "accuracies."
        )
    elif len(wrong):
        outcome = (
            "statistics and p-values come out to the printed digits except "
            f"{', '.join(wrong)}."
        )
    else:
        outcome = "all statistics and p-values come out to the printed digits."
    rejected = result.rejected("rejected")
    if len(rejected) == claimed:
        comparison = "as the text says"
    else:
        comparison = f"the text says {claimed}"
    lines = [
        outcome,
        f"Holm's test on the accuracies rejects {len(rejected)} of {n_methods} "
        f"({', '.join(rejected)}), {comparison}.",
    ]
    printed_rejected = result.rejected("printed rejected")
    if len(printed_rejected) != claimed:
        lines.append(
            f"the printed p-values and alphas reject {len(printed_rejected)} "
            f"({', '.join(printed_rejected)}), which contradicts the text's {claimed}."
        )
    return lines


def _as_text(result: Audit) -> dict[str, list[Any]]:
    """Return the table of recomputed and printed numbers for the report."""
    methods = result.methods
    heads = ["Method"]
    columns = [list(methods.index)]
    for name, decimals in NUMBERS.items():
        printed = f"printed {name}"
        # The first pair of columns does not repeat its name.
        heads += [name, "printed" if name == "average rank" else printed]
        for column in (name, printed):
            columns.append([f"{value:.{decimals}f}" for value in methods[column]])
    heads += ["Rejected", "as printed"]
    for column in ("rejected", "printed rejected"):
        columns.append(np.where(methods[column], "yes", "no").tolist())
    rows = [list(row) for row in zip(*columns, strict=True)]
    return {"columns": heads, "rows": rows}
