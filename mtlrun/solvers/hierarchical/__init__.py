"""Hierarchical (mixed effects) models: variances by restricted maximum likelihood, coefficients by their posterior."""
