"""Analyses of the paper on multi-task multiple kernel learning (MT-MKL).

Kernel weights, printed and corrected algorithms, protocols, sharing, theory, and an
audit of the printed tables.
"""
