"""Transactions of Kafka's producer protocol, as much as a copier needs: no records, no buffers, one transaction after another."""
