"""Apache Iceberg's own engine (Java, in Spark) reads and maintains our tables."""
