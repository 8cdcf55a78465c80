"""The paper's consumer: a blocking stream, in a group that coordinates through ZooKeeper."""
