"""Hierarchical (mixed effects) models.

Variances are estimated by restricted maximum likelihood, coefficients by their
posterior.
"""
