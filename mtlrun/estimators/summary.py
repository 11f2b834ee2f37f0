"""Summaries of hierarchical and smooth models, as users of mixed models know them.

A summary is a data frame whose index has a section and a name:

mean
    Means of the coefficients with standard errors and t intervals. Their degrees of
    freedom follow the containment rule of nlme (Pinheiro and Bates 2000): tasks for the
    intercept and for coefficients that differ between tasks or are constant within
    them, rows for the others. Labels have normal intervals.
std
    Standard deviations between tasks and of the noise. "level" is at the mean of the
    columns, "intercept" where they are zero, as in lme4. `share` is the contribution
    to the variance of the targets. Intervals are by profile likelihood, that of the
    noise by chi-square, and those of smooth models are Wald's, for the logarithm.
R2
    Of Nakagawa and Schielzeth (2013), with the variances of slopes (Johnson 2014):
    marginal = F / (F + U + E) and conditional = (F + U) / (F + U + E), where F is the
    variance of the predictions of the mean coefficients, U the mean variance of the
    differences between tasks, and E that of the noise; pi^2 / 3 for labels. Their
    difference, U / (F + U + E), is the share of the tasks ("between tasks").
fit
    Tasks, rows, log-likelihood, and whether the solver converged (1 or 0); `gap_` says
    how closely.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student_t

Array = np.ndarray

#: Probability of the intervals.
LEVEL = 0.95
#: Columns of a summary.
COLUMNS = ("estimate", "std_error", "df", "low", "high", "share")
#: Significant digits, and longest name, of a printed summary.
DIGITS = 4
MAX_NAME = 20


@dataclass
class SummaryTable:
    """Lines of the summary of a fitted model."""

    model: Any
    index: list[tuple[str, str]] = field(default_factory=list)
    rows: list[dict[str, float]] = field(default_factory=list)

    def add(self, section: str, name: str, **values: float) -> None:
        """Add a line; cells that are not given are empty (NaN)."""
        self.index.append((section, name))
        self.rows.append(values)

    def add_mean(self, name: str, estimate: float, error: float, df: float) -> None:
        """Add a mean coefficient with its interval."""
        quantile = float(student_t.ppf(0.5 + LEVEL / 2, df))
        width = quantile * error
        self.add(
            "mean",
            name,
            estimate=estimate,
            std_error=error,
            df=df,
            low=estimate - width,
            high=estimate + width,
        )

    def add_std(
        self, name: str, std: float, low: float, high: float, share: float = np.nan
    ) -> None:
        """Add a standard deviation with its interval."""
        self.add("std", name, estimate=std, low=low, high=high, share=share)

    def add_coefficients(self, names: list[str], df: Array, limits: Array) -> None:
        """Add means and standard deviations of coefficients between tasks.

        The model is a `HierarchicalMTL` or `HierarchicalMTLClassifier`.

        Parameters
        ----------
        names : list of str
            Of the p coefficients, the level first.
        df : ndarray of shape (p,)
            Degrees of freedom of the means.
        limits : ndarray of shape (p, 2)
            Ends of the intervals of standard deviations.
        """
        model = self.model
        columns = model._columns
        first = int(columns.intercept)
        L = columns.back()
        covariance = L @ model._posterior.mean_covariance @ L.T
        variances = np.maximum(np.diag(covariance), 0.0)
        errors = np.sqrt(variances).tolist()
        if first:
            self.add_mean("intercept", model.mean_intercept_, errors[0], float(df[0]))
        rows = zip(names[first:], model.mean_coef_, errors[1:], df[first:], strict=True)
        for name, estimate, error, degrees in rows:
            self.add_mean(name, float(estimate), error, float(degrees))
        if first:
            # Columns that count as constant have units of 0.
            units = np.where(columns.units > 0, columns.units, 1.0)
            of_intercept = L[0] / units
            variance = of_intercept @ model.covariance_ @ of_intercept
            std = float(np.sqrt(np.maximum(variance, 0.0)))
            self.add_std("intercept", std, np.nan, np.nan)
        variances = np.maximum(np.diag(model.covariance_), 0.0)
        stds = np.sqrt(variances).tolist()
        shares = model.heterogeneity_.tolist()
        for name, std, ends, share in zip(names, stds, limits, shares, strict=True):
            self.add_std(name, std, float(ends[0]), float(ends[1]), share)

    def finished(
        self,
        mean_share: float,
        noise_share: float,
        n_rows: float,
        log_likelihood: float = np.nan,
        low: float = np.nan,
        high: float = np.nan,
    ) -> pd.DataFrame:
        """Add R2, sizes and convergence, and return the summary.

        Parameters
        ----------
        mean_share, noise_share : float
            Shares of the variance of the targets.
        n_rows, log_likelihood : float
        low, high : float
            Interval of the share of the differences between tasks.
        """
        conditional = 1.0 - noise_share
        self.add("R2", "marginal", estimate=mean_share)
        between = conditional - mean_share
        self.add("R2", "between tasks", estimate=between, low=low, high=high)
        lines = [
            ("R2", "conditional", conditional),
            ("fit", "tasks", len(self.model.tasks_)),
            ("fit", "rows", n_rows),
            ("fit", "log-likelihood", log_likelihood),
            ("fit", "converged", float(self.model.converged_)),
        ]
        for section, name, value in lines:
            self.add(section, name, estimate=value)
        index = pd.MultiIndex.from_tuples(self.index, names=["section", "name"])
        return pd.DataFrame(self.rows, index=index, columns=list(COLUMNS), dtype=float)


def summary_lines(summary: pd.DataFrame) -> list[str]:
    """Return a summary as lines of at most 80 columns."""

    def name(text: str) -> str:
        if len(text) <= MAX_NAME:
            return text
        start = text[: MAX_NAME - 3]
        return f"{start}..."

    def cell(value: float) -> str:
        if np.isnan(value):
            return ""
        return f"{value:.{DIGITS}g}"

    texts = summary.map(cell)
    texts = texts.rename(index=name, level="name")
    texts = texts.reset_index()
    sections = texts["section"]
    is_repeated = sections.eq(sections.shift())
    texts["section"] = sections.mask(is_repeated, "")
    texts = texts.rename(columns={"section": "", "name": ""})
    lines = texts.to_string(index=False)
    return [line.rstrip() for line in lines.split("\n")]
