"""Sinks: a topic's events into minute files, HTTP posts or a PostgreSQL table, at least once, each with a key to tell it again.

Each is a `Processor` that `reader.ReadingLoop` drives: `minute_files` (with `file_ledger` and `file_formats`), `http_posts` and
`postgresql` (with `columns`). `records`: an event as they write it.
"""
