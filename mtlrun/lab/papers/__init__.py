"""What the papers measure: a module or two for each, with functions that experiment files name under `measure`."""
