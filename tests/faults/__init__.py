"""Three broker processes and one ZooKeeper under faults drawn from a seed: what was acknowledged is read, once."""
