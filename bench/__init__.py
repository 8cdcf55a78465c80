"""Measurements: ratios against a physical limit taken in the same run on the same machine. Never a pass or a fail."""
