"""Copies batches to a cluster that gives them other offsets, or from one: towards Apache Kafka and from it.

The records stay unopened; the header gets another producer (`wire.batch.restamp`). What came from where is in the ledger
(`wire.mirror_ledger`). Read `plan` first: it makes the decisions and does no I/O. `sink` names what a destination must do.
"""
