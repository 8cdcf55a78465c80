"""Copies batches from one cluster to another, unopened, at the same offsets; counts them by their headers for the audit.

Read `partition_copy` first: it makes every decision and does no I/O. `forwarder` carries the decisions out.
"""
