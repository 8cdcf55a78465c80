"""Counting what the warehouse holds, and publishing the hours that the audit has proven."""
