"""The paper's consumer: a blocking stream of messages, in a group that coordinates through ZooKeeper."""
