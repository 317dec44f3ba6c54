"""HTTP routes beside Dash: binary tiles and JSON for the canvases, and who may ask."""
