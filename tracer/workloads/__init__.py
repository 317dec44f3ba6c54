"""Small real models on real data; one a file."""
