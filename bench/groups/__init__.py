"""How fast a group that coordinates through ZooKeeper shares out its partitions, and takes over those of a member that died."""
