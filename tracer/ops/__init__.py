"""Op name → kernel, shape rule: what a node does when it runs."""
