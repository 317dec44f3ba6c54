"""One question a file: a trace in, a small dataclass out."""
