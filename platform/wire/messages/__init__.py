"""Requests and responses of the Kafka protocol. Produce and Fetch are written by hand; the others are read through kio."""
