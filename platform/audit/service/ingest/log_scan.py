"""Reads again what a reader has read before, so that damage on disk, and a log that became another one, is found.

All logs of the cluster once within `scan_every_ms`, at `scan_bytes_per_s` at most; at once and as fast as it goes where something
gives reason. A chunk that looks as it did (`store.chunks`) costs no more than its reading.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ....client.connection.cluster import Cluster
from ....client.errors import OffsetOutOfRange
from ....client.fetch.fetched import FetchedPartition, TopicPartition
from ....client.fetch.fetcher import Fetcher
from ....client.fetch.log_offsets import EARLIEST, log_offsets
from ....runtime.clock import Clock
from ....runtime.logs import get_logger
from ...model.tier_reports import LogKey
from ..settings import AuditSettings
from ..store.chunks import MODULUS, Chunk
from ..store.log_books import LogRead
from .read_batches import ReadBatches

log = get_logger(__name__)

MOST_EMPTY = 3
"""After as many answers without a byte, the broker serves nothing of the rest of a chunk."""
AT_ONCE = 500
"""Partitions that are read together: small logs cost a fetch for many of them."""
TURN_MS = 200
"""How long a turn continues before new records are read again."""


class ReadBooks(Protocol):
    """What a reader asks of the ledger, and what it puts there."""

    @property
    def settings(self) -> AuditSettings: ...

    def positions(self, tier: str, names: Iterable[TopicPartition] | None = None) -> tuple[int, Mapping[TopicPartition, int]]: ...

    def take_reads(
        self,
        tier: str,
        generation: int,
        reads: Iterable[LogRead],
        caught_up: Mapping[TopicPartition, int],
        *,
        behind: Collection[TopicPartition] = (),
        level_ms: int | None = None,
    ) -> bool: ...

    def take_scan(self, tier: str, generation: int, reads: Iterable[LogRead]) -> bool: ...

    def chunks(self, key: LogKey) -> list[Chunk]: ...

    def recount(self, tier: str, topic: str, log_starts: Mapping[int, int]) -> None: ...

    def log_shrank(self, tier: str, name: TopicPartition, log_start: int) -> None: ...


@dataclass(slots=True)
class _Part:
    """A chunk that is being read."""

    chunk: Chunk
    reads: list[LogRead] = field(default_factory=list)
    empty: int = 0
    """Answers without a byte, one after another, while it was asked for alone."""

    @property
    def at(self) -> int:
        return self.reads[-1].found.to_offset if self.reads else self.chunk.from_offset


class LogScan:
    """The scan of one reader, on its thread."""

    def __init__(self, tier: str, cluster: Cluster, ledger: ReadBooks, clock: Clock) -> None:
        settings = ledger.settings
        self._tier = tier
        self._cluster = cluster
        self._ledger = ledger
        self._clock = clock
        partition_bytes = settings.fetch_partition_bytes
        self._fetcher = Fetcher(cluster, max_wait_ms=TURN_MS, partition_max_bytes=partition_bytes, hides_aborted=True)
        self._batches = ReadBatches(tier, settings.window_ms)
        self._begun_ms = clock.monotonic_ms()
        self._turn_ms = clock.monotonic_ms()
        self._allowance_bytes = 0.0
        self._is_asked = False
        self._left: deque[tuple[TopicPartition, Chunk]] = deque()
        """The chunks of each partition one after another."""
        self._parts: dict[TopicPartition, _Part] = {}
        """What is read together, one chunk of each partition."""
        self._is_alone = False
        """A fetch of all parts brought nothing: the first is asked for alone."""
        self.rounds = 0
        """Rounds that came to their end."""

    def ask(self, reason: str, names: Iterable[TopicPartition] | None = None) -> None:
        """Begin a round as soon as possible, of these partitions only or of all; without regard to the rate."""
        log.info("log_read_again", tier=self._tier, reason=reason)
        self._is_asked = True
        if names is not None:
            self._begin(names)
        else:
            self._left.clear()
            self._parts = {}

    def go_on(self, known: Iterable[TopicPartition]) -> None:
        """Read what there is time for. Raises ClientError; the next call continues."""
        settings = self._ledger.settings
        now_ms = self._clock.monotonic_ms()
        most = settings.scan_bytes_per_s * TURN_MS / 100
        self._allowance_bytes = min(most, self._allowance_bytes + settings.scan_bytes_per_s * (now_ms - self._turn_ms) / 1000)
        self._turn_ms = now_ms
        if not self._left and not self._parts:
            if not self._is_asked and now_ms - self._begun_ms < settings.scan_every_ms:
                return
            self._begun_ms = now_ms
            self._begin(known)
            if not self._left:
                self._is_asked = False
                return
        while self._is_going() and self._clock.monotonic_ms() - now_ms < TURN_MS:
            self._step()
        if not self._left and not self._parts:
            self._is_asked = False
            self.rounds += 1

    def _is_going(self) -> bool:
        return bool(self._left or self._parts) and (self._is_asked or self._allowance_bytes > 0)

    def _begin(self, names: Iterable[TopicPartition]) -> None:
        _, positions = self._ledger.positions(self._tier, names)
        starts = log_offsets(self._cluster, dict.fromkeys(positions, EARLIEST)) if positions else {}
        self._parts = {}
        for name, start in sorted(starts.items()):
            for chunk in self._ledger.chunks(LogKey(self._tier, *name)):
                if chunk.to_offset > start:
                    self._left.append((name, chunk._replace(from_offset=max(start, chunk.from_offset))))

    def _step(self) -> None:
        """Read the next of each part."""
        while self._left and len(self._parts) < AT_ONCE and self._left[0][0] not in self._parts:
            name, chunk = self._left.popleft()
            self._parts[name] = _Part(chunk)
        asked = list(self._parts)[:1] if self._is_alone else list(self._parts)
        generation, positions = self._ledger.positions(self._tier, asked)
        wanted = {name: self._parts[name].at for name in asked}
        for name in [name for name, at in wanted.items() if at >= positions.get(name, 0)]:
            del wanted[name], self._parts[name]
        if not wanted:
            self._is_alone = False
            return
        try:
            found = self._fetcher.fetch(wanted)
        except OffsetOutOfRange as error:
            # The log begins later now, or is shorter than it was: the reader finds out, and the next round is another.
            self._parts.pop(TopicPartition(error.topic, error.partition), None)
            return
        if failed := next((one.error for one in found if one.error is not None), None):
            raise failed
        is_empty = True
        for fetched in found:
            is_empty &= self._took_nothing(fetched, generation, is_alone=len(wanted) == 1)
        self._is_alone = is_empty

    def _took_nothing(self, fetched: FetchedPartition, generation: int, *, is_alone: bool) -> bool:
        """Take what came of one part; return whether that was not a byte. One of many may not have fitted into the answer."""
        name = TopicPartition(fetched.topic, fetched.partition)
        part = self._parts[name]
        chunk, at = part.chunk, part.at
        read = self._batches.of(fetched, to_offset=chunk.to_offset)
        self._allowance_bytes -= read.found.to_offset - at
        if read.found.to_offset <= at:
            if fetched.high_watermark < chunk.to_offset:
                # It was read up to there, so this broker leads no more, or does not know yet what its followers have. It says
                # nothing about the log. A log that has become shorter is found by the reader.
                del self._parts[name]
                self._left.append((name, chunk))
                return True
            part.empty += is_alone
            if part.empty < MOST_EMPTY:
                return True
            read = self._batches.nothing(fetched, chunk.to_offset)
        part.empty = 0
        part.reads.append(read)
        if read.found.to_offset >= chunk.to_offset:
            del self._parts[name]
            self._compare(name, part, generation)
        return False

    def _compare(self, name: TopicPartition, part: _Part, generation: int) -> None:
        seen = sum(one.digest for one in part.reads) % MODULUS
        is_sound = seen == part.chunk.digest and not any(one.unreadable for one in part.reads)
        if not is_sound and self._ledger.take_scan(self._tier, generation, part.reads):
            log.info(
                "chunk_compared", tier=self._tier, topic=name.topic, partition=name.partition, from_offset=part.chunk.from_offset
            )
