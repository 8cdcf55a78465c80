"""Copies batches from one cluster to another, unopened, at the same offsets; counts them by their headers for the audit.

Read `partition_copy` first: it decides everything and touches nothing. `forwarder` carries out what it decides.
"""
