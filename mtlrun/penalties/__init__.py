"""Penalties: values, proximal operators, dual norms."""
