"""The peers' own Python clients: what a Python user gets."""
