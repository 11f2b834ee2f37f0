"""From a spec to records: the one way of reproduce, train and compare."""
