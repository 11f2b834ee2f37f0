"""The problem to solve: tasks, losses, operators, objectives and certificates."""
