"""What stands in a group's own node, and what it means for the group's offsets: whether anybody read when somebody last looked,
and since when nobody does. Pure.

    (nothing)                            nobody was ever seen in it: a group of commits without members, or a new one
    {"has_members":true}                 it had members when it was last looked at
    {"empty_since":1800000000000}        it has had none since then

It outlives brokers, which keep members in memory only. Source of the rule: KIP-211.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from .errors import UnreadableNode
from .values import json_bytes, read_json


class GroupNote(NamedTuple):
    """The node's value."""

    has_members: bool = False
    empty_since_ms: int | None = None

    def to_bytes(self) -> bytes:
        if self.has_members:
            return json_bytes({"has_members": True})
        return b"" if self.empty_since_ms is None else json_bytes({"empty_since": self.empty_since_ms})

    @classmethod
    def read(cls, path: str, data: bytes) -> "GroupNote":
        """Return what stands in `data`. Raises UnreadableNode."""
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
    """Who reads in a group now, as far as the asker knows."""

    has_members: bool = False
    had_members: bool = False
    """There were some since it was last looked at, and there are none now."""
    topics: Collection[str] | None = None
    """What the members read; None when it cannot be told, so that everything has to be taken for read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryDecision:
    """What is to become of a group."""

    note: GroupNote
    """What is to stand in its node."""
    expired_until_ms: int | None
    """Offsets committed at this instant or before have expired; None: none has."""
    kept_topics: Collection[str] = ()
    """Offsets of these have not."""


def decide_expiry(note: GroupNote, readers: Readers, *, now_ms: int, retention_ms: int) -> ExpiryDecision:
    """Return which offsets have expired: those that were not committed for `retention_ms`, of a group that had no members for as
    long, or of topics that none of its members reads.
    """
    until_ms = now_ms - retention_ms
    if readers.has_members:
        known = readers.topics is not None
        return ExpiryDecision(
            note=GroupNote(has_members=True), expired_until_ms=until_ms if known else None, kept_topics=readers.topics or ()
        )
    if note.has_members or readers.had_members:
        # When the last one went is not known exactly: it is counted from when it is found, so never too early.
        note = GroupNote(empty_since_ms=now_ms)
    is_over = note.empty_since_ms is None or note.empty_since_ms <= until_ms
    return ExpiryDecision(note=note, expired_until_ms=until_ms if is_over else None)
