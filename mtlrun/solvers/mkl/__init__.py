"""Solvers of multiple kernel learning for groups of tasks."""
