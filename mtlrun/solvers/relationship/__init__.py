"""Solvers that learn relationships of features and tasks."""
