"""The problem to be solved: tasks, losses, operators, objectives and their certificates."""
