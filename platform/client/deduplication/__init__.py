"""Tells which messages were processed before, for readers that receive some of them twice. docs/CONSUMERS.md is the manual.

`Deduplicator` is the entry point; `ranges` holds what is remembered, `store` keeps it over restarts.
"""

from .deduplicator import Deduplicator

__all__ = ["Deduplicator"]
