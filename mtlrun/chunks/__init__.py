"""Tables larger than memory, as sums of products."""
