"""One way from an experiment to its records."""
