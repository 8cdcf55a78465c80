"""Lineage: OpenLineage events of loads and publishes, sent by the official client and configured as that client is."""
