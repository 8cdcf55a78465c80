"""Topics and partitions as clients see them, their open logs, flushes and cold reads."""
