"""Names of quantities as they appear in tables and figures."""

from __future__ import annotations

#: Key of the seconds of a fit with each block on a worker of its own.
PARALLEL = "seconds_parallel"
#: Words of keys that are written in capitals.
_ACRONYMS = ("auc", "rmse", "mse")
#: Names of quantities whose key, with spaces in place of underscores, is not clear
#: enough.
_NAMES = {
    "auc": "AUC",
    "rmse": "RMSE",
    "mse": "MSE",
    "nmse": "normalized MSE",
    "r2": "R²",
    "nmse_all": "normalized MSE (variance of all rows)",
    "nmse_shrunken": "normalized MSE, variances of small tasks shrunken",
    "r2_shrunken": "R², variances of small tasks shrunken",
    "largest_n": "rows",
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
    # Quantities of analyses.
    "low": "lower end of the interval",
    "high": "upper end of the interval",
    "over_independent": "gain over separate models",
    "over_pooled": "gain over pooling",
    "over_linear": "gain over linear models without sharing",
    "helps": "verdict 'helps' (1) or not (0)",
    "x_density": "share of X not zero",
    "cardinality": "labels per row",
    "labelsets": "distinct rows of labels",
    "label_min": "positives of the rarest label",
    "label_max": "positives of the commonest label",
    "half_width": "half of the 95% interval",
    "distance": "distance from print, in half intervals",
    "lower": "pairs in which FETR is lower",
    "equal": "equal pairs",
    "higher": "pairs in which FETR is higher",
    "mtn_not_lower": "pairs in which MTN is not lower",
    "mtn_fetr_not_lower": "joints on which MTN-FETR is not lower",
    "final_excess": "excess over the best objective",
    "excess": "authors' accuracy minus clean",
    "over_best": "objective above the best one",
    "cycle_length": "length of a cycle",
    "clean": "accuracy, clean protocol",
    "authors": "accuracy, authors' protocol",
    "authors_last": "accuracy at its last iteration",
    "leak": "gain by choosing on test rows",
    "reproduced": "comparisons that come out as printed",
    "not_reproduced": "comparisons that do not come out",
    "claimed_rejections": "methods rejected, by the text",
    "printed_rejections": "methods rejected, by the printed p-values",
    "rejections": "methods rejected, recomputed",
    "findings": "printed numbers that do not follow",
    "friedman_p": "p of Friedman's test",
    "claimed_distance": "largest distance among the three tasks",
    "others_distance": "smallest distance to another task",
    "off_line": "distance of the sum from 1",
    "groups": "groups of tasks with the same weights",
    "training_rows": "training rows",
    "design_rank": "rank of the training rows",
    "constraint_residual": "smallest relative residual of the constraint",
    "rank_deficit": "dimensions lost by a covariance",
    "covariance_rank": "rank of the covariance",
    "covariance_size": "rows of the covariance",
    "matching_excess": "excess over the smallest matching",
    "step_gap": "certified gap of the precision steps",
    "contraction": "largest change of the distance in a step",
    "contraction_over_bound": "largest change over (kappa - 1) / (kappa + 1)",
    "cross_largest": "largest correlation of joints 1 to 4 with 5 to 7",
    "pair_correlation": "correlation of joints 5 and 6",
    "feature_blocks": "correlation within blocks over that between them",
    "smallest_gain": "smallest relative reduction by FETR",
    "school_largest_p": "largest p-value on School",
    "steps_over_bound": "steps over kappa log(1e8)",
    "groups_fewest": "fewest groups of equally good candidates",
    "groups_most": "most groups of equally good candidates",
    "groups_strong": "groups of tasks at the largest lam",
    "groups_between": "strengths of lam with several groups",
    "groups_rise": "groups that a larger lam adds",
    "off_alone": "distance from the weights of tasks trained alone",
    "off_equal_small": "distance from equal weights, weakest coupling",
    "off_equal_large": "distance from equal weights, strongest coupling",
    "gain_named": "gain of the three named tasks",
    "gain_over_stl": "gain over single tasks",
    "gain_over_one_kernel": "gain over one kernel",
    "fails_below": "gamma up to which the bound fails",
    "dcd_difference": "distance of DCD from the optimum",
    "kernel_difference": "distance of the kernel solver from the optimum",
    "function_difference": "distance from the optimum",
    "orders_at_one_time": "orders of magnitude at one time",
    "times_more_precise": "share of times at which DCD is more precise",
    "speed_up": "largest speed-up",
    "speed_up_rows": "largest speed-up at equal rows",
    "speed_up_all_rows": "speed-up with all rows",
    "speed_up_precision": "difference at the largest speed-up, relative to obj*",
    "speed_up_useful": "largest speed-up to at most 1e-2 of obj*",
    "dcd_first_pace": "first pace of DCD over its mean pace",
    "kernel_first_pace": "first pace of the kernel solver over its mean pace",
    "first_pace": "larger first pace of both solvers, over its mean pace",
    "dcd_first_tenth": "gain of DCD in its first tenth over the mean",
    "kernel_first_tenth": "gain of the kernel solver in its first tenth over the mean",
    "first_tenth": "larger gain of both solvers in the first tenth, over the mean",
    "steepness": "ratio of the steepest slopes",
    "mean_steepness": "ratio of the mean slopes",
    "exponent_difference": "difference of the exponents of seconds in rows",
    "kernel_rows": "rows of the kernel solver",
    "times_paper": "seconds over those of DCD as printed",
    "times_block": "seconds over those of DCD by blocks",
    "exponent": "exponent of seconds in rows",
    "auc_target": "AUC of the task with few rows",
}


def spoken(quantity: str) -> str:
    """Return the name of a quantity for readers, such as ``balanced accuracy``."""
    if quantity in _NAMES:
        return _NAMES[quantity]
    words = []
    for word in quantity.split("_"):
        words.append(word.upper() if word in _ACRONYMS else word)
    return " ".join(words)


#: Measures of gains.
AUC = "AUC"


NMSE = "nMSE"
