"""File formats, one module each.

`mtlrun.data.sets.load.READERS` maps the names on cards to functions.
"""
