"""Sinks: a topic's events into minute files, HTTP posts or a PostgreSQL table, at least once, each with a key to tell it again.

`pump`: one process, a member of a consumer group. `sink`: what it asks of a destination. `minute_files` (with `file_ledger` and
`file_formats`), `http_posts` and `postgresql` (with `columns`): the destinations. `records`: an event as they get it.
`counts`: what is told to the audit.
"""
