"""A minimal Kafka client for tests of a server: one socket, and control over every byte."""

import socket
import ssl
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import BatchBuilder
from headrace.wire.messages import control, fetch, produce
from headrace.wire.messages.fetch import FetchResponsePartition


class Closed(Exception):
    """The server has closed the connection."""


class RawClient:
    """A connection to a loopback port. Responses are read in the order of their arrival."""

    def __init__(self, port: int, *, timeout_ms: int = 10_000, tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_ms / 1000)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self._correlation_id = 0

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, api_key: int, version: int, body: bytes) -> int:
        """Send one request and return its correlation id."""
        self._correlation_id += 1
        self.socket.sendall(frame(api_key, version, self._correlation_id, body))
        return self._correlation_id

    def receive(self, api_key: int, version: int) -> tuple[int, memoryview]:
        """Return the next answer's correlation id and body. Raises Closed."""
        size = struct.unpack(">i", self._exactly(4))[0]
        answer = self._exactly(size)
        correlation_id, at = control.read_response_header(api_key, version, answer)
        return correlation_id, memoryview(answer)[at:]

    def request(self, api_key: int, version: int, body: bytes) -> memoryview:
        """Send one request and return the body of its answer."""
        wanted = self.send(api_key, version, body)
        correlation_id, answer = self.receive(api_key, version)
        assert correlation_id == wanted, (correlation_id, wanted)
        return answer

    def ask(self, api_key: int, version: int, message: Mapping[str, Any]) -> Any:
        """Send a control-plane request given as a mapping and return its answer as kio's dataclass."""
        body = control.encode_request(api_key, version, message)
        return control.decode_response(api_key, version, self.request(api_key, version, body))

    def produce(
        self,
        topic: str,
        records: bytes | None,
        *,
        partition: int = 0,
        acks: int = 1,
        version: int = 9,
        conditional_start: int | None = None,
        transactional_id: str | None = None,
    ) -> produce.ProduceResponsePartition:
        """Send one batch and return the partition's answer."""
        body = produce_body(
            topic,
            records,
            partition=partition,
            acks=acks,
            version=version,
            conditional_start=conditional_start,
            transactional_id=transactional_id,
        )
        response = produce.decode_response(version, self.request(produce.API_KEY, version, body))
        return response.topics[0].partitions[0]

    def fetch(
        self,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 26,
        version: int = 12,
    ) -> FetchResponsePartition:
        """Fetch from one partition and return its answer."""
        answers = self.fetch_many([(topic, partition, offset)], max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes)
        return answers[topic, partition]

    def fetch_many(
        self,
        wanted: Sequence[tuple[str, int, int]],
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 26,
        version: int = 12,
    ) -> dict[tuple[str, int], FetchResponsePartition]:
        """Fetch from many partitions (topic, partition, offset) and return their answers."""
        body = fetch_body(wanted, max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, version=version)
        return fetched(version, self.request(fetch.API_KEY, version, body))

    def is_closed_by_peer(self) -> bool:
        """Wait for the end of the connection; return False when an answer comes instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                more = self.socket.recv(min(1 << 20, size - len(data)))
            except ConnectionError as error:
                raise Closed from error
            if not more:
                raise Closed
            data += more
        return bytes(data)


def create_topic(port: int, name: str, partitions: int, settings: dict[str, str]) -> None:
    """Make a topic and return when it exists."""
    configs = [{"name": setting, "value": value} for setting, value in settings.items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": configs}
    with RawClient(port) as client:
        (answer,) = client.ask(19, 7, {"topics": [topic], "timeout_ms": 10_000, "validate_only": False}).topics
        assert answer.error_code == 0, answer.error_message


def frame(api_key: int, version: int, correlation_id: int, body: bytes, client_id: str | None = "raw") -> bytes:
    """Return a whole request frame."""
    content = control.write_request_header(api_key, version, correlation_id, client_id) + body
    return struct.pack(">i", len(content)) + content


def produce_body(
    topic: str,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = 1,
    version: int = 9,
    conditional_start: int | None = None,
    transactional_id: str | None = None,
) -> bytes:
    """Return a Produce request's body for one partition."""
    wanted = produce.ProducePartition(partition, records, conditional_start)
    topics = [produce.ProduceTopic(topic, [wanted])]
    return produce.encode_request(version, produce.ProduceRequest(acks, 30_000, transactional_id, topics))


def fetch_body(
    wanted: Sequence[tuple[str, int, int]],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 26,
    partition_max_bytes: int = 1 << 20,
    version: int = 12,
) -> bytes:
    """Return a Fetch request's body for (topic, partition, offset)s."""
    topics: dict[str, list[fetch.FetchPartition]] = {}
    for topic, partition, offset in wanted:
        topics.setdefault(topic, []).append(fetch.FetchPartition(partition, offset, partition_max_bytes))
    request = fetch.FetchRequest(
        max_wait_ms, min_bytes, max_bytes, [fetch.FetchTopic(topic, partitions) for topic, partitions in topics.items()]
    )
    return fetch.encode_request(version, request)


def fetched(version: int, body: memoryview) -> dict[tuple[str, int], FetchResponsePartition]:
    """Return a Fetch answer's partitions."""
    response = fetch.decode_response(version, body)
    assert (response.error_code, response.session_id) == (0, 0)
    return {(str(topic.name), answer.index): answer for topic in response.topics for answer in topic.partitions}


def batch(
    *values: bytes | None,
    timestamp_ms: int = 1_700_000_000_000,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
) -> bytes:
    """Return a record batch with these values."""
    builder = BatchBuilder(codec=codec, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    for value in values:
        builder.append(timestamp_ms, None, value)
    return builder.build()
