"""Analyses of the paper on convex feature and task relationships (FETR): results, seconds, theory."""
