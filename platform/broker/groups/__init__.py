"""Kafka's classic group protocol. The deciding files know no socket, clock or ZooKeeper: events and instants in, answers out."""
