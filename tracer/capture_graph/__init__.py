"""A torch module, its loss and its optimizer become one graph."""
