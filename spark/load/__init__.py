"""The load job: everything new of one topic, in one commit."""
