"""Read batches by offset. Keeps no position and joins no group."""
