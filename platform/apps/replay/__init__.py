"""Sends the access logs of web servers as events."""
