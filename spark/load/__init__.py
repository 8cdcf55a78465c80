"""The load job: all new records of one topic, in one commit."""
