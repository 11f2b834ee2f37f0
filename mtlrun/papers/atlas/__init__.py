"""Analyses of the atlas: when multi-task learning gains, and by which methods."""
