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

_FETR = (
    MeasureInfo(
        "fetr-audit",
        "mtlrun.experiments.measures.fetr_audit:audit_table",
        "the printed table of relationship learning compared cell by cell",
        {
            "comparisons": Quantity("printed pairs of FETR and a linear method"),
            "lower": Quantity("pairs in which FETR is lower"),
            "equal": Quantity("pairs that are equal to the printed digits"),
            "higher": Quantity("pairs in which FETR is higher"),
            "mtn_not_lower": Quantity("pairs of MTN and a linear method or STN in which MTN is not lower"),
            "mtn_fetr_not_lower": Quantity("joints on which MTN-FETR is not lower than MTN"),
            "mtn_smallest_gain": Quantity("smallest relative reduction by MTN against a linear method or STN"),
            "school_largest_p": Quantity("largest p-value of Welch's test of FETR against a linear method on School"),
        },
        needs_data=False,
    ),
    MeasureInfo(
        "fetr-convergence",
        "mtlrun.experiments.measures.fetr:fetr_convergence",
        "objective of relationship learning against seconds",
        {
            "seconds_to_1e-6": Quantity("seconds to an objective within 1e-6 (relative) of the best one", False),
            "seconds_at_least": Quantity("the same; the seconds of the whole run where that was not reached", False),
            "iterations_to_1e-6": Quantity("iterations to an objective within 1e-6 (relative) of the best one", False),
            "objective": Quantity("objective at the end", False),
            "final_excess": Quantity("excess over the best objective at the end, relative to it", False),
            "iterations": Quantity("iterations in all"),
            "seconds_run": Quantity("seconds in all"),
        },
    ),
    MeasureInfo(
        "fetr-covariances",
        "mtlrun.experiments.measures.fetr:fetr_covariances",
        "covariances of features and tasks that relationship learning finds",
        {
            "cross_largest": Quantity("largest correlation of a task of the first block with one of the second"),
            "cross_negative_share": Quantity("share of these correlations that are negative"),
            "cross_mean": Quantity("mean of these correlations"),
            "inside_mean": Quantity("mean correlation of two tasks of one block"),
            "pair_correlation": Quantity("correlation of the pair of tasks named (5 and 6)"),
            "feature_bounds": Quantity("eigenvalues of the feature precision on a bound of the box"),
            "task_bounds": Quantity("eigenvalues of the task precision on a bound of the box"),
            "iterations": Quantity("iterations of the fit"),
        },
    ),
    MeasureInfo(
        "fetr-w-step",
        "mtlrun.experiments.measures.fetr:w_step_seconds",
        "seconds to solve for W with given precision matrices",
        {
            "seconds": Quantity("seconds to solve for W, X'X given", False),
            "residual": Quantity("residual of the equations, relative to X'Y", False),
            "iterations": Quantity("iterations (1 for direct solvers)"),
            "matrix_gb": Quantity("size of the matrix of the closed form in GB"),
        },
    ),
)

_MTSVM = (
    MeasureInfo(
        "svm-convergence",
        "mtlrun.experiments.measures.mtsvm:svm_convergence",
        "distance of a graph SVM's objective from its optimum over the seconds",
        {
            "function_difference": Quantity("smallest |obj* - obj| of the run", False),
            "relative_difference": Quantity("the same divided by obj*", False),
            "difference_at_dcd_time": Quantity("|obj* - obj| when coordinate ascent is at 1e-8 of its optimum", False),
            "dcd_seconds": Quantity("seconds of block-wise coordinate ascent to 1e-8 of its optimum", False),
            "seconds_to_1e-2": Quantity("seconds to within 1e-2 of the optimum, relative", False),
            "seconds_to_1e-4": Quantity("seconds to within 1e-4 of the optimum, relative", False),
            "seconds_to_1e-6": Quantity("seconds to within 1e-6 of the optimum, relative", False),
            "seconds_to_1e-8": Quantity("seconds to within 1e-8 of the optimum, relative", False),
            "seconds_at_least": Quantity("seconds to 1e-4, else all seconds of the (longest) run", False),
            "seconds_run": Quantity("seconds of the whole run (of all tolerances, for LIBSVM)"),
            "optimum": Quantity("obj*, of the problem that the solver solves"),
            "optimum_gap": Quantity("relative width of the interval that holds obj*", False),
        },
    ),
    MeasureInfo(
        "svm-scaling",
        "mtlrun.experiments.measures.mtsvm:svm_scaling",
        "seconds that a graph SVM needs to a relative precision over the number of rows",
        {
            "seconds_to_precision": Quantity("seconds to the relative precision with the largest size finished", False),
            "seconds_at_least": Quantity(
                "seconds to the relative precision with all rows, else the longest run", False
            ),
            "largest_n": Quantity("largest number of rows finished", True),
            "exponent": Quantity("b of seconds ~ rows^b over the sizes finished", False),
            "microseconds_per_row": Quantity("seconds per million rows with the largest size finished", False),
            "relative_gap": Quantity("relative duality gap with the largest size finished", False),
            "peak_gb": Quantity("largest memory of the process so far in GB", False),
        },
    ),
    MeasureInfo(
        "svm-seconds",
        "mtlrun.experiments.measures.mtsvm:svm_seconds",
        "seconds that a graph SVM needs to a relative precision, on a part of the rows",
        {
            "n": Quantity("rows trained on"),
            "seconds_to_precision": Quantity("seconds to the relative precision", False),
            "seconds_at_least": Quantity("the same, else all seconds of the (longest) run", False),
            "seconds_run": Quantity("seconds of the whole run (of all tolerances, for LIBSVM)"),
            "microseconds_per_row": Quantity("seconds to the relative precision per million rows", False),
            "relative_gap": Quantity("relative duality gap at the end", False),
            "peak_gb": Quantity("largest memory of the process so far in GB", False),
        },
    ),
    MeasureInfo(
        "svm-statistics",
        "mtlrun.experiments.measures.mtsvm:svm_statistics",
        "sizes of a data set as a graph SVM sees it",
        {
            "dimension": Quantity("features; weighted-degree features of strings"),
            "examples": Quantity("examples in all tasks"),
            "tasks": Quantity("tasks"),
            "smallest_task": Quantity("examples of the smallest task"),
            "largest_task": Quantity("examples of the largest task"),
            "positive_share": Quantity("share of the labels that are positive"),
        },
    ),
    MeasureInfo(
        "svm-transfer",
        "mtlrun.experiments.measures.transfer:svm_transfer",
        "AUC of coupled, pooled and independent SVMs on strings when one task has few of them",
        {
            "auc_target": Quantity("AUC of the task with few rows", True),
            "auc": Quantity("mean AUC of all tasks", True),
            "C": Quantity("C chosen by cross-validation"),
            "coupling": Quantity("coupling chosen by cross-validation"),
        },
    ),
)

