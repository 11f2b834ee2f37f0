"""What a file can name: methods, parameters, rules and versions, metrics, analyses."""
