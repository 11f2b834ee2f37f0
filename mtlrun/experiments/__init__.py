"""From a YAML to cells, their execution, storage and resumption."""