_MTMKL = (
    MeasureInfo(
        "mtmkl-algorithm",
        "mtlrun.experiments.measures.mtmkl:algorithm",
        "objective of multi-task MKL over the iterations, by the printed algorithm or the corrected one",
        {
            "gap": Quantity("certified relative gap at the end", False),
            "objective": Quantity("objective at the end", False),
            "best_objective": Quantity("smallest objective of all iterations", False),
            "cycle_length": Quantity("iterations after which the weights come back, 0 if they do not"),
            "cycle_spread": Quantity("largest minus smallest objective within the cycle, relative"),
            "n_iter": Quantity("outer iterations"),
            "svm_fits": Quantity("machines trained"),
        },
    ),
    MeasureInfo(
        "mtmkl-audit",
        "mtlrun.experiments.measures.mtmkl:table_audit",
        "ranks, Friedman's and Holm's tests recomputed from the published accuracies of multi-task MKL",
        {
            "comparisons": Quantity("methods compared with the paper's"),
            "reproduced": Quantity("comparisons whose statistic and p-value come out to the printed digits"),
            "not_reproduced": Quantity("comparisons whose statistic or p-value does not come out"),
            "claimed_rejections": Quantity("methods that the text says are significantly worse"),
            "rejections": Quantity("methods that Holm's test rejects, recomputed"),
            "printed_rejections": Quantity("methods whose printed p-value is below the printed alpha"),
            "findings": Quantity("printed numbers that do not follow from the accuracies"),
            "friedman_p": Quantity("p-value of Friedman's chi2"),
            "iman_davenport_p": Quantity("p-value of Iman and Davenport's F"),
        },
        needs_data=False,
    ),
    MeasureInfo(
        "mtmkl-protocols",
        "mtlrun.experiments.measures.mtmkl_protocols:protocols",
        "multi-task MKL by a clean protocol and by the authors', which reports its best test accuracy",
        {
            "clean": Quantity("test accuracy, parameters chosen on the validation part", True),
            "authors": Quantity("what the authors' protocol reports: its largest test accuracy", True),
            "authors_last": Quantity("test accuracy of the last iteration of the authors' protocol", True),
            "excess": Quantity("authors minus clean"),
            "leak": Quantity("authors minus authors_last: what the maximum over test accuracies adds"),
            "clean_best_on_test": Quantity("largest test accuracy of all candidates of the clean protocol", True),
            "authors_lam": Quantity("lam chosen by the authors' protocol"),
        },
    ),
    MeasureInfo(
        "mtmkl-weights",
        "mtlrun.experiments.measures.mtmkl:kernel_weights",
        "kernel weights of the tasks, C and lam chosen on the validation part",
        {
            "accuracy": Quantity("test accuracy", True),
            "chosen_C": Quantity("C"),
            "chosen_lam": Quantity("lam"),
            "groups": Quantity("groups of tasks with the same kernel weights (within 0.02)"),
            "smallest_distance": Quantity("smallest distance between the weights of two tasks"),
            "claimed_distance": Quantity("largest distance between the weights of A/G, A/O and G/Y"),
            "off_line": Quantity("largest distance of the sum of a task's weights from 1"),
            "ties": Quantity("other candidates with the same validation accuracy"),
        },
    ),
)

#: In alphabetical order.
MEASURES: dict[str, MeasureInfo] = {
    info.name: info
    for info in (
        _STATISTICS,
        *_FETR,
        *_MTMKL,
        *_MTSVM,
    )
}
