"""Analyses of the paper on convex feature and task relationships (FETR).

Learning curves, covariances, an audit of the printed table, seconds and theory.
"""
