"""Multi-task learning: estimators, certified solvers and reproducible experiments."""

__version__ = "0.1.0"
