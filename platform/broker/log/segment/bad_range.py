"""A damaged range of offsets. It is never served, and never cut off while a whole batch follows it."""

from typing import NamedTuple


class BadRange(NamedTuple):
    """Half-open."""

    from_offset: int
    to_offset: int
    reason: str
