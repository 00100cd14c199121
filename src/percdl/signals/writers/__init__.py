"""Recordings and events out, one module per format."""
