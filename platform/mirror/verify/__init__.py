"""Compares two clusters batch by batch: `headrace mirror verify`. Reads, writes nothing.

`verification.py` asks both clusters and carries out; `read_ahead.py` reads each of them on a thread of its own. What is a
difference is decided by `identical.py` (the same offsets in both) or by `by_ledger.py` (offsets that a mirror's ledger leads
back), both pure.
"""
