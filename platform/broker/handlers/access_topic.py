"""Writes the trail of access into the topic `_headrace.access`, as JSON, one event a record. Lives on the loop thread.

A broker writes to the first partition that it leads, through the handler of Produce, so that what holds for a client's records
holds for these. Bounded: of the events that wait for the topic, those beyond a number are counted as left out. The log has all.
"""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from ...runtime.layout import ACCESS_TOPIC
from ...runtime.logs import get_logger
from ...wire.batch.record_batch import BatchBuilder
from ...wire.messages import produce as wire
from ..event_loop.deferred_response import Chunks, DeferredResponse
from ..network.peer import Peer
from ..network.principal import Principal
from . import produce
from .broker import Broker
from .request import Request

log = get_logger(__name__)

BROKER = Principal("Broker", "this")
"""Who writes: no login gives a client a principal of this type."""
SETTINGS = {"retention.ms": str(30 * 24 * 3_600_000)}
MOST_WAITING = 10_000
"""Events, some 400 bytes each."""
IN_ONE_BATCH = 1_000
RETRY_MS = 5_000
VERSION = 9


class AccessTopic:
    """The sink of the trail."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: deque[dict[str, Any]] = deque()
        self._is_busy = False

    def take(self, events: Sequence[dict[str, Any]]) -> None:
        """Write the events, now or when the topic can take them."""
        left_out = max(0, len(self._waiting) + len(events) - MOST_WAITING)
        self._broker.metrics.access_events_left_out += left_out
        self._waiting.extend(events[: len(events) - left_out])
        self._write()

    def _write(self) -> None:
        if self._is_busy or not self._waiting:
            return
        broker = self._broker
        self._is_busy = True
        if ACCESS_TOPIC not in broker.topics.catalog.topics:
            broker.topics.create(ACCESS_TOPIC, len(broker.broker_ids), SETTINGS, lambda outcome: self._later())
            return
        batch = list(islice(self._waiting, IN_ONE_BATCH))
        answers = self._produce(_batch_of(batch))
        for answer in answers:
            if isinstance(answer, DeferredResponse):
                answer.attach(lambda chunks: self._written(len(batch), chunks))
                if answer.answer is None:
                    return
                answer = b"".join(one for one in answer.answer if isinstance(one, bytes))
            if not _error_in(answer):
                self._written(len(batch), (answer,))
                return
        self._later()

    def _produce(self, records: bytes) -> Iterator[bytes | DeferredResponse]:
        """Try the partitions that are kept here, one after the other."""
        broker = self._broker
        peer = Peer("127.0.0.1:0", broker.settings.inter_broker_listener, BROKER)
        for index in sorted(broker.topics.catalog.topics[ACCESS_TOPIC].partitions):
            if broker.partitions.get(ACCESS_TOPIC, index) is None:
                continue
            topics = [wire.ProduceTopic(ACCESS_TOPIC, [wire.ProducePartition(index, records, None)])]
            body = memoryview(bytearray(wire.encode_request(VERSION, wire.ProduceRequest(1, 30_000, None, topics))))
            answer = produce.handle(broker, Request(VERSION, body, peer, body, -1))
            assert answer is not None, "it asks for an acknowledgement"
            yield answer

    def _written(self, count: int, chunks: Chunks) -> None:
        if _error_in(b"".join(one for one in chunks if isinstance(one, bytes))):
            self._later()
            return
        for _ in range(count):
            self._waiting.popleft()
        self._is_busy = False
        if self._waiting:
            self._broker.loop.post(self._write)

    def _later(self) -> None:
        def again() -> None:
            self._is_busy = False
            self._write()

        is_there = ACCESS_TOPIC in self._broker.topics.catalog.topics
        self._broker.loop.call_at(self._broker.loop.now_ms + (100 if is_there else RETRY_MS), again)


def _batch_of(events: Sequence[dict[str, Any]]) -> bytes:
    builder = BatchBuilder()
    for event in events:
        builder.append(event["time_ms"], None, json.dumps(event, separators=(",", ":")).encode())
    return builder.build()


def _error_in(body: bytes) -> int:
    return max(one.error_code for topic in wire.decode_response(VERSION, memoryview(body)).topics for one in topic.partitions)
