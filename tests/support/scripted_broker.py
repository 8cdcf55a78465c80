"""A loopback server that speaks a small part of Kafka's protocol, for faults on demand: a real socket and a real log.

It keeps batches with dense offsets, as Apache Kafka does, and knows idempotent producers by (id, partition): so a test may count
what was stored after any fault.
A fault is named per API and used once, in order.
"""

import socket
import struct
import threading
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field

from headrace.wire.batch.record_batch import BatchHeader, iter_records, read_header
from headrace.wire.messages import control, fetch, produce

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS, INIT_PRODUCER_ID = 0, 1, 2, 3, 18, 19, 22
SERVED = {
    PRODUCE: (0, 9),
    FETCH: (4, 12),
    LIST_OFFSETS: (1, 7),
    METADATA: (0, 9),
    API_VERSIONS: (0, 3),
    CREATE_TOPICS: (0, 7),
    INIT_PRODUCER_ID: (0, 4),
}


@dataclass(frozen=True)
class Fault:
    """A fault in one response. `error_code`: every partition gets this error, and the request is not carried out."""

    close_before: bool = False
    """Close without carrying the request out."""
    close_after: bool = False
    """Carry it out and close without an answer."""
    cut_at: int | None = None
    """Carry it out and send only so many bytes of the answer."""
    padding_bytes: int = 0
    """Send so many bytes more than the answer has."""
    drip: tuple[int, int] | None = None
    """Send the answer in pieces of so many bytes, with a pause (ms) before each."""
    wrong_correlation_id: bool = False
    garbage: bool = False
    delay_ms: int = 0
    error_code: int = 0
    forgets_producers: bool = False
    """Produce only: the broker no longer knows any sequence when it looks at the request."""
    damage_at: int | None = None
    """Fetch only: flip a bit in this byte of the records."""


@dataclass
class Partition:
    batches: list[tuple[int, bytearray]] = field(default_factory=list)
    """Each with the offset behind it, kept apart from the bytes so that these may be damaged."""
    log_start_offset: int = 0
    next_offset: int = 0
    sequences: dict[tuple[int, int], int] = field(default_factory=dict)
    last: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def forget(self) -> None:
        self.sequences.clear()
        self.last.clear()


