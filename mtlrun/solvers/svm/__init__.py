"""Solvers of coupled support vector machines."""
