"""The search in histories of a table that others change: `python -m tests.search.tables --seed N` plays one."""
