"""Analyses of the paper on graph-regularized multi-task SVMs, and the runs of their solvers."""
