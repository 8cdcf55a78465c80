"""Connections of clients: frames in, responses out in the order of the requests. Knows no API."""
