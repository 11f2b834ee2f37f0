"""From the columns of a table to a data set."""
