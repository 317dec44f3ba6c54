"""One format a file: `write(trace, path, redactor)`; a redactor of None leaves all as it is."""
