"""How variables, data and updates are spread over a cluster; one strategy a file."""
