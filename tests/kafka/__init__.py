"""What is tested against a real Apache Kafka: the mirror towards it, from it, and between two of them."""
