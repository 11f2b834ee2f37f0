"""Names of measures and of the quantities that they return. Imports no third-party package."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Quantity:
    """A number that a measure returns.

    Attributes
    ----------
    text : str
        What it is, with its unit.
    greater_is_better : bool or None
        None where neither is better.
    """

    text: str
    greater_is_better: bool | None = None


@dataclass(frozen=True)
class MeasureInfo:
    """A measure.

    Attributes
    ----------
    name : str
        Value of `measure` in experiment files.
    path : str
        ``module:function``.
    summary : str
        One line.
    quantities : dict of str to Quantity
        What it can return.
    needs_data : bool
        False for measures of published numbers.
    """

    name: str
    path: str
    summary: str
    quantities: dict[str, Quantity]
    needs_data: bool = True


_STATISTICS = MeasureInfo(
    "data-set-statistics",
    "mtlrun.experiments.measures.statistics:data_set_statistics",
    "sizes, sparsity and labels of a data set",
    {
        "n": Quantity("rows"),
        "d": Quantity("features"),
        "tasks": Quantity("tasks (classes of a multi-class set)"),
        "x_nnz": Quantity("values of X that are not zero"),
        "x_density": Quantity("share of the values of X that are not zero"),
        "cardinality": Quantity("labels per row"),
        "density": Quantity("labels per row divided by the number of labels"),
        "labelsets": Quantity("distinct rows of labels"),
        "unlabelled": Quantity("rows without a label"),
        "label_min": Quantity("positives of the rarest label"),
        "label_max": Quantity("positives of the most frequent label"),
        "positives": Quantity("positive labels"),
        "positive_share": Quantity("share of the known labels that are positive"),
        "missing": Quantity("missing targets"),
        "missing_share": Quantity("share of the targets that are missing"),
        "task_min": Quantity("rows of the smallest task"),
        "task_max": Quantity("rows of the largest task"),
        "class_min": Quantity("rows of the smallest class"),
        "class_max": Quantity("rows of the largest class"),
        "y_mean": Quantity("mean of all targets"),
        "y_var": Quantity("variance of all targets"),
    },
)

#: In alphabetical order.
MEASURES: dict[str, MeasureInfo] = {info.name: info for info in (_STATISTICS,)}
