"""The schema registry: Confluent's REST API over a state whose truth is one topic of the live cluster."""
