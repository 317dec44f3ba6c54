"""One optimization a file; each works on a placed graph, or on what a cut made of it."""
