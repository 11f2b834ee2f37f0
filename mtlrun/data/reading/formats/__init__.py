"""File formats of tables, one module each.

`mtlrun.data.reading.read` maps the suffixes of files to functions of these modules.
"""
