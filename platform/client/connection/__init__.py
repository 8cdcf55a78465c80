"""Connections to the brokers of one cluster, and the small requests that every client sends."""
