"""Starts the processes of a run, watches them, and tells one root cause when one fails."""
