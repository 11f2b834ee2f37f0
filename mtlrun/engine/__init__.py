"""Jobs: what they are, how they are computed, searched and stored. Knows no papers,
tables of users or reports.
"""
