"""The dashboard: a trace folder becomes graphs, timelines and sentences."""
