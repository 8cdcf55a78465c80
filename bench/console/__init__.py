"""Measures the console with a real browser."""
