"""Planned batches on their way to the live cluster: one in flight for each partition and producer id, settled one by one."""
