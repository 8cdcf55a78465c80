"""Load on a broker that is killed repeatedly: producers that remember their acknowledgements, and readers that remember what they
saw.

Each partition has one sender, so the order is known. A batch is remembered as the bytes that the log must hold: what was sent,
placed at the acknowledged offset.
"""

import random
import struct
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from headrace.wire.batch.record_batch import BatchHeader, crc_matches, iter_batches, iter_records
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import produce
from tests.support.processes import eventually
from tests.support.raw_kafka import Closed, RawClient, batch, produce_body
from tests.support.raw_kafka import create_topic as create_topic

IN_FLIGHT = 5
"""The most that an idempotent producer may have."""
_NOT_NOW = (OSError, Closed, struct.error)


def new_producer_id(port: int) -> int:
    """Return a new producer id; wait for it if the broker has none in stock yet."""

    def ask() -> Any:
        with RawClient(port) as client:
            answer = client.ask(22, 4, {"transactional_id": None, "transaction_timeout_ms": 1_000})
            return answer if answer.error_code == 0 else None

    return int(eventually(ask, what="a producer id").producer_id)


def placed(data: bytes, base_offset: int) -> bytes:
    """Return the batch as the log holds it when its first record is at `base_offset`."""
    copy = bytearray(data)
    copy[:8], copy[12:16] = base_offset.to_bytes(8, "big"), bytes(4)
    return bytes(copy)


class Sender(threading.Thread):
    """One producer of one partition. Idempotent with a `producer_id`: it sends unanswered batches again, in order."""

    def __init__(self, port: int, topic: str, partition: int, *, acks: int, producer_id: int | None, seed: object) -> None:
        super().__init__(daemon=True)
        self.topic = topic
        self.partition = partition
        self.is_idempotent = producer_id is not None
        self.acknowledged: dict[int, bytes] = {}
        """Offset to batch."""
        self.sent: list[bytes] = []
        """The first value of every batch that was ever sent, in order."""
        self.faults: list[str] = []
        self.may_send = threading.Event()
        """While cleared, no new batch is sent; those in flight are completed."""
        self.may_send.set()
        self._port = port
        self._acks = acks
        self._producer_id = -1 if producer_id is None else producer_id
        self._sequence = 0
        self._chance = random.Random(f"{seed}/{topic}/{partition}")
        self._in_flight: deque[bytes] = deque()
        self._done = threading.Event()

    def finish(self) -> None:
        """Send nothing new; wait until everything in flight is answered."""
        self._done.set()
        self.may_send.set()
        self.join(60)
        assert not self.is_alive(), f"{self.topic}-{self.partition}: {len(self._in_flight)} batches are never answered"

    def run(self) -> None:
        while not (self._done.is_set() and not self._in_flight) and not self.faults:
            if not self._in_flight:
                self.may_send.wait()
            try:
                with RawClient(self._port, timeout_ms=20_000) as client:
                    self._send(client)
            except _NOT_NOW:
                self._done.wait(0.02)

    def _send(self, client: RawClient) -> None:
        if self.is_idempotent:
            for data in self._in_flight:
                self._put(client, data)
        else:
            self._in_flight.clear()
        while True:
            while len(self._in_flight) < IN_FLIGHT and self.may_send.is_set() and not self._done.is_set():
                data = self._next()
                self._in_flight.append(data)
                self._put(client, data)
            if not self._in_flight:
                return
            answer = produce.decode_response(9, client.receive(produce.API_KEY, 9)[1]).topics[0].partitions[0]
            if answer.error_code:
                self._refused(ErrorCode(answer.error_code), answer.error_message)
                return
            data = self._in_flight.popleft()
            self.acknowledged[answer.base_offset] = placed(data, answer.base_offset)

    def _put(self, client: RawClient, data: bytes) -> None:
        client.send(produce.API_KEY, 9, produce_body(self.topic, data, partition=self.partition, acks=self._acks))

    def _refused(self, code: ErrorCode, why: str | None) -> None:
        if not code.retriable:
            self.faults.append(f"{self.topic}-{self.partition}: {code.name}: {why}")
        self._done.wait(0.02)

    def _next(self) -> bytes:
        chance = self._chance
        first = b"%s-%d %08d " % (self.topic.encode(), self.partition, len(self.sent))
        values = [
            first + b"%d " % number + chance.randbytes(chance.choice((0, 20, 200))) for number in range(chance.randint(1, 3))
        ]
        self.sent.append(values[0])
        if not self.is_idempotent:
            return batch(*values)
        sequence, self._sequence = self._sequence, self._sequence + len(values)
        return batch(*values, producer_id=self._producer_id, epoch=0, sequence=sequence)


class Reader(threading.Thread):
    """Reads a partition from the beginning, repeatedly from its last position, and remembers what it saw."""

    def __init__(self, port: int, topic: str, partition: int) -> None:
        super().__init__(daemon=True)
        self.topic = topic
        self.partition = partition
        self.seen: dict[int, bytes] = {}
        self._port = port
        self._offset = 0
        self._done = threading.Event()

    def finish(self) -> None:
        self._done.set()
        self.join(60)

    def run(self) -> None:
        while not self._done.is_set():
            try:
                with RawClient(self._port) as client:
                    while not self._done.is_set():
                        self._read(client)
            except _NOT_NOW:
                self._done.wait(0.02)

    def _read(self, client: RawClient) -> None:
        answer = client.fetch(self.topic, self._offset, partition=self.partition, max_wait_ms=50)
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and answer.log_start_offset > self._offset:
            self._offset = answer.log_start_offset
        for header, data in whole_batches(answer.records):
            self.seen[header.base_offset] = bytes(data)
            self._offset = header.next_offset


def whole_batches(records: Any) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches of a fetch, each checked."""
    for header, data in iter_batches(records or b""):
        assert crc_matches(data, 0, header.size_bytes), f"the batch at offset {header.base_offset} is damaged"
        yield header, data


def read_all(port: int, topic: str, partition: int, from_offset: int = 0) -> tuple[int, dict[int, bytes]]:
    """Return the log start, and every batch by offset, from `from_offset` or the start on."""
    found: dict[int, bytes] = {}
    with RawClient(port, timeout_ms=20_000) as client:
        offset = from_offset
        while True:
            answer = client.fetch(topic, offset, partition=partition)
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and answer.log_start_offset > offset:
                offset = answer.log_start_offset
                continue
            assert answer.error_code == 0, ErrorCode(answer.error_code).name
            before = offset
            for header, data in whole_batches(answer.records):
                assert header.next_offset > offset, "offsets ascend"  # a log may start inside a batch
                found[header.base_offset] = bytes(data)
                offset = header.next_offset
            if offset == before:
                return answer.log_start_offset, found


def first_value(data: bytes) -> bytes:
    """Return the first record's value."""
    value = next(iter_records(data)).value
    assert value is not None
    return value
