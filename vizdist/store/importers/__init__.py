"""One foreign format a file: `sniff(path)` says whether it is, `load(path)` reads it."""
