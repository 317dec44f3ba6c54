"""An instrumented TensorFlow-style runtime: real training, every span recorded."""

__version__ = "0.1.0"
