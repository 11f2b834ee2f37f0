"""A table of the user -> the methods that are compared on it -> whether multi-task learning helps there."""
