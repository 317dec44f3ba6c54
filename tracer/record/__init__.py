"""The recorder: every span is a record in a memory-mapped ring that the collector reads."""
