"""Measures: what a measurement cell calls on a data set (or on published numbers) instead of fitting and scoring."""
