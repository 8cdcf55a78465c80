"""Positions in the application's own database, moved in the transaction that stores the records.

`protocol` says what the reader needs of a database, `sqlite` and `postgresql` are two, `table` is what both share, `settling`
decides what became of a transaction whose answer was lost.
"""
