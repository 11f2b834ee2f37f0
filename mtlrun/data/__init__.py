"""Data cards, files, readers, simulators and splitters."""
