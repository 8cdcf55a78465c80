"""From a topic of Avro events to a committed table: our load, and Spark's own Kafka source beside it."""
