"""Our clients against Apache Kafka with TLS and each SASL mechanism. Wants Java and, for the first run, Maven."""
