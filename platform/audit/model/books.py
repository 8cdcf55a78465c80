"""What everybody said of one topic, window by window: the entries that verdicts are made of. Pure, and whole by itself.

A `TopicBook` needs no other topic's, so that a service may keep some in memory and the others in its store.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .messages import KnownDifference, ProducerWindow, PublishedHour, RangeWindow, Stretch
from .packed_rows import LIVE_WIDTH, PLAIN, Row, Rows
from .runs import RunKey
from .tier_log import TierLog
from .tiers import LIVE, QUARANTINE

RENUMBERED_WIDTH = 6


class SentKey(NamedTuple):
    """Whose sequence numbers, in which partition."""

    partition: int
    producer_id: int
    producer_epoch: int


class Found:
    """What one tier found of one window in one partition."""

    __slots__ = ("altered", "held", "quarantined", "updated_ms")

    def __init__(self, tier: str, updated_ms: int = 0) -> None:
        self.held = Rows(LIVE_WIDTH if tier in (LIVE, QUARANTINE) else PLAIN)
        self.quarantined = Rows()
        self.altered = Rows()
        """Of live and quarantine: what stood there once and does not any more (`checks.former`)."""
        self.updated_ms = updated_ms
        """When the audit last learnt something new of it."""

    def __bool__(self) -> bool:
        return bool(self.held or self.quarantined or self.altered)

    @property
    def parts(self) -> tuple[Rows, Rows, Rows]:
        return self.held, self.quarantined, self.altered

    @property
    def first(self) -> int:
        """The lowest offset of any record here."""
        return min((rows.first for rows in self.parts if rows), default=0)

    @property
    def end(self) -> int:
        """The offset behind the highest record here."""
        return max(rows.end for rows in self.parts)

    def pack(self) -> bytes:
        """Return the entry as bytes; `unpack` takes them back."""
        return _pack(self.parts)

    def unpack(self, packed: bytes) -> None:
        """Add what `pack` gave for the same tier."""
        _unpack(self.parts, packed)


class Sent:
    """What one run sent of one window to one partition under one producer id, by sequence number."""

    __slots__ = ("acknowledged", "renumbered", "uncertain")

    def __init__(self) -> None:
        self.acknowledged = Rows()
        self.uncertain = Rows()
        self.renumbered = Rows(RENUMBERED_WIDTH)
        """(first, count, crc, next producer id, next producer epoch, next first sequence)."""

    @property
    def parts(self) -> tuple[Rows, Rows, Rows]:
        return self.acknowledged, self.uncertain, self.renumbered

    def unite(self, told: "Sent") -> bool:
        """Add what is not known yet; return whether anything was new. A batch that was said twice stands here once."""
        is_new = False
        for mine, theirs in zip(self.parts, told.parts, strict=True):
            # Nearly always what is reported lies behind what is known.
            known = set(mine) if theirs and theirs.first < mine.end else set()
            fresh = [row for row in dict.fromkeys(theirs) if row not in known]
            mine.add(fresh)
            is_new |= bool(fresh)
        return is_new


@dataclass(slots=True)
class ProducerBook:
    """One run's word on one window of one topic."""

    heard_ms: int
    sent: dict[SentKey, Sent] = field(default_factory=dict)
    losses: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class WindowBook:
    """What everybody said of one window of one topic."""

    found: dict[str, dict[int, Found]] = field(default_factory=dict)
    """Tier → partition → what it found there."""
    producers: dict[RunKey, ProducerBook] = field(default_factory=dict)
    redelivered: int = 0
    known: dict[str, KnownDifference] = field(default_factory=dict)
    """Tier → an operator's word."""
    published: PublishedHour | None = None
    """The last report on its hour on the branch `main`."""

    @property
    def is_mentioned(self) -> bool:
        """True when a tier has said anything of the window: one that none mentions does not exist."""
        return bool(self.producers) or any(entry for by_partition in self.found.values() for entry in by_partition.values())

    def entry(self, tier: str, partition: int) -> Found:
        """Return the tier's entry, made where there is none yet."""
        by_partition = self.found.setdefault(tier, {})
        if partition not in by_partition:
            by_partition[partition] = Found(tier)
        return by_partition[partition]

    def restore_found(self, tier: str, partition: int, packed: bytes, updated_ms: int) -> None:
        """Add one stored piece of a tier's entry."""
        entry = self.entry(tier, partition)
        entry.unpack(packed)
        entry.updated_ms = max(entry.updated_ms, updated_ms)

    def take_producer(self, key: RunKey, told: Mapping[SentKey, Sent], losses: Mapping[str, int], now_ms: int) -> bool:
        """Add a run's word; return whether it was new. Any order and any repetition end in the same state."""
        mine = self.producers.get(key)
        is_new = mine is None
        if mine is None:
            mine = self.producers[key] = ProducerBook(now_ms)
        for sent_key, sent in told.items():
            is_new |= mine.sent.setdefault(sent_key, Sent()).unite(sent)
        for name, count in losses.items():
            # Absolute numbers only grow, so the highest is the latest.
            if count > mine.losses.get(name, 0):
                mine.losses[name] = count
                is_new = True
        if is_new:
            mine.heard_ms = max(mine.heard_ms, now_ms)
        return is_new


