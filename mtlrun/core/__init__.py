"""Containers, losses, penalties, certificates, metrics and statistics; depends on nothing above it."""
