"""The schema registry's figures: `python -m bench.registry`."""
