"""Reproduce papers: experiment files, plan, claims and reports."""
