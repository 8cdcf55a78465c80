"""How tables call the servers that the same C client drives. Names only."""

OURS, BASE, KAFKA, KAFKA_TUNED = "Headrace", "Headrace, base", "Kafka", "Kafka, tuned"
"""`BASE` is the broker of another checkout of this repository."""
KAFKA_LIKE = (OURS, BASE, KAFKA, KAFKA_TUNED)
