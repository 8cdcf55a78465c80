"""Replication between brokers: runs the machine (`broker/replication`) of each replica on its log, ZooKeeper and the network."""
