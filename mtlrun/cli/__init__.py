"""The command line: a module per command, or for a few that are alike."""
