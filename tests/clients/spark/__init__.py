"""Apache Spark's own Kafka source reads our topics."""
