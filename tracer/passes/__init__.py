"""Pure rewrites, Graph → Graph, in the order in which a master applies them."""
