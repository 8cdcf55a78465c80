"""Faults that are planted in the running platform to see that the audit finds them."""
