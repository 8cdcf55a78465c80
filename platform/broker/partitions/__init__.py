"""Partitions as clients see them, topics, open logs, flushes and cold reads."""
