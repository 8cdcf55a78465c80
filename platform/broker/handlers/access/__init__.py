"""Holds requests to the access rules: the table of what each API needs, and what carries it out."""
