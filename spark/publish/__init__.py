"""Counts what the warehouse holds, and publishes the hours that the audit has proven."""
