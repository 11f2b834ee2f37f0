"""Data sets by name: cards, files, readers, simulations."""
