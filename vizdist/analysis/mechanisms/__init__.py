"""What a step proves of the mechanisms at work in it; one a file, each with its words."""
