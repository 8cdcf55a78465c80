"""Apache Spark's own Kafka source, as one that knows nothing of us reads topics with it."""
