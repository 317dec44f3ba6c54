"""The client loop of a task: which step runs for which batch, and what came of all of them."""
