"""File formats, one module each.

`mtlrun.data.load.READERS` maps the names on cards to functions.
"""
