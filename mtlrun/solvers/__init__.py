"""Solvers: pure functions of (TaskData, loss, penalties, options)."""
