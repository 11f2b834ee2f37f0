"""Names of quantities as they appear in tables and figures."""

from __future__ import annotations

from mtlrun.catalog.interfaces import QUANTITY_LABELS

#: Key of the seconds of a fit with each block on a worker of its own.
PARALLEL = "seconds_parallel"
#: Words of keys that are written in capitals.
_ACRONYMS = ("auc", "rmse", "mse")
#: Names of quantities whose key, with spaces in place of underscores, is not clear
#: enough. Analyses declare the names of their own quantities.
_NAMES = {
    "auc": "AUC",
    "rmse": "RMSE",
    "mse": "MSE",
    "nmse": "normalized MSE",
    "r2": "R²",
    "nmse_all": "normalized MSE (variance of all rows)",
    "nmse_shrunken": "normalized MSE, variances of small tasks shrunken",
    "r2_shrunken": "R², variances of small tasks shrunken",
    "seconds": "seconds to fit",
    PARALLEL: "seconds to fit, one worker per block",
    "seconds_predict": "seconds to predict",
    "speedup": "times faster than the baseline",
    "n_iter": "iterations",
    "gap": "duality gap",
    "truth_error": "relative error of the coefficients",
    "rank": "rank of L",
    "n_outliers": "outlier tasks",
    "low_rank_error": "relative error of L",
    "low": "lower end of the interval",
    "high": "upper end of the interval",
}


def spoken(quantity: str) -> str:
    """Return the name of a quantity for readers, such as ``balanced accuracy``."""
    label = _NAMES.get(quantity) or QUANTITY_LABELS.get(quantity)
    if label:
        return label
    words = []
    for word in quantity.split("_"):
        words.append(word.upper() if word in _ACRONYMS else word)
    return " ".join(words)


#: Measures of gains.
AUC = "AUC"


NMSE = "nMSE"