class Windows(dict[int, WindowBook]):
    """A topic's windows by their start."""

    def holding(self, tier: str, partition: int) -> Iterator[tuple[int, Found]]:
        """Yield what the tier found in the partition, window by window: to look at, not to change."""
        for start, window in dict.items(self):
            entry = window.found.get(tier, {}).get(partition)
            if entry is not None:
                yield start, entry


@dataclass(slots=True)
class TopicBook:
    """The books of one topic."""

    topic_id: str | None = None
    """Which topic of that name; None until a reader has said so."""
    logs: dict[str, dict[int, TierLog]] = field(default_factory=dict)
    """Tier → partition → what it accounts for."""
    windows: Windows = field(default_factory=Windows)

    def window(self, window_start_ms: int) -> WindowBook:
        """Return the window's book, made where there is none yet."""
        if window_start_ms not in self.windows:
            self.windows[window_start_ms] = WindowBook()
        return self.windows[window_start_ms]


def sent_of(window: ProducerWindow) -> dict[SentKey, Sent]:
    """Return a report's ranges as rows."""
    told: dict[SentKey, Sent] = {}
    for one in window.sent:
        sent = told.setdefault(SentKey(one.partition, one.producer_id, one.producer_epoch), Sent())
        sent.acknowledged.add(map(plain, one.acknowledged))
        sent.uncertain.add(map(plain, one.uncertain))
        sent.renumbered.add((*plain(it.sent), it.producer_id, it.producer_epoch, it.first_sequence) for it in one.renumbered)
    return told


def found_of(tier: str, window: RangeWindow) -> Found:
    """Return what a tier told of one window in one partition."""
    entry = Found(tier)
    entry.held.add(map(plain, window.held))
    entry.quarantined.add(map(plain, window.quarantined))
    entry.altered.add(map(plain, window.altered))
    return entry


def pack_sent(told: Mapping[SentKey, Sent]) -> bytes:
    """Return a run's word on a window as bytes; `unpack_sent` takes them back."""
    return b"".join(b"%d,%d,%d:%d;" % (*key, len(rows := _pack(sent.parts))) + rows for key, sent in told.items())


def unpack_sent(packed: bytes) -> dict[SentKey, Sent]:
    """Return what `pack_sent` packed."""
    told: dict[SentKey, Sent] = {}
    dropped = Rows()
    at = 0
    while at < len(packed):
        behind = packed.index(b";", at)
        names, length = packed[at:behind].split(b":")
        partition, producer_id, producer_epoch = (int(word) for word in names.split(b","))
        at = behind + 1 + int(length)
        sent = told.setdefault(SentKey(partition, producer_id, producer_epoch), Sent())
        rows = packed[behind + 1 : at]
        parts: tuple[Rows, ...] = sent.parts
        if rows.count(b",", 0, rows.index(b";")) == len(parts):
            # Stores written before 2026-11-23 have a third part, which was always empty.
            parts = sent.acknowledged, sent.uncertain, dropped, sent.renumbered
        _unpack(parts, rows)
    return told


def plain(one: Stretch) -> Row:
    """Return the stretch as a row."""
    return one.first, one.count, -1 if one.crc is None else one.crc


def _pack(parts: Iterable[Rows]) -> bytes:
    packed = [rows.pack() for rows in parts]
    return b",".join(b"%d" % len(one) for one in packed) + b";" + b"".join(packed)


def _unpack(parts: Iterable[Rows], packed: bytes) -> None:
    behind = packed.index(b";")
    at = behind + 1
    for rows, length in zip(parts, packed[:behind].split(b","), strict=True):
        rows.unpack(packed[at : at + int(length)])
        at += int(length)
