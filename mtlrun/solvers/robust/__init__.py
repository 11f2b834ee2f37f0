"""Solvers of robust multi-task learning."""