class ScriptedBroker:
    def __init__(self, topics: dict[str, int] | None = None, port: int = 0) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.topics: dict[str, list[Partition]] = {name: [Partition() for _ in range(n)] for name, n in (topics or {}).items()}
        self.served = dict(SERVED)
        self.features: list[str] = []
        self.faults: dict[int, deque[Fault]] = defaultdict(deque)
        self.requests: list[tuple[int, int]] = []
        self.produced: list[list[tuple[str, int, int]]] = []
        """Per produce request: (topic, partition, records) of each batch."""
        self.headers: list[BatchHeader] = []
        """Of each batch that a produce request brought, stored or not."""
        self.auto_create = False
        self.next_producer_id = 100
        self._lock = threading.Lock()
        self.connections: set[socket.socket] = set()
        self._is_closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def fail(self, api_key: int, *faults: Fault) -> None:
        self.faults[api_key].extend(faults)

    def count(self, api_key: int) -> int:
        return sum(1 for key, _ in self.requests if key == api_key)

    def values(self, topic: str, partition: int) -> list[bytes | None]:
        """Return the stored values of a partition in log order."""
        with self._lock:
            batches = [bytes(batch) for _, batch in self.topics[topic][partition].batches]
        return [record.value for batch in batches for record in iter_records(batch)]

    def all_values(self, topic: str) -> list[bytes | None]:
        return [value for partition in range(len(self.topics[topic])) for value in self.values(topic, partition)]

    def store(self, topic: str, partition: int, batch: bytes) -> int:
        """Put a batch at the partition's end as a broker would; return its base offset."""
        with self._lock:
            return self._append(self.topics[topic][partition], batch)

    def drop_connections(self) -> None:
        for held in list(self.connections):
            try:
                held.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        # Closing alone leaves a thread in `accept`, which then takes one more.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_connections()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            self.connections.add(accepted)
            threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        try:
            with peer:
                while (frame := _frame(peer)) is not None:
                    if not self._answer(peer, frame):
                        return
        except OSError:
            pass
        finally:
            self.connections.discard(peer)

    def _answer(self, peer: socket.socket, frame: bytes) -> bool:
        header, at = control.read_request_header(frame)
        key, version = header.api_key, header.api_version
        self.requests.append((key, version))
        waiting = self.faults[key]
        fault = waiting.popleft() if waiting else Fault()
        if fault.delay_ms:
            time.sleep(fault.delay_ms / 1000)
        if fault.close_before:
            return False
        with self._lock:
            body = self._carry_out(key, version, memoryview(bytearray(frame))[at:], fault)
        if fault.close_after:
            return False
        correlation_id = header.correlation_id + (7 if fault.wrong_correlation_id else 0)
        answer = control.write_response_header(key, version, correlation_id) + body
        if fault.garbage:
            answer = control.write_response_header(key, version, correlation_id) + b"\xff" * 11
        answer += bytes(fault.padding_bytes)
        framed = struct.pack(">i", len(answer)) + answer
        if fault.drip is not None:
            size, pause_ms = fault.drip
            for begin in range(0, len(framed), size):
                time.sleep(pause_ms / 1000)
                peer.sendall(framed[begin : begin + size])
            return True
        peer.sendall(framed if fault.cut_at is None else framed[: fault.cut_at])
        return fault.cut_at is None

    def _carry_out(self, key: int, version: int, body: memoryview, fault: Fault) -> bytes:
        if key == API_VERSIONS:
            return control.encode_api_versions(version, self.served, self.features)
        if key == PRODUCE:
            return self._produce(version, body, fault)
        if key == FETCH:
            return self._fetch(version, body, fault)
        request = control.decode_request(key, version, body)
        if key == METADATA:
            return control.encode_response(key, version, self._metadata(request, fault))
        if key == INIT_PRODUCER_ID:
            self.next_producer_id += 0 if fault.error_code else 1
            answer = {
                "throttle_time_ms": 0,
                "error_code": fault.error_code,
                "producer_id": self.next_producer_id,
                "producer_epoch": 0,
            }
            return control.encode_response(key, version, answer)
        if key == LIST_OFFSETS:
            return control.encode_response(key, version, self._offsets(request, fault))
        assert key == CREATE_TOPICS
        results = []
        for topic in request.topics:
            code = fault.error_code or (36 if topic.name in self.topics else 0)
            if not code:
                self.topics[topic.name] = [Partition() for _ in range(topic.num_partitions)]
            results.append({"name": topic.name, "error_code": code, "error_message": "said the broker" if code else None})
        return control.encode_response(key, version, {"throttle_time_ms": 0, "topics": results})

    def _metadata(self, request, fault):  # type: ignore[no-untyped-def]
        names = list(self.topics) if request.topics is None else [topic.name for topic in request.topics]
        topics = []
        for name in names:
            if name not in self.topics and self.auto_create and request.allow_auto_topic_creation:
                self.topics[name] = [Partition() for _ in range(3)]
            code = fault.error_code or (0 if name in self.topics else 3)
            partitions = [
                {"error_code": 0, "partition_index": index, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}
                for index in range(len(self.topics.get(name, [])))
            ]
            topics.append({"error_code": code, "name": name, "is_internal": False, "partitions": [] if code else partitions})
        brokers = [{"node_id": 1, "host": "127.0.0.1", "port": self.port, "rack": None}]
        return {"throttle_time_ms": 0, "brokers": brokers, "cluster_id": "scripted", "controller_id": 1, "topics": topics}

    def _offsets(self, request, fault):  # type: ignore[no-untyped-def]
        topics = []
        for topic in request.topics:
            found = []
            for asked in topic.partitions:
                held = self.topics[topic.name][asked.partition_index]
                offset = -1
                if asked.timestamp == -2:
                    offset = held.log_start_offset
                elif asked.timestamp == -1:
                    offset = held.next_offset
                else:
                    for _, batch in held.batches:
                        young = [record.offset for record in iter_records(batch) if record.timestamp_ms >= asked.timestamp]
                        if young and offset < 0:
                            offset = young[0]
                found.append(
                    {"partition_index": asked.partition_index, "error_code": fault.error_code, "timestamp": -1, "offset": offset}
                )
            topics.append({"name": topic.name, "partitions": found})
        return {"throttle_time_ms": 0, "topics": topics}

    def _produce(self, version: int, body: memoryview, fault: Fault) -> bytes:
        request = produce.decode_request(version, body)
        seen, topics = [], []
        for topic in request.topics:
            answers = []
            for part in topic.partitions:
                batch = bytes(part.records or b"")
                header = read_header(batch)
                assert header.size_bytes == len(batch), "one batch a partition and request"
                seen.append((topic.name, part.index, header.record_count))
                self.headers.append(header)
                if fault.forgets_producers:
                    self.topics[topic.name][part.index].forget()
                code, offset = fault.error_code, -1
                if not code:
                    code, offset = self._take(self.topics[topic.name][part.index], batch)
                answers.append(produce.ProduceResponsePartition(part.index, code, offset))
            topics.append(produce.ProduceResponseTopic(topic.name, answers))
        self.produced.append(seen)
        return produce.encode_response(version, produce.ProduceResponse(topics))

    def _take(self, held: Partition, batch: bytes) -> tuple[int, int]:
        header = read_header(batch)
        if header.producer_id >= 0:
            name = (header.producer_id, header.producer_epoch)
            expected = held.sequences.get(name, 0)
            if held.last.get(name, (None, 0))[0] == header.base_sequence:
                return 46, held.last[name][1]
            if header.base_sequence != expected:
                return (45 if name in held.sequences else 59), -1
            held.sequences[name] = expected + header.record_count
            held.last[name] = (header.base_sequence, held.next_offset)
        return 0, self._append(held, batch)

    @staticmethod
    def _append(held: Partition, batch: bytes) -> int:
        offset = held.next_offset
        placed = bytearray(batch)
        struct.pack_into(">q", placed, 0, offset)
        held.next_offset = offset + read_header(batch).last_offset_delta + 1
        held.batches.append((held.next_offset, placed))
        return offset

    def _fetch(self, version: int, body: memoryview, fault: Fault) -> bytes:
        request = fetch.decode_request(version, body)
        topics = []
        for topic in request.topics:
            answers = []
            for wanted in topic.partitions:
                held = self.topics[topic.name][wanted.index]
                code = fault.error_code
                if not code and not held.log_start_offset <= wanted.fetch_offset <= held.next_offset:
                    code = 1
                records = bytearray()
                if not code:
                    for next_offset, batch in held.batches:
                        if next_offset <= wanted.fetch_offset:
                            continue
                        if records and len(records) + len(batch) > wanted.partition_max_bytes:
                            records += batch[: wanted.partition_max_bytes - len(records)]
                            break
                        records += batch
                if fault.damage_at is not None and records:
                    records[fault.damage_at] ^= 0x10
                answers.append(
                    fetch.FetchResponsePartition(
                        wanted.index, code, held.next_offset, held.next_offset, held.log_start_offset, bytes(records)
                    )
                )
            topics.append(fetch.FetchResponseTopic(topic.name, answers))
        chunks = fetch.encode_response(version, fetch.FetchResponse(topics))
        return b"".join(bytes(chunk) for chunk in chunks)  # type: ignore[arg-type]


def _frame(peer: socket.socket) -> bytes | None:
    head = _exactly(peer, 4)
    return None if head is None else _exactly(peer, struct.unpack(">i", head)[0])


def _exactly(peer: socket.socket, size: int) -> bytes | None:
    taken = b""
    while len(taken) < size:
        more = peer.recv(size - len(taken))
        if not more:
            return None
        taken += more
    return taken
