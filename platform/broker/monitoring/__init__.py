"""Metrics, health and the HTTP server of a running broker."""
