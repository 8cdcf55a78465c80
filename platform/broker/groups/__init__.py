"""Kafka's classic group protocol, decided apart from sockets, clocks and ZooKeeper: events and instants in, answers out."""
