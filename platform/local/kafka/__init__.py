"""Apache Kafka as the engine of a local platform: its jars, one KRaft node in a folder, whether a node answers."""
