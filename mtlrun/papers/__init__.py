"""Analyses of the papers, one module or folder each.

Experiment files name their functions under `measure`.
"""
