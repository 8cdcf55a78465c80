"""Connections to the brokers of one cluster, and the questions that every client asks."""
