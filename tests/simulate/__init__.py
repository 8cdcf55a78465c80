"""Three replicas of one partition in one process: the machine of `broker/replication`, a log, a dictionary for ZooKeeper, and
messages as calls. Every run follows from its seed.
"""
