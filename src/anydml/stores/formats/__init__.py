"""Formats: descriptions of arrays in files, and the places of their elements; one module per format."""
