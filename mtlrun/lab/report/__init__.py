"""Tables, verdicts and documents from the folder of a run; no solver and no data is
touched.
"""
