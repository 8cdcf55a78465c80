"""The quarantine topic of a history: what the load puts there, what becomes of it, and what the audit reads of it."""

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.audit.model.messages import EXPIRED, Skipped
from headrace.audit.model.tier_reports import LiveBatch, LogKey, PartitionRead
from headrace.audit.model.tiers import QUARANTINE

from .records import TOPIC, Entry

if TYPE_CHECKING:
    from .world import World


@dataclass
class Aside:
    """One record of the quarantine topic."""

    partition: int
    """Where it comes from."""
    origin: Entry
    content: int
    is_damaged: bool = False


class QuarantineTopic:
    """One partition, in which offsets count records."""

    def __init__(self, world: "World", draw: random.Random) -> None:
        self._world = world
        self._random = draw
        self.records: list[Aside] = []
        self.begins_at = 0
        self.position: int | None = None
        """Where the audit reads next."""
        self.seen: dict[int, int] = {}
        """Offset → the content that the audit met there first."""
        self.expired_unread = False

    def put(self, partition: int, entry: Entry) -> None:
        """The load puts a record aside; it may get lost on its way, or be put there twice."""
        if self._random.random() < 0.15:
            return
        for _ in range(1 + (self._random.random() < 0.1)):
            self.records.append(Aside(partition, entry, self._world.new_content()))

    def happens(self) -> None:
        """Something becomes of what is there."""
        kept = self.records[self.begins_at :]
        draw = self._random.random()
        if draw < 0.4 and not any(one.is_damaged for one in self.records):
            self.begins_at = min(len(self.records), self.begins_at + self._random.randint(0, 2))
        elif draw < 0.7 and kept:
            one = self._random.choice(kept)
            one.content, one.is_damaged = self._world.new_content(), True

    def read(self, *, to_end: bool = False) -> None:
        """The audit reads on; at the end it also reads again what it has read before."""
        world = self._world
        if self.position is not None and self.position < self.begins_at:
            skipped = (Skipped(self.position, self.begins_at, EXPIRED),)
            self.expired_unread = True
            self._take(self.position, self.begins_at, skipped)
        elif self.position is None and self.begins_at:
            self.expired_unread = True
        start = max(self.position or 0, self.begins_at)
        end = len(self.records) if to_end else self._random.randint(start, len(self.records))
        self._take(min(self.begins_at, start) if to_end and self.position is not None else start, end, ())
        key = LogKey(QUARANTINE, TOPIC, 0)
        world.books.expire(key, self.begins_at, world.now_ms, world.journal)
        if end == len(self.records):
            world.books.caught_up(key, world.now_ms)
        self.position = end

    def _take(self, start: int, end: int, skipped: tuple[Skipped, ...]) -> None:
        windows: dict[int, list[LiveBatch]] = {}
        for offset in range(start, end) if not skipped else ():
            one = self.records[offset]
            self.seen.setdefault(offset, one.content)
            row = LiveBatch(offset, 1, one.content, 2 * one.partition + 1, 1, one.origin.offset)
            windows.setdefault(one.origin.window, []).append(row)
        read = PartitionRead(topic=TOPIC, partition=0, from_offset=start, to_offset=end, windows=windows, skipped=skipped)
        self._world.books.take_read(QUARANTINE, read, self._world.now_ms, self._world.journal)

    def forget(self) -> tuple[int | None, dict[int, int], bool]:
        """Let the audit know nothing of it; return what it knew, for `remember`."""
        known = self.position, self.seen, self.expired_unread
        self.position, self.seen, self.expired_unread = None, {}, False
        return known

    def remember(self, known: tuple[int | None, dict[int, int], bool]) -> None:
        self.position, self.seen, self.expired_unread = known

    def fate_of(self, partition: int, offset: int) -> str:
        """Return what became of the record that was put aside from there: sound, altered, expired, missing or unknown."""
        found = set()
        for at, one in enumerate(self.records):
            if (one.partition, one.origin.offset) != (partition, offset):
                continue
            if at < self.begins_at:
                found.add("expired" if at in self.seen else "unread")
            else:
                found.add("sound" if self.seen.get(at, one.content) == one.content else "altered")
        return next(
            (fate for fate in ("sound", "altered", "expired") if fate in found), "unknown" if self.expired_unread else "missing"
        )
