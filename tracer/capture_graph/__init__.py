"""A torch module, its loss and its optimizer → a graph of one training step."""
