"""Traces on disk, opened: columns, indexes, queries, importers."""
