"""Analyses of the paper on multi-task multiple kernel learning: its protocols, an audit, the repaired update."""
