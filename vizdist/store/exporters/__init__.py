"""One format a file: `write(trace, path, redactor)`; an `AsItIs` leaves all as it is."""
