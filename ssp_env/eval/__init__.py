"""Measures and statistics of results."""
