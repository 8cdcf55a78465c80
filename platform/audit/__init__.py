"""The audit: who took in how many records of which window, and whether the counts agree.

`model/` decides (pure), `counter` counts batches, `publisher/` reports a tier's counts, `service/` collects, stores,
judges and shows.
"""
