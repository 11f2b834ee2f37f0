"""File formats, one module each; `mtlrun.data.load.READERS` says which function reads which card."""
