"""Reproduce papers: experiment files, plan, claims, reports and analyses of papers."""
