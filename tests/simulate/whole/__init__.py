"""Three whole brokers in one process: real handlers, partitions, replication, logs and groups, on simulated machines.

Time, threads, network and ZooKeeper are simulated; files are real, on a recorded disk. Every run follows from its seed
(decision 76).
"""
