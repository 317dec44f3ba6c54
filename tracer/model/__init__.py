"""The vocabulary that runtime, trace and dashboard share; standard library only."""
