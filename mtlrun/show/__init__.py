"""Report tables, figures and pages that the laboratory and comparisons share."""
