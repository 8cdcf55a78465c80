"""The note in a group's own node, and which of the group's offsets have expired by it. Pure.

    (nothing)                            no member was ever seen: a group of commits without members, or a new group
    {"has_members":true}                 the group had members at the last look
    {"empty_since":1800000000000}        the group has had no members since then

The note outlives the brokers, which keep members only in memory. Source of the rule: KIP-211.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from .errors import UnreadableNode
from .values import json_bytes, read_json


class GroupNote(NamedTuple):
    """The value of a group's node."""

    has_members: bool = False
    empty_since_ms: int | None = None

    def to_bytes(self) -> bytes:
        if self.has_members:
            return json_bytes({"has_members": True})
        return b"" if self.empty_since_ms is None else json_bytes({"empty_since": self.empty_since_ms})

    @classmethod
    def read(cls, path: str, data: bytes) -> "GroupNote":
        """Return the note in a node's `data`. Raises UnreadableNode."""
        if not data:
            return cls()
        match read_json(path, data):
            case {"has_members": True}:
                return cls(has_members=True)
            case {"empty_since": int(since_ms)} if not isinstance(since_ms, bool):
                return cls(empty_since_ms=since_ms)
        raise UnreadableNode(path, data, "has_members or empty_since is expected")


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """Who reads in a group now, as far as the caller knows."""

    has_members: bool = False
    had_members: bool = False
    """The group had members since the last look and has none now."""
    topics: Collection[str] | None = None
    """The topics that the members read. None when they are unknown: then every topic counts as read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryDecision:
    """Which of a group's offsets have expired, and what to note about the group."""

    note: GroupNote
    """The new content of the group's node."""
    expired_until_ms: int | None
    """Offsets committed at this instant or before have expired. None: none has."""
    kept_topics: Collection[str] = ()
    """The offsets of these topics have not expired."""


def decide_expiry(note: GroupNote, readers: Readers, *, now_ms: int, retention_ms: int) -> ExpiryDecision:
    """Return which offsets have expired: those older than `retention_ms`, of a group that had no members for as long, or of
    topics that none of its members reads.
    """
    until_ms = now_ms - retention_ms
    if readers.has_members:
        known = readers.topics is not None
        return ExpiryDecision(
            note=GroupNote(has_members=True), expired_until_ms=until_ms if known else None, kept_topics=readers.topics or ()
        )
    if note.has_members or readers.had_members:
        # The exact time of the last departure is unknown. The time of this look is later, so nothing expires too early.
        note = GroupNote(empty_since_ms=now_ms)
    is_over = note.empty_since_ms is None or note.empty_since_ms <= until_ms
    return ExpiryDecision(note=note, expired_until_ms=until_ms if is_over else None)
