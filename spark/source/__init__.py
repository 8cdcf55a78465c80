"""The Spark data source: offset ranges of a topic, read in parallel and decoded to columns."""
