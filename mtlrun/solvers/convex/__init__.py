"""Solvers of convex objectives: loss plus penalties."""
