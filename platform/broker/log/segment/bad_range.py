"""A stretch of offsets whose bytes cannot be trusted: never served, never cut while something whole comes after it."""

from typing import NamedTuple


class BadRange(NamedTuple):
    """Half-open."""

    from_offset: int
    to_offset: int
    reason: str
