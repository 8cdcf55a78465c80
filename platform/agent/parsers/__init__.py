"""Parsers of lines: bytes in, an event and its time out, or the reason why not. Pure; one file each. `access_log_bodies` is the
fast way of `access_log`.
"""
