"""Replays access logs of web servers as events."""
