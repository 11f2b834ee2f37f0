"""Solvers that learn clusters of tasks."""
