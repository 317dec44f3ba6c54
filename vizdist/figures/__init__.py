"""Results become pictures: plotly figures and payloads for the canvases."""
