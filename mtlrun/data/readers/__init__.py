"""One module per file format; each parses bytes or text and knows nothing of cards."""
