"""Reports again what the destination holds, for partitions of which an operator wishes it (`headrace audit restate mirror`).

Reads the destination's log up to where the mirror has reported, beside the copying, on a thread and a connection of its own; the
range that the copying counts is not touched. Only offsets at which the destination holds a batch are reported again: of the
others stands what the mirror said before, so that a lost segment is not excused, nor an expired range forgotten.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from ..audit.counter import WindowCounter
from ..audit.model.messages import RangeWindow
from ..audit.model.tiers import MIRROR
from ..audit.publisher import RangeReporter
from ..client.connection.cluster import Cluster
from ..client.errors import UnknownTopic
from ..client.fetch.fetched import TopicPartition
from ..client.fetch.log_offsets import log_range
from ..client.fetch.read_range import read_range
from ..coordination.restate_requests import RestateRequest
from ..errors import HeadraceError
from ..runtime.logs import get_logger
from ..wire.batch.record_batch import BatchHeader
from .topics.naming import Naming

log = get_logger(__name__)

EVERY_MS = 2_000
"""How often wishes are looked for."""
CHUNK_BYTES = 4 << 20
"""Batches between two reports. After each the thread rests as long as it worked: the copying goes first."""
READ_TIMEOUT_MS = 5_000
REQUEST_TIMEOUT_MS = 5_000
REPORT_TIMEOUT_MS = 10_000
STOP_MS = 1_000


class Requests(Protocol):
    """The wishes; `coordination.RestateRequests`."""

    def open(self, tier: str, /) -> list[RestateRequest]: ...

    def move(self, request: RestateRequest, from_offset: int, /) -> RestateRequest | None: ...

    def end(self, request: RestateRequest, /) -> bool: ...


class HeldRange(NamedTuple):
    """Offsets [from_offset, to_offset), all of them in batches that the log holds."""

    from_offset: int
    to_offset: int
    windows: dict[int, RangeWindow]


def held_ranges(
    batches: Iterable[tuple[BatchHeader, memoryview]], from_offset: int, to_offset: int, *, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[HeldRange]:
    """Yield what the batches hold of [from_offset, to_offset), in order: a range ends where the next batch does not follow, and
    after `chunk_bytes`.
    """
    counter, begin, end, size_bytes = WindowCounter(), from_offset, from_offset, 0
    for header, batch in batches:
        if size_bytes and (header.position > end or size_bytes >= chunk_bytes):
            yield _taken(counter, begin, end)
            size_bytes = 0
        if not size_bytes:
            begin = max(from_offset, header.position)
        counter.add(header, batch, from_offset=from_offset, to_offset=to_offset)
        end = min(header.next_offset, to_offset)
        size_bytes += header.size_bytes
    if size_bytes:
        yield _taken(counter, begin, end)


def _taken(counter: WindowCounter, begin: int, end: int) -> HeldRange:
    windows = {start: RangeWindow(held=tuple(one.stretch for one in found)) for start, found in counter.take().items()}
    return HeldRange(begin, end, windows)


class Restatement:
    """Carries out the wishes, one partition after another. `start` begins the thread, `stop` ends it."""

    def __init__(
        self,
        destination: str,
        reporter: RangeReporter,
        requests: Requests,
        naming: Naming | None = None,
        *,
        every_ms: int = EVERY_MS,
    ) -> None:
        self._cluster = Cluster(destination, client_id="headrace-mirror-restate", request_timeout_ms=REQUEST_TIMEOUT_MS)
        self._reporter = reporter
        self._requests = requests
        self._naming = naming or Naming()
        self._every_ms = every_ms
        self._stopping = threading.Event()
        self._is_troubled = False
        self._thread = threading.Thread(target=self._run, name="mirror-restatement", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread. What is not reported again yet is so by the next mirror."""
        self._stopping.set()
        self._cluster.close()
        if self._thread.ident is not None:
            self._thread.join(STOP_MS / 1000)

    def _run(self) -> None:
        while not self._stopping.is_set():
            trouble = self._turn()
            if trouble is not None and not self._is_troubled and not self._stopping.is_set():
                log.warning("restatement_waits", reason=str(trouble))
            self._is_troubled = trouble is not None
            self._stopping.wait(self._every_ms / 1000)

    def _turn(self) -> Exception | None:
        """Carry out what can be; return the last failure. A wish that failed stays, and is tried again."""
        trouble: Exception | None = None
        try:
            requests = self._requests.open(MIRROR)
        except HeadraceError as error:
            return error
        for request in requests:
            if self._stopping.is_set():
                break
            try:
                self._carry_out(request)
            except Exception as error:
                # A fault of ours here must not end the mirror.
                if not isinstance(error, HeadraceError):
                    log.error("restatement_failed", topic=request.topic, partition=request.partition, exc_info=True)
                trouble = error
        return trouble

    def _carry_out(self, request: RestateRequest) -> None:
        _, topic, partition, from_offset, _ = request
        start, end = self._bounds(topic, partition)
        start = max(start, from_offset)
        count, began = 0, time.monotonic()
        for held in held_ranges(self._read(topic, partition, start, end), start, end):
            self._reporter.report(topic, partition, *held, timeout_ms=REPORT_TIMEOUT_MS)
            count += sum(one.count for window in held.windows.values() for one in window.held)
            moved = self._requests.move(request, held.to_offset)
            if moved is None or self._stopping.wait(time.monotonic() - began):
                return
            request, began = moved, time.monotonic()
        if self._requests.end(request):
            log.info("restated", topic=topic, partition=partition, from_offset=start, to_offset=end, records=count)

    def _read(self, topic: str, partition: int, start: int, end: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        # Damage is skipped here: the audit's own reader of the destination tells it.
        topic = self._naming.destination_name(topic)
        return read_range(self._cluster, topic, partition, start, end, on_corrupt=lambda bad: None, timeout_ms=READ_TIMEOUT_MS)

    def _bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return from where to where there is something to say again; nothing: (0, 0)."""
        reported = self._reporter.reported(topic, partition)
        topic = self._naming.destination_name(topic)
        self._cluster.forget(topic)
        try:
            if reported is None or partition not in self._cluster.partitions(topic):
                return 0, 0
        except UnknownTopic:
            return 0, 0
        start, end = log_range(self._cluster, TopicPartition(topic, partition))
        return start, min(reported, end)
