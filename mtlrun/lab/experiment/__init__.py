"""Experiment files: layers, fields, checks."""
