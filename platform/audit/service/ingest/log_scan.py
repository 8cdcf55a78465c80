"""Reads again what a reader has read before, so that damage on disk, and a log that became another one, is found.

All logs of the cluster once within `scan_every_ms`, at `scan_bytes_per_s` at most; at once and as fast as it goes where something
gives reason. A chunk that looks as it did (`store.chunks`) costs no more than its reading.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Protocol

from ....client.connection.cluster import Cluster
from ....client.errors import OffsetOutOfRange
from ....client.fetch.fetched import TopicPartition
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
TURN_MS = 200
"""How long a turn continues before new records are read again."""


class ReadBooks(Protocol):
    """What a reader asks of the ledger, and what it puts there."""

    @property
    def settings(self) -> AuditSettings: ...

    def positions(self, tier: str) -> tuple[int, dict[TopicPartition, int]]: ...

    def take_reads(
        self, tier: str, generation: int, reads: Iterable[LogRead], caught_up: Mapping[TopicPartition, int]
    ) -> bool: ...

    def take_scan(self, tier: str, generation: int, reads: Iterable[LogRead]) -> bool: ...

    def chunks(self, key: LogKey) -> list[Chunk]: ...

    def recount(self, tier: str, topic: str, log_starts: Mapping[int, int]) -> None: ...

    def log_shrank(self, tier: str, name: TopicPartition, log_start: int) -> None: ...


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
        self._part: list[LogRead] = []
        """What was read of the chunk at hand."""
        self._empty = 0
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
            self._part = []

    def go_on(self, known: Iterable[TopicPartition]) -> None:
        """Read what there is time for. Raises ClientError; the next call continues."""
        settings = self._ledger.settings
        now_ms = self._clock.monotonic_ms()
        most = settings.scan_bytes_per_s * TURN_MS / 100
        self._allowance_bytes = min(most, self._allowance_bytes + settings.scan_bytes_per_s * (now_ms - self._turn_ms) / 1000)
        self._turn_ms = now_ms
        if not self._left:
            if not self._is_asked and now_ms - self._begun_ms < settings.scan_every_ms:
                return
            self._begun_ms = now_ms
            self._begin(known)
            if not self._left:
                self._is_asked = False
                return
        while self._left and (self._is_asked or self._allowance_bytes > 0) and self._clock.monotonic_ms() - now_ms < TURN_MS:
            self._step()
        if not self._left:
            self._is_asked = False
            self.rounds += 1

    def _begin(self, names: Iterable[TopicPartition]) -> None:
        _, positions = self._ledger.positions(self._tier)
        wanted = [name for name in names if name in positions]
        starts = log_offsets(self._cluster, dict.fromkeys(wanted, EARLIEST)) if wanted else {}
        self._part = []
        for name, start in sorted(starts.items()):
            for chunk in self._ledger.chunks(LogKey(self._tier, *name)):
                if chunk.to_offset > start:
                    self._left.append((name, chunk._replace(from_offset=max(start, chunk.from_offset))))

    def _step(self) -> None:
        name, chunk = self._left[0]
        at = self._part[-1].found.to_offset if self._part else chunk.from_offset
        generation, positions = self._ledger.positions(self._tier)
        if at >= positions.get(name, 0):
            self._next()
            return
        try:
            (fetched,) = self._fetcher.fetch({name: at})
        except OffsetOutOfRange:
            # The log begins later now, or is shorter than it was: the reader finds out, and the next round is another.
            self._next()
            return
        if fetched.error is not None:
            raise fetched.error
        read = self._batches.of(fetched, to_offset=chunk.to_offset)
        self._allowance_bytes -= read.found.to_offset - at
        if read.found.to_offset <= at:
            self._empty += 1
            if self._empty < MOST_EMPTY:
                return
            read = self._batches.nothing(fetched, chunk.to_offset)
        self._empty = 0
        self._part.append(read)
        if read.found.to_offset < chunk.to_offset:
            return
        seen = sum(one.digest for one in self._part) % MODULUS
        is_sound = seen == chunk.digest and not any(one.unreadable for one in self._part)
        if not is_sound and self._ledger.take_scan(self._tier, generation, self._part):
            log.info("chunk_compared", tier=self._tier, topic=name.topic, partition=name.partition, from_offset=chunk.from_offset)
        self._next()

    def _next(self) -> None:
        self._left.popleft()
        self._part = []
        self._empty = 0
