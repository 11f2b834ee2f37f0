"""Tables, verdicts and files made from finished cells."""
