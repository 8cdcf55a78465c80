"""The books in memory and their SQLite file; `ledger` is their only owner."""
