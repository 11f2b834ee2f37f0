"""Analyses of the paper on graph-regularized multi-task SVMs.

Seconds and precision of the solvers, transfer, and an audit of the stored curves.
"""
