"""Small helpers without mathematics: files, texts, YAML, seeds."""
